"""What gates have said, as rows: by which rule, of which version. The next gate builds on it.

An accepted judgement says that a rule holds for everything in a version. So of a later version
only the partitions are in question that this one does not have; together with those that both have,
nothing is left out, also of what concerns two partitions at once.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from orchestration.sql.queries import query
from orchestration.warehouse.content import Contents, Parts
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.segments.slices import Slices

# What was waived had failed, and a reviewer has approved it; some pipelines accept what failed.
_WORSE = ("passed", "warned", "waived", "failed")
# The newest is nearly always the closest; a version that was only tried out may stand before it.
_CANDIDATES = 5


@dataclass(frozen=True)
class Rule:
    """What is judged. `digest` holds all that decides the outcome but the partitions of `parts`.

    Without a digest it depends on something that nobody can see, and is judged each time.
    """

    subject: str
    digest: str | None
    parts: Parts = field(default_factory=Parts)


@dataclass(frozen=True)
class Basis:
    """An earlier judgement that holds for everything but the partitions in `changed`."""

    version_id: str
    verdict: str
    changed: frozenset[str]

    def is_of(self, version_id: str) -> bool:
        """Whether it was said of that very version."""
        return self.version_id == version_id


@dataclass(frozen=True)
class Judged:
    """What is said of a version by one rule: of what was looked at, and of the rest by its basis.

    `verdict` is on what was looked at, `waivers` are those that it rests on.
    """

    rule: Rule
    verdict: str
    basis: Basis | None
    verdict_id: int
    waivers: tuple[int, ...] = ()

    @property
    def worst(self) -> str:
        """The worst that was said about any partition."""
        said = [self.verdict, *([self.basis.verdict] if self.basis else [])]
        return max(said, key=_WORSE.index)


def find_bases(
    connection: psycopg.Connection,
    contents: Contents,
    pipeline: str,
    version_id: str,
    rules: Iterable[Rule],
    accepted: Collection[str],
    *,
    anew: bool = False,
) -> dict[Rule, Basis]:
    """For each rule that was accepted before, the judgement that leaves the least to look at.

    `accepted` are the verdicts that count; what was waived always does. `anew` leaves out what was
    said about this very version.
    """
    known = {(rule.subject, rule.digest): rule for rule in rules if rule.digest is not None}
    rows = connection.execute(
        query("judgements_find"),
        {
            "pipeline": pipeline,
            "subjects": [subject for subject, _ in known],
            "rules": [digest for _, digest in known],
            "accepted": [*accepted, "waived"],
            "but": version_id if anew else None,
            "most": _CANDIDATES,
        },
    ).fetchall()
    bases: dict[Rule, Basis] = {}
    for subject, digest, earlier, verdict in rows:
        rule = known[subject, digest]
        changed = contents.changed(version_id, earlier, rule.parts)
        if rule not in bases or len(changed) < len(bases[rule].changed):
            bases[rule] = Basis(earlier, verdict, changed)
    return bases


def record_judgements(
    connection: psycopg.Connection,
    lease: Lease,
    pipeline: str,
    version_id: str,
    judged: Iterable[Judged],
) -> None:
    """Keeps what was said of this version, in the caller's transaction (the runner's).

    What is accepted is a basis of later gates; what is not says what a reviewer may waive.

    Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    with connection.cursor() as cursor:
        cursor.executemany(
            query("judgements_record"),
            [
                {
                    "pipeline": pipeline,
                    "subject": each.rule.subject,
                    "rule": each.rule.digest,
                    "version_id": version_id,
                    "verdict": each.worst,
                    "partitions": sorted(each.basis.changed) if each.basis else None,
                    "based_on": each.basis.version_id if each.basis else None,
                    "verdict_id": each.verdict_id,
                    "waivers": list(each.waivers),
                }
                for each in judged
                if each.rule.digest is not None
            ],
        )


def partitions_without_extremes(
    connection: psycopg.Connection, relation: str, column: str
) -> list[str]:
    """Partitions that the view shows and whose least and greatest value nobody has read yet."""
    rows = connection.execute(
        query("extremes_missing"), {"relation_name": relation, "column_name": column}
    ).fetchall()
    return sorted(name for (name,) in rows)


def record_extremes(
    connection: psycopg.Connection,
    lease: Lease,
    slices: Slices,
    column: str,
    names: Collection[str],
) -> None:
    """Reads and keeps the extremes of a column in these partitions (the runner's transaction)."""
    assert_fence(connection, lease)
    ordered = sorted(names)
    connection.execute(
        sql.SQL(query("extremes_record")).format(
            name=sql.Literal(column),
            column=sql.Identifier(column),
            partition=sql.Identifier(PARTITION_COLUMN),
            rows=sql.SQL(slices.rows(ordered)),
        ),
        {
            "partitions": ordered,
            "keys": [slices.visible[name].partition_key for name in ordered],
        },
    )
