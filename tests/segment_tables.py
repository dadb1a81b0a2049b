"""Hand-made segments of a partitioned model, and the two views over them, as the store keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.types.json import Jsonb

from orchestration.identity import digest


@dataclass(frozen=True)
class Segment:
    """One table: a select whose last column is `_partition`, and the partitions that are in it."""

    text: str
    partitions: tuple[str, ...]


Segments = Sequence[Segment]


def add_partitioned(
    connection: psycopg.Connection, name: str, model: str, segments: Segments, after: str = ""
) -> str:
    """The relation of a partitioned model (transformer's connection); a later segment hides what
    earlier ones have of its partitions."""
    key = digest([name, model, [[item.text, *item.partitions] for item in segments]])
    relation = f"{model}__{key[:12]}"
    if _exists(connection, relation):
        return relation
    branches = []
    links: list[tuple[str, list[str]]] = []
    for index, segment in enumerate(segments):
        table = _add_segment(connection, name, model, segment, after)
        later = {part for item in segments[index + 1 :] for part in item.partitions}
        hidden = sorted(later & set(segment.partitions))
        live = f"_partition <> all (array{hidden}::text[])" if hidden else "true"
        branches.append(f"select *, {live} as _live from store.{table}")
        links.append((table, hidden))
    connection.execute(
        f"create view store.{relation}__live as {' union all '.join(branches)}".encode()
    )
    columns = _columns(connection, f"{relation}__live")[:-1]
    names = ", ".join(column["name"] for column in columns)
    connection.execute(
        f"create view store.{relation} as select {names} from store.{relation}__live "
        "where _live".encode()
    )
    for view in (relation, f"{relation}__live"):
        connection.execute("select ops.seal_relation(%s)", [view])
    _record(connection, relation, model, key, "view", columns[:-1])
    for table, hidden in links:
        connection.execute(
            "insert into ops.view_segments values (%s, %s, %s)", [relation, table, hidden]
        )
    return relation


def _add_segment(
    connection: psycopg.Connection, name: str, model: str, segment: Segment, after: str
) -> str:
    key = digest([name, model, segment.text, *segment.partitions])
    table = f"{model}__{key[:12]}"
    if _exists(connection, table):
        return table
    parts = ", ".join(f"'{part}'" for part in segment.partitions)
    connection.execute(f"create table store.{table} as {segment.text}".encode())
    connection.execute(f"alter table store.{table} add check (_partition in ({parts}))".encode())
    connection.execute((after.replace("{relation}", f"store.{table}") or "select 1").encode())
    connection.execute(f"analyze store.{table}".encode())
    connection.execute("select ops.seal_relation(%s)", [table])
    _record(connection, table, model, key, "table", _columns(connection, table))
    for part in segment.partitions:
        connection.execute(
            f"insert into ops.segment_partitions select %s, %s, %s, count(*) from store.{table} "
            "where _partition = %s".encode(),
            [table, part, digest([key, part]), part],
        )
    return table


def _record(
    connection: psycopg.Connection,
    relation: str,
    model: str,
    key: str,
    kind: str,
    columns: list[dict[str, str]],
) -> None:
    connection.execute(
        "insert into ops.relations (relation_name, model, content_key, kind, run_id, lease_name, "
        "fence, state, row_count, columns) values (%s, %s, %s, %s, 'r', 'l', 1, 'adopted', 0, %s)",
        [relation, model, key, kind, Jsonb(columns)],
    )


def add_table(connection: psycopg.Connection, name: str, model: str, text: str, after: str) -> str:
    """The relation of a model that is one table (transformer's connection)."""
    key = digest([name, model, text])
    relation = f"{model}__{key[:12]}"
    if _exists(connection, relation):
        return relation
    connection.execute(f"create table store.{relation} as {text}".encode())
    connection.execute((after.replace("{relation}", f"store.{relation}") or "select 1").encode())
    connection.execute(f"analyze store.{relation}".encode())
    connection.execute("select ops.seal_relation(%s)", [relation])
    _record(connection, relation, model, key, "table", _columns(connection, relation))
    return relation


def _exists(connection: psycopg.Connection, relation: str) -> bool:
    return bool(
        connection.execute(
            "select 1 from ops.relations where relation_name = %s", [relation]
        ).fetchone()
    )


def _columns(connection: psycopg.Connection, relation: str) -> list[dict[str, str]]:
    rows = connection.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 order by attnum",
        [f"store.{relation}"],
    ).fetchall()
    return [{"name": name, "type": kind} for name, kind in rows]
