"""Turns what Great Expectations answers into a result that holds aggregates and no row value.

What is not a number, a truth value or a moment is dropped, except the name of a column's type.
Keys of failing rows come from `examples`, which knows what may be told.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from expectations.scope import SQL_TYPE, Manner
from expectations.suite import SuiteExpectation
from expectations.verdict import EvaluationError, ExpectationResult

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}")
_NOT_BOUNDS = frozenset(
    {"batch_id", "column", "column_A", "column_B", "column_list", "unexpected_rows_query"}
)


def result_from(
    item: SuiteExpectation,
    outcome: Any,
    error: EvaluationError | None = None,
    partitions: Mapping[str, int] | None = None,
    manner: Manner = Manner.WHOLE,
    examples: tuple[str, ...] = (),
) -> ExpectationResult:
    """One result; `outcome` is Great Expectations' own, or None with an `error`."""
    answer: Mapping[str, Any] = (outcome.result or {}) if outcome is not None else {}
    kwargs = outcome.expectation_config.kwargs if outcome is not None else item.kwargs
    observed = aggregate(answer.get("observed_value"), type_names="type" in item.type)
    unexpected = _count(answer.get("unexpected_count"))
    if item.type == SQL_TYPE:
        unexpected = _count(observed)
    return ExpectationResult(
        expectation_id=item.expectation_id,
        type=item.type,
        columns=item.columns,
        severity=item.severity,
        success=bool(outcome is not None and outcome.success),
        reason=item.reason,
        owner=item.owner,
        runbook=item.runbook,
        observed=observed,
        bounds={name: _plain(value) for name, value in kwargs.items() if name not in _NOT_BOUNDS},
        element_count=_count(answer.get("element_count")),
        unexpected_count=unexpected,
        unexpected_percent=_percent(answer.get("unexpected_percent")),
        partitions=dict(partitions) if partitions is not None else None,
        examples=examples,
        manner=manner,
        error=error,
    )


def aggregate(value: Any, *, type_names: bool = False) -> bool | int | float | str | None:
    """The value, if it is a number, a truth value or a moment."""
    match value:
        case bool() | int():
            return value
        case float() | Decimal():
            return int(value) if math.isfinite(value) and value == int(value) else float(value)
        case date():
            return _iso(value)
        case str():
            return value if type_names else _moment(value)
        case _:
            return None


def _moment(value: str) -> str | None:
    """Great Expectations gives some moments as text; any other text is a value of a row."""
    if not _MOMENT.match(value):
        return None
    try:
        return _iso(datetime.fromisoformat(value))
    except ValueError:
        return None


def _iso(value: date) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return value.isoformat()


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float | Decimal) else None


def _percent(value: Any) -> float | None:
    return round(float(value), 6) if isinstance(value, int | float | Decimal) else None


def _plain(value: Any) -> Any:
    """Bounds come from the suite and from parameters; moments become text for JSON."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() | date() | Decimal():
            return aggregate(value)
        case _:
            return value
