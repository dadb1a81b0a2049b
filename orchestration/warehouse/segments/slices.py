"""Queries for some partitions of a model, and for what they have to be compared with elsewhere.

Each names the segments that hold the rows and no others, so that it costs what it is asked for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.names import identifier, qualified, statement
from orchestration.warehouse.partitions import VisiblePartition, visible_partitions
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.segments.texts import array, some_partitions

# A look-up in every segment costs about as much as reading this many rows.
_ROWS_FOR_A_LOOKUP = 20


@dataclass(frozen=True)
class Slices:
    """One model of one version, kept in segments.

    `columns` are those of its contract, `_partition` last; `types` has those that readers see.
    `leading` maps each segment to the columns that an index of it begins with.
    """

    relation: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    visible: Mapping[str, VisiblePartition]
    pieces: tuple[Piece, ...]
    leading: Mapping[str, frozenset[str]]

    def rows(self, partitions: Collection[str]) -> str:
        """The rows of these partitions."""
        return some_partitions(self.columns, self.pieces, partitions)

    def rows_with_shared_keys(
        self, partitions: Collection[str], keys: Sequence[str], *, nulls_are_equal: bool
    ) -> str:
        """Those rows, and every row of another partition that has the same values in `keys`.

        The values are unique over everything if they are unique here and were unique without these
        partitions. `nulls_are_equal` as GROUP BY has it, and `=` has not.
        """
        shown = sql.SQL(", ").join(sql.Identifier("held", name) for name in self.columns)
        branches = [statement("select {shown} from changed as held", shown=shown)]
        for piece in self.pieces:
            if rest := set(piece.visible) - set(partitions):
                branches.append(self._sharing(piece, rest, keys, shown))
                if nulls_are_equal:
                    branches.append(_sharing_nulls(piece, rest, keys, shown))
        return statement(
            "select * from (with changed as materialized ({rows}), wanted as materialized "
            "(select distinct {keys} from changed) {branches}) as compared",
            rows=sql.SQL(self.rows(partitions)),
            keys=_names(keys),
            branches=sql.SQL(" union all ").join(branches),
        ).as_string(None)

    def is_cheaper_whole(self, partitions: Collection[str]) -> bool:
        """Whether looking everything up elsewhere would cost more than reading everything."""
        rows = sum(self.visible[name].row_count for name in partitions if name in self.visible)
        total = sum(held.row_count for held in self.visible.values())
        return rows * _ROWS_FOR_A_LOOKUP >= total

    def has_index(self, keys: Collection[str]) -> bool:
        """Whether rows with given values in `keys` are found without reading a segment."""
        return all(self.leading[piece.segment] & set(keys) for piece in self.pieces)

    def extremes(self, column: str, unread: Collection[str]) -> str:
        """Values of the column with its least and its greatest among them: the recorded extremes of
        every partition, and all rows of those that nobody has read yet."""
        recorded = sql.SQL(query("extremes_recorded")).format(
            type=sql.SQL(self.types[column]),
            column=sql.Identifier(column),
            relation=sql.Literal(self.relation),
            name=sql.Literal(column),
        )
        return statement(
            "select {column} from ({rows}) as unread union all {recorded}",
            column=sql.Identifier(column),
            rows=sql.SQL(self.rows(unread)),
            recorded=recorded,
        ).as_string(None)

    def _sharing(
        self, piece: Piece, rest: Collection[str], keys: Sequence[str], shown: sql.Composable
    ) -> sql.Composed:
        segment = qualified(STORE_SCHEMA, piece.segment)
        if not self.leading[piece.segment] & set(keys):
            return statement(
                "select {shown} from {segment} as held where {rest} and ({keys}) in "
                "(select {keys} from wanted)",
                shown=shown,
                segment=segment,
                rest=_among(rest, piece),
                keys=_names(keys),
            )
        return statement(
            # OFFSET keeps the planner from reading the segment once instead of looking keys up.
            "select {shown} from wanted cross join lateral (select * from {segment} as stored "
            "where {equal} and {rest} offset 0) as held",
            shown=shown,
            segment=segment,
            equal=sql.SQL(" and ").join(
                statement(
                    "{stored} = {wanted}",
                    stored=sql.Identifier("stored", name),
                    wanted=sql.Identifier("wanted", name),
                )
                for name in keys
            ),
            rest=_among(rest, piece),
        )


def read_slices(
    connection: psycopg.Connection, relation: str, columns: Sequence[Mapping[str, str]]
) -> Slices | None:
    """The segments below `store.<relation>`; None for what is kept as a whole.

    `columns` are {"name", "type"} of those that readers see.
    """
    segments = connection.execute(query("segments_of_view"), {"relation_name": relation}).fetchall()
    if not segments:
        return None
    visible = visible_partitions(connection, relation)
    held: dict[str, list[str]] = {}
    for partition, shown in visible.items():
        held.setdefault(shown.segment, []).append(partition)
    return Slices(
        relation,
        (*(column["name"] for column in columns), PARTITION_COLUMN),
        {column["name"]: column["type"] for column in columns},
        visible,
        tuple(
            Piece(name, tuple(sorted(held.get(name, ()))), tuple(hidden))
            for name, hidden, _ in segments
        ),
        {name: frozenset(leading) for name, _, leading in segments},
    )


def _sharing_nulls(
    piece: Piece, rest: Collection[str], keys: Sequence[str], shown: sql.Composable
) -> sql.Composed:
    """Rows that share a key with a null in it; no row is read unless there is such a key."""
    return statement(
        "select {shown} from {segment} as held "
        "where (select coalesce(bool_or(num_nulls({keys}) > 0), false) from wanted) "
        "and {rest} and num_nulls({held}) > 0 "
        "and exists (select from wanted where row({keys}) is not distinct from row({held}))",
        shown=shown,
        segment=qualified(STORE_SCHEMA, piece.segment),
        keys=sql.SQL(", ").join(sql.Identifier("wanted", name) for name in keys),
        held=sql.SQL(", ").join(sql.Identifier("held", name) for name in keys),
        rest=_among(rest, piece),
    )


def _among(rest: Collection[str], piece: Piece) -> sql.Composed:
    """Rows of these partitions of the piece, said in the shorter way."""
    others = {*piece.visible, *piece.hidden} - set(rest)
    if len(rest) <= len(others):
        return statement(
            "{partition} = any({named})",
            partition=identifier(PARTITION_COLUMN),
            named=array(sorted(rest)),
        )
    return statement(
        "{partition} <> all({named})",
        partition=identifier(PARTITION_COLUMN),
        named=array(sorted(others)),
    )


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in columns)
