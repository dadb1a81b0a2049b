"""What broke rules in a version and was not accepted, as rows, and what reviewers have waived of it.

A waiver is about exactly what a reviewer saw. Anything else, and one row more, is judged anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, assert_fence


@dataclass(frozen=True)
class Breach:
    """One rule, broken in one partition (None: by all rows at once) of a version.

    `rule` is that of the judgement it belongs to. `content` (64 hex digits) stands for all that
    was seen, `failing` counts rows where rows broke it. `artifacts` are those of the version that
    it is made from and that readers do not have yet.
    """

    subject: str
    expectation: str
    what: str
    error: str
    severity: str
    rule: str | None
    partition: str | None
    content: str
    failing: int | None
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiver:
    """Who approved what had failed in this partition (None: in everything), and why."""

    waiver_id: int
    partition: str | None
    reason: str
    decided_by: str
    decided_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "waiver": self.waiver_id,
            "partition": self.partition,
            "by": self.decided_by,
            "at": self.decided_at.isoformat(),
            "reason": self.reason,
        }


def find_waivers(
    connection: psycopg.Connection, pipeline: str, breaches: Sequence[Breach]
) -> dict[Breach, Waiver]:
    """Those of the breaches that a reviewer has waived; any role that reads the waivers."""
    if not breaches:
        return {}
    rows = connection.execute(
        query("waivers_find"),
        {
            "pipeline": pipeline,
            "subjects": [each.subject for each in breaches],
            "expectations": [each.expectation for each in breaches],
            "contents": [each.content for each in breaches],
            "failing": [each.failing for each in breaches],
        },
    ).fetchall()
    return {breaches[position - 1]: Waiver(*waiver) for position, *waiver in rows}


def count_waivers(connection: psycopg.Connection, pipeline: str) -> int:
    """How many there are by now: they only ever become more."""
    row = connection.execute(
        "select count(*) from ops.waivers where pipeline = %s", [pipeline]
    ).fetchone()
    return int(row[0]) if row else 0


def record_breaches(
    connection: psycopg.Connection,
    lease: Lease,
    version_id: str,
    run_id: str,
    breaches: Iterable[Breach],
) -> None:
    """What stands in the version's way from now on, in the caller's transaction (the runner's).

    Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    connection.execute("delete from ops.breaches where version_id = %s", [version_id])
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into ops.breaches (version_id, run_id, subject, expectation, what, error, "
            "severity, rule, partition, content, failing, artifacts) "
            "values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                [
                    *(version_id, run_id, each.subject, each.expectation, each.what, each.error),
                    *(each.severity, each.rule, each.partition, each.content, each.failing),
                    list(each.artifacts),
                ]
                for each in breaches
            ],
        )


@dataclass(frozen=True)
class KnownBreach:
    """A breach as a person sees it."""

    subject: str
    what: str
    severity: str
    partition: str | None
    failing: int | None
    error: str
    artifacts: list[str]


def breaches_of(connection: psycopg.Connection, version_id: str) -> list[KnownBreach]:
    """What stands in the way of the version, or stood there when it was decided on."""
    with connection.cursor(row_factory=class_row(KnownBreach)) as cursor:
        return cursor.execute(
            "select subject, what, severity, partition, failing, error, artifacts "
            "from ops.breaches where version_id = %s order by breach_id",
            [version_id],
        ).fetchall()


def last_decision(connection: psycopg.Connection, version_id: str) -> str | None:
    """`rejected by ann: it is wrong`, of who decided on the version last; None if nobody has."""
    row = connection.execute(
        "select case action when 'review_reject' then 'rejected' else 'approved' end "
        "|| ' by ' || actor || ': ' || reason from ops.operator_actions where target = %s "
        "and action in ('review_approve', 'review_reject') order by action_id desc limit 1",
        [version_id],
    ).fetchone()
    return row[0] if row else None
