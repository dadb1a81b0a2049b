"""Whether partitions may be built one at a time: sampled ones are made both ways and compared.

A model that looks at other partitions without saying so (`lookback`) would store other rows each
time its neighbours are there or not; it is refused the first time its definition is built.
"""

from collections.abc import Sequence

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.segments.adoption import count_partitions
from orchestration.warehouse.segments.contents import Content, read_content

# So far beyond the lookback, and weeks, a month, a quarter or a year away, other reads are looked for.
_NEIGHBOURS = 8
_FAR = (14, 21, *range(28, 32), *range(89, 93), *range(364, 367))


def check_independence(connection: psycopg.Connection, writer: Writer, lease: Lease | None) -> None:
    """Checks what is new in the plan and was built; the builder's connection in autocommit.

    Without a lease it is not written down that it held, and will be checked again.

    Raises `ConfigurationError` (`partitions_depend`) that names the model and a partition,
    `TransformFailure` for rows of partitions that were not to be built, or `LeaseLost`.
    """
    for planned in writer.plan.by_dbt:
        name = planned.model
        known = sorted(writer.keys[name].partition_keys or {})
        checked = _checked_key(writer, name)
        if planned.partitions is None or len(known) < 2 or _is_checked(connection, checked):
            continue
        # A row that is in another partition than its input would look as if it had been read there.
        count_partitions(connection, name, planned.relation_name, planned.partitions, writer.places)
        model = writer.graph.model(name)
        samples = _sample(known)
        rows = sum(_compare(connection, writer, model, each, known) for each in samples)
        # Without any row nothing was seen.
        if rows and lease is not None:
            record_check(connection, checked, name, samples, lease)


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


def _checked_key(writer: Writer, name: str) -> str:
    """The definitions that decide it: the model's, and those of views that it reads in parts."""
    read = {}
    pending = [name]
    while pending:
        model = writer.graph.model(pending.pop())
        read[model.name] = writer.keys[model.name].definition_key
        pending += [
            parent
            for parent in model.parents
            if writer.keys[parent].partition_keys is not None
            and not writer.graph.model(parent).is_partitioned
        ]
    return digest([read.pop(name), read])


def _is_checked(connection: psycopg.Connection, definition_key: str) -> bool:
    row = connection.execute(
        "select exists (select from ops.partition_checks where definition_key = %s)",
        [definition_key],
    ).fetchone()
    return bool(row and row[0])


def _sample(known: Sequence[str]) -> list[str]:
    """The first, the middle and the last: borders are where neighbours are missed."""
    last = len(known) - 1
    return [known[position] for position in sorted({0, last // 2, last})]


def _compare(
    connection: psycopg.Connection,
    writer: Writer,
    model: ModelNode,
    partition: str,
    known: Sequence[str],
) -> int:
    """How many rows the partition has. Raises `ConfigurationError` when it has others together."""
    position = known.index(partition)
    distances = {*range(model.lookback + _NEIGHBOURS + 1), *_FAR}
    places = {position + way * distance for way in (-1, 1) for distance in distances}
    together = [known[place] for place in sorted(places) if 0 <= place < len(known)]
    alone = _content(connection, writer, model, [partition], partition)
    inside = _content(connection, writer, model, together, partition)
    if not alone.matches(inside):
        raise ConfigurationError(
            f"{model.title}: partition {partition} comes out differently when it is built alone "
            f"({alone.rows} rows) and together with its neighbours ({inside.rows} rows), so it reads "
            "other partitions, or depends on the order in which rows come. Say how many partitions "
            "before it are read (lookback: N), order what has to be ordered, or take partition_by out",
            code="partitions_depend",
        )
    return alone.rows


def _content(
    connection: psycopg.Connection,
    writer: Writer,
    model: ModelNode,
    partitions: Sequence[str],
    partition: str,
) -> Content:
    """What the model makes of `partition` when it is built with `partitions`."""
    views, code = writer.restricted(model, partitions, f"{model.name}:{partitions}")
    # The views are needed by this alone; nothing of them stays.
    with connection.transaction(force_rollback=True):
        for view in views:
            connection.execute(view.encode())
        return read_content(connection, code, model.contract_columns, partition)
