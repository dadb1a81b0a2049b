"""The store: relations that dbt built become immutable here, in one fenced transaction, or never.

loading → adopted | abandoned, by compare-and-set. Of two builders of one key the first adopts, and
the second uses what the first adopted.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from orchestration.errors import TransformFailure
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.dbt.plan import PlannedRelation
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.names import qualified
from orchestration.warehouse.roles import STORE_ROLE
from orchestration.warehouse.segments.adoption import (
    bound_columns,
    count_partitions,
    record_segment,
    record_view,
)
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.segments.texts import live_name

_LOCK_TIMEOUT = "2s"


@dataclass(frozen=True)
class Adoption:
    """What became of built relations.

    `adopted` maps models to relations, also where another builder's was first (`replaced`).
    `orphaned` are views that stand on a replaced table of ours: plan again, everything else is then
    reused, and build them.
    """

    adopted: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    orphaned: tuple[str, ...] = ()


def adopted_relations(connection: psycopg.Connection, keys: Collection[str]) -> dict[str, str]:
    """store key → adopted relation, for the keys that have one."""
    rows = connection.execute(
        "select content_key, relation_name from ops.relations "
        "where state = 'adopted' and content_key = any(%s)",
        [list(keys)],
    ).fetchall()
    return dict(rows)


def register_loading(
    connection: psycopg.Connection,
    planned: Iterable[PlannedRelation],
    *,
    run_id: str,
    lease: Lease,
) -> None:
    """Announces what is about to be built, so that a sweep finds it (transformer's connection)."""
    with connection.transaction():
        assert_fence(connection, lease)
        for relation in planned:
            connection.execute(
                "insert into ops.relations "
                "(relation_name, model, content_key, kind, run_id, lease_name, fence) "
                "values (%s, %s, %s, %s, %s, %s, %s)",
                [
                    *(relation.relation_name, relation.model, relation.store_key, relation.kind),
                    *(run_id, lease.name, lease.fence),
                ],
            )


def adopt_relations(
    connection: psycopg.Connection, planned: Sequence[PlannedRelation], lease: Lease
) -> Adoption:
    """Verifies, counts, analyzes, seals and adopts what was built, all or nothing.

    One transaction; the transformer's connection. Calling it again after an answer was lost changes
    nothing. Raises `LeaseLost`, or `TransformFailure` (transient) when a relation is missing or was
    given up by a sweep.
    """
    # Tables first and by key: two adopters then wait for each other, never in a circle.
    tables = sorted((p for p in planned if p.kind == "table"), key=lambda p: p.store_key)
    views = [p for p in planned if p.kind == "view"]
    adopted: dict[str, str] = {}
    replaced: dict[str, str] = {}
    orphaned: list[str] = []
    with connection.transaction():
        assert_fence(connection, lease)
        found = _describe(connection, [relation.relation_name for relation in planned])
        for relation in [*tables, *views]:
            if relation.kind == "view" and _stands_on(relation, {*replaced, *orphaned}):
                _abandon(connection, relation.relation_name)
                orphaned.append(relation.model)
                continue
            name = _adopt(connection, relation, found.get(relation.relation_name), lease)
            adopted[relation.model] = name
            if name != relation.relation_name:
                replaced[relation.model] = name
    return Adoption(adopted, replaced, tuple(orphaned))


def verify_adopted(connection: psycopg.Connection, relations: Collection[str]) -> list[str]:
    """Those that are not as they were adopted: missing, other owner, or other columns."""
    rows = connection.execute(
        "select relation_name, columns from ops.relations "
        "where state = 'adopted' and relation_name = any(%s)",
        [list(relations)],
    ).fetchall()
    recorded: dict[str, Any] = dict(rows)
    found = _describe(connection, relations)
    partitioned = _over_segments(connection, relations)
    return sorted(
        name
        for name in set(relations)
        if name not in recorded
        or name not in found
        or found[name]["owner"] != STORE_ROLE
        or _shown(found[name]["columns"], hides_partition=name in partitioned) != recorded[name]
    )


def abandon_earlier(connection: psycopg.Connection, lease: Lease) -> None:
    """Gives up what earlier attempts under the lease were building, also in this very process.

    Whoever calls it holds the lease and builds nothing yet. One transaction; the transformer's
    connection. Raises `LeaseLost`.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.relations set state = 'abandoned' "
            "where state = 'loading' and lease_name = %s",
            [lease.name],
        )


def sweep_abandoned(connection: psycopg.Connection) -> list[str]:
    """Gives up what dead attempts were building, then drops it; returns what was dropped.

    Marked before it is dropped, so that nobody can adopt it meanwhile; what is still in use is left
    to the next sweep. Needs the transformer's connection in autocommit.
    """
    with connection.transaction():
        connection.execute(query("store_abandon_dead"))
    leftovers = connection.execute(query("store_leftovers")).fetchall()
    dropped = []
    for name, kind in leftovers:
        try:
            with connection.transaction():
                connection.execute(
                    sql.SQL("set local lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT))
                )
                connection.execute(_drop(kind, name))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DependentObjectsStillExist):
            continue
        dropped.append(name)
    return dropped


def _adopt(
    connection: psycopg.Connection,
    relation: PlannedRelation,
    found: dict[str, Any] | None,
    lease: Lease,
) -> str:
    name = relation.relation_name
    known = _state(connection, name)
    if known == "adopted":
        return name
    if found is None or found["kind"] != relation.kind or known != "loading":
        raise TransformFailure(
            f"{relation.model}: {name} is {'missing' if found is None else 'not what was built'}, "
            "so nothing of this build is used; run the same command again",
            code="relation_missing",
            transient=True,
        )
    try:
        with connection.transaction():
            _mark_adopted(connection, relation, found["columns"], lease)
    except psycopg.errors.UniqueViolation:
        winner = adopted_relations(connection, [relation.store_key])[relation.store_key]
        _abandon(connection, name)
        return winner
    if relation.pieces is not None:
        connection.execute("select ops.seal_relation(%s)", [live_name(name)])
    connection.execute("select ops.seal_relation(%s)", [name])
    return name


def _mark_adopted(
    connection: psycopg.Connection, relation: PlannedRelation, columns: Any, lease: Lease
) -> None:
    name = relation.relation_name
    rows = None
    if relation.pieces is not None:
        rows = record_view(connection, name, relation.pieces)
        columns = _shown(columns, hides_partition=True)
    elif relation.partitions is not None:
        counts = count_partitions(connection, relation.model, name, relation.partitions)
        bound_columns(connection, name, columns)
        record_segment(connection, name, relation.partitions, counts)
        rows = sum(counts.values())
    elif relation.kind == "table":
        counted = connection.execute(
            sql.SQL("select count(*) from {}").format(qualified(STORE_SCHEMA, name))
        ).fetchone()
        rows = counted[0] if counted else 0
    if relation.kind == "table":
        connection.execute(sql.SQL("analyze {}").format(qualified(STORE_SCHEMA, name)))
    changed = connection.execute(
        query("store_adopt"),
        {
            "relation": relation.relation_name,
            "row_count": rows,
            "columns": Jsonb(columns),
            "fence": lease.fence,
        },
    ).rowcount
    if changed != 1:
        raise TransformFailure(
            f"{relation.model}: {relation.relation_name} was given up by another process before it "
            "could be adopted; run the same command again",
            code="relation_abandoned",
            transient=True,
        )


def _abandon(connection: psycopg.Connection, name: str) -> None:
    connection.execute(
        "update ops.relations set state = 'abandoned' "
        "where relation_name = %s and state = 'loading'",
        [name],
    )


def _state(connection: psycopg.Connection, name: str) -> str | None:
    row = connection.execute(
        "select state from ops.relations where relation_name = %s", [name]
    ).fetchone()
    return str(row[0]) if row else None


def _over_segments(connection: psycopg.Connection, relations: Collection[str]) -> set[str]:
    rows = connection.execute(
        "select distinct view_name from ops.view_segments where view_name = any(%s)",
        [list(relations)],
    ).fetchall()
    return {name for (name,) in rows}


def _shown(columns: Any, *, hides_partition: bool) -> Any:
    """The columns that readers see: the one that says which partition a row is in is ours."""
    return [c for c in columns if not (hides_partition and c["name"] == PARTITION_COLUMN)]


def _stands_on(relation: PlannedRelation, models: set[str]) -> bool:
    return not models.isdisjoint(relation.parents)


def _describe(
    connection: psycopg.Connection, relations: Collection[str]
) -> dict[str, dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(query("store_columns"), {"relations": list(relations)})
        return {row["relation_name"]: row for row in cursor.fetchall()}


def _drop(kind: str, name: str) -> sql.Composed:
    return sql.SQL("drop {} if exists {}").format(
        sql.SQL("table" if kind == "table" else "view"), qualified(STORE_SCHEMA, name)
    )
