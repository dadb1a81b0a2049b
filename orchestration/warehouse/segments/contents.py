"""What a query makes of one partition, as a value that two ways of making it can be compared by.

Everything has to be the same exactly, in whatever order the rows come, but for the last digits of
floats: sums of them depend on that order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import psycopg
from psycopg import sql

from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.names import identifier

# Far more than what the order of rows changes, and far less than what matters.
_TOLERANCES = {700: Decimal("1e-4"), 701: Decimal("1e-9")}
"""oid of a type of floats → relative tolerance"""

# Whether a float is a number has to be the same exactly; numbers are compared by their sums.
_SPECIAL = sql.SQL(
    "case when built.{0} not in ('NaN', 'Infinity', '-Infinity') then 'number' "
    "else cast(built.{0} as text) end"
)
_NUMBER = sql.SQL(
    ", case when built.{0} not in ('NaN', 'Infinity', '-Infinity') "
    "then cast(built.{0} as numeric) end as {1}"
)
_SUMS = sql.SQL(
    ", sum(weight * made.{0}), sum(weight * abs(made.{0})), sum(weight * made.{0} * made.{0})"
)


@dataclass(frozen=True)
class FloatSums:
    """The numbers in one column of floats: their sum, what it is made up of, and their squares'."""

    tolerance: Decimal
    total: Decimal
    magnitude: Decimal
    squares: Decimal

    def is_close_to(self, other: "FloatSums") -> bool:
        least_total = self.tolerance * max(self.magnitude, other.magnitude)
        least_squares = self.tolerance * max(self.squares, other.squares)
        return (
            abs(self.total - other.total) <= least_total
            and abs(self.squares - other.squares) <= least_squares
        )


@dataclass(frozen=True)
class Content:
    """How many rows there are, a checksum of all that is no float, and the floats by column."""

    rows: int
    checksum: Decimal
    floats: tuple[FloatSums, ...] = ()

    def matches(self, other: "Content") -> bool:
        return (self.rows, self.checksum) == (other.rows, other.checksum) and all(
            one.is_close_to(another) for one, another in zip(self.floats, other.floats, strict=True)
        )


def read_content(
    connection: psycopg.Connection, code: str, columns: Sequence[str], partition: str
) -> Content:
    """The content of `partition` in what the query `code` yields; it must have these columns."""
    tolerances = _float_columns(connection, code)
    row = connection.execute(_statement(code, columns, list(tolerances), partition)).fetchone()
    rows, checksum, *sums = row or (0, None)
    numbers = [Decimal(value or 0) for value in sums]
    return Content(
        rows,
        Decimal(checksum or 0),
        tuple(
            FloatSums(tolerance, *numbers[3 * position : 3 * position + 3])
            for position, tolerance in enumerate(tolerances.values())
        ),
    )


def _float_columns(connection: psycopg.Connection, code: str) -> Mapping[str, Decimal]:
    shape = connection.execute(
        sql.SQL("select * from ({}\n) as built limit 0").format(sql.SQL(code))
    )
    return {
        column.name: _TOLERANCES[column.type_code]
        for column in shape.description or ()
        if column.type_code in _TOLERANCES
    }


def _statement(
    code: str, columns: Sequence[str], floats: Sequence[str], partition: str
) -> sql.Composed:
    exact = [
        (_SPECIAL if name in floats else sql.SQL("built.{0}")).format(sql.Identifier(name))
        for name in columns
    ]
    numbers = [sql.Identifier(f"number_{position}") for position in range(len(floats))]
    return sql.SQL(query("segments_content")).format(
        exact=sql.SQL(", ").join(exact),
        numbers=sql.SQL("").join(
            _NUMBER.format(sql.Identifier(name), number)
            for name, number in zip(floats, numbers, strict=True)
        ),
        sums=sql.SQL("").join(_SUMS.format(number) for number in numbers),
        code=sql.SQL(code),
        partition_column=identifier(PARTITION_COLUMN),
        partition=sql.Literal(partition),
    )
