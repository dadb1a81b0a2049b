"""Whether partitions may be built one at a time: sampled ones are made both ways and compared.

A model that looks at other partitions without saying so (`lookback`) would store other rows each
time its neighbours are there or not; it is refused the first time its definition is built.
"""

from collections.abc import Mapping, Sequence
from math import isclose, isnan
from typing import Any

import psycopg
from psycopg import sql

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN, ModelNode
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.names import identifier

_SAMPLES = 3
_NEIGHBOURS = 8
# Sums of doubles depend on the order of the rows, by far less than any difference that matters.
_RELATIVE_TOLERANCE = 1e-9
_FLOATS = ("double precision", "real")

Content = tuple[Any, ...]


def check_independence(connection: psycopg.Connection, writer: Writer, lease: Lease) -> None:
    """Checks what is new in the plan; the transformer's connection in autocommit.

    Raises `ConfigurationError` (`partitions_depend`) that names the model and a partition, or
    `LeaseLost`.
    """
    for name in writer.plan.new_partitions:
        model = writer.graph.model(name)
        keys = writer.keys[name]
        known = sorted(keys.partition_keys or {})
        if len(known) < 2 or _is_checked(connection, keys.definition_key):
            continue
        samples = _sample(known)
        for partition in samples:
            _compare(connection, writer, model, partition, known)
        record_check(connection, keys.definition_key, name, samples, lease)


def record_check(
    connection: psycopg.Connection,
    definition_key: str,
    model: str,
    partitions: Sequence[str],
    lease: Lease,
) -> None:
    """Writes down that these partitions came out the same both ways. Raises `LeaseLost`."""
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "insert into ops.partition_checks (definition_key, model, partitions) "
            "values (%s, %s, %s) on conflict do nothing",
            [definition_key, model, list(partitions)],
        )


def _is_checked(connection: psycopg.Connection, definition_key: str) -> bool:
    row = connection.execute(
        "select exists (select from ops.partition_checks where definition_key = %s)",
        [definition_key],
    ).fetchone()
    return bool(row and row[0])


def _sample(known: Sequence[str]) -> list[str]:
    """The first, the middle and the last: borders are where neighbours are missed."""
    last = len(known) - 1
    return [known[position] for position in sorted({0, last // 2, last})][:_SAMPLES]


def _compare(
    connection: psycopg.Connection,
    writer: Writer,
    model: ModelNode,
    partition: str,
    known: Sequence[str],
) -> None:
    position = known.index(partition)
    reach = model.lookback + _NEIGHBOURS
    together = known[max(0, position - reach) : position + reach + 1]
    alone = _content(connection, writer, model, [partition], partition)
    inside = _content(connection, writer, model, together, partition)
    if _differ(alone, inside):
        raise ConfigurationError(
            f"{model.title}: partition {partition} comes out differently when it is built alone "
            f"({alone[0]} rows) and together with its neighbours ({inside[0]} rows), so it reads "
            "other partitions. Say how many before it in the config (lookback: N), or take "
            "partition_by out",
            code="partitions_depend",
        )


def _content(
    connection: psycopg.Connection,
    writer: Writer,
    model: ModelNode,
    partitions: Sequence[str],
    partition: str,
) -> Content:
    """(rows, checksum of all but floats, sum and sum of squares of each float) of the partition."""
    views, code = writer.restricted(model, partitions, f"{model.name}:{partitions}")
    types = _types(model)
    exact = [name for name in model.contract_columns if types[name] not in _FLOATS]
    sums = [
        text.format(sql.Identifier(name))
        for name in model.contract_columns
        if types[name] in _FLOATS
        for text in (sql.SQL("sum({0})"), sql.SQL("sum({0} * {0})"))
    ]
    statement = sql.SQL("select {} from ({}\n) as built where {} = {}").format(
        sql.SQL(", ").join(
            [
                sql.SQL("count(*)"),
                sql.SQL("sum(hashtextextended(row({})::text, 0)::numeric)").format(
                    sql.SQL(", ").join(sql.Identifier(name) for name in exact)
                ),
                *sums,
            ]
        ),
        sql.SQL(code),
        identifier(PARTITION_COLUMN),
        sql.Literal(partition),
    )
    # The views are needed by this one query; nothing of it stays.
    with connection.transaction(force_rollback=True):
        for view in views:
            connection.execute(view.encode())
        return connection.execute(statement).fetchone() or ()


def _types(model: ModelNode) -> Mapping[str, str]:
    return {str(e[0]): str(e[1]).lower() for e in model.contract if isinstance(e, list)}


def _differ(alone: Content, inside: Content) -> bool:
    if alone[:2] != inside[:2]:
        return True
    return any(not _close(one, other) for one, other in zip(alone[2:], inside[2:], strict=True))


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        one == other
        or isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)
        or (isnan(one) and isnan(other))
    )
