"""The run-time parameters that suites may use, and how they are found in a suite.

A suite writes `{"$PARAMETER": "as_of - timedelta(hours=48)"}` in place of an argument. Great
Expectations evaluates the expression: numbers, the names below, + - * / ^, `timedelta(…)`,
`datetime(…)`, `abs`, `round` and `trunc`. `now()` is refused: a verdict must not depend on when it
was made.

| name | value |
|---|---|
| `as_of` | the moment the run answers for, a time stamp with time zone |
| `first_day`, `last_day` | first and last day (inclusive) of the windows that are evaluated |
| `input_rows_<source>__<resource>` | rows of that resource that the evaluated rows come from |
| `input_partitions_<source>__<resource>` | partitions of that resource, likewise |
"""

import ast
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

KEY = "$PARAMETER"

_KNOWN = re.compile(
    r"as_of|first_day|last_day|input_(?:rows|partitions)_[a-z][a-z0-9_]*__[a-z][a-z0-9_]*"
)
_FUNCTIONS = frozenset({"abs", "datetime", "round", "timedelta", "trunc"})
_KEYWORD_ARGUMENT = re.compile(r"[A-Za-z_]\w*\s*=")
_NAME = re.compile(r"[A-Za-z]\w*")

Value = str | int | float | date | datetime


def parameter_names(expression: str) -> frozenset[str]:
    """The parameters that an expression reads."""
    return frozenset(_NAME.findall(_KEYWORD_ARGUMENT.sub("", expression))) - _FUNCTIONS


def used_parameters(kwargs: Mapping[str, Any]) -> frozenset[str]:
    """The parameters that one expectation's arguments read."""
    names: frozenset[str] = frozenset()
    for value in kwargs.values():
        if isinstance(value, dict) and isinstance(value.get(KEY), str):
            names |= parameter_names(value[KEY])
    return names


def unknown_parameters(names: frozenset[str]) -> list[str]:
    """Names that no run provides, sorted."""
    return sorted(name for name in names if not _KNOWN.fullmatch(name))


def age_allowed(bound: Any) -> timedelta | None:
    """How long before `as_of` an argument lies, for one like `as_of - timedelta(hours=48)`; else None."""
    expression = bound.get(KEY) if isinstance(bound, dict) else None
    try:
        match ast.parse(str(expression).strip(), mode="eval").body:
            case ast.BinOp(
                ast.Name("as_of"), ast.Sub(), ast.Call(ast.Name("timedelta"), [], keywords)
            ):
                return timedelta(**{str(k.arg): ast.literal_eval(k.value) for k in keywords})
    except (SyntaxError, TypeError, ValueError):
        pass
    return None


def plain_values(parameters: Mapping[str, Value]) -> dict[str, str | int | float]:
    """Parameters as Great Expectations takes them; dates and time stamps as ISO text.

    Raises ValueError for a time stamp without a time zone.
    """
    plain: dict[str, str | int | float] = {}
    for name, value in parameters.items():
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ValueError(f"parameter {name} has no time zone; give it one, e.g. UTC")
        plain[name] = value.isoformat() if isinstance(value, date) else value
    return plain
