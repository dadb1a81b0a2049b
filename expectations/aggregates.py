"""What is asked of each partition by itself: its count, sum or mean, as one query over all of them.

Great Expectations knows no groups, so such an expectation is put to it as rows that are not
expected: the partitions whose number is out of bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg import sql

from expectations.parameters import KEY, Value, plain_values
from expectations.scope import AGGREGATES
from expectations.subject import Subject
from expectations.suite import SuiteExpectation

Number = int | float | str | None

_ASKED = sql.SQL("select {partition}::text as _partition, {least} as least, {greatest} as greatest")
_BROKEN = sql.SQL(
    "select asked._partition, measured.observed from ({asked}) as asked"
    " left join (select {partition}::text as _partition, {number} as observed from {rows}"
    " group by 1) as measured on measured._partition = asked._partition"
    " where not ({within})"
)


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that one partition may have, ends included or not."""

    least: Number
    greatest: Number


def bounds_of(item: SuiteExpectation, given: Mapping[str, Value]) -> Bounds:
    """The bounds of one partition. Raises Great Expectations' error for a wrong expression."""
    if "value" in item.kwargs:
        exact = _evaluated(item.kwargs["value"], given)
        return Bounds(exact, exact)
    return Bounds(
        *(_evaluated(item.kwargs.get(name), given) for name in ("min_value", "max_value"))
    )


def broken_partitions(item: SuiteExpectation, subject: Subject, rows: str) -> str:
    """A query for (partition, its number) of those that are out of bounds.

    `rows` is what stands after `from`. A partition without rows has the count and the sum 0, and no
    other number.
    """
    asked = {name: bounds_of(item, given) for name, given in subject.partitions.items()}
    number = AGGREGATES[item.type]
    column = sql.Identifier(str(item.kwargs.get("column", "")))
    observed = "measured.observed"
    if number.startswith(("count", "coalesce")):
        observed = f"coalesce({observed}, 0)"
    within = [f"{observed} is null"]
    conditions = []
    if any(bounds.least is not None for bounds in asked.values()):
        conditions.append(
            f"{observed} {'>' if item.kwargs.get('strict_min') else '>='} asked.least"
        )
    if any(bounds.greatest is not None for bounds in asked.values()):
        conditions.append(
            f"{observed} {'<' if item.kwargs.get('strict_max') else '<='} asked.greatest"
        )
    within.append(" and ".join(conditions) or "true")
    query = _BROKEN.format(
        asked=sql.SQL(" union all ").join(
            _ASKED.format(
                partition=sql.Literal(name),
                least=_literal(bounds.least),
                greatest=_literal(bounds.greatest),
            )
            for name, bounds in asked.items()
        ),
        partition=sql.Identifier(subject.partition_column or ""),
        number=sql.SQL(number).format(column=column),
        rows=sql.SQL(rows),
        within=sql.SQL(" or ".join(within)),
    )
    return query.as_string(None)


def _evaluated(value: Any, given: Mapping[str, Value]) -> Number:
    if isinstance(value, dict) and set(value) == {KEY}:
        plain = plain_values(given)
        expression = str(value[KEY])
        value = plain[expression] if expression in plain else _parsed(expression, plain)
    return value.isoformat() if isinstance(value, date) else value


def _parsed(expression: str, plain: dict[str, Any]) -> Any:
    from great_expectations.core.suite_parameters import parse_suite_parameter

    return parse_suite_parameter(expression, plain)


def _literal(value: Number) -> sql.Composable:
    if not isinstance(value, str):
        return sql.Literal(value)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return sql.SQL("{}::text").format(sql.Literal(value))
    # Bounds are moments; a date is one, at midnight.
    return sql.SQL("{}::timestamptz").format(sql.Literal(value))
