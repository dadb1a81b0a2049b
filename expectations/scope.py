"""How much of a model an expectation has to look at, when only some partitions are new.

An expectation speaks of each partition by itself (`changed`) or of all rows together (`all`). What
nothing is known of is taken to speak of all rows, so that nothing is left out by mistake.

| expectation | without `meta.scope` | may be said |
|---|---|---|
| on each row by itself (ranges, sets, patterns, nulls, lengths, pairs of columns) | changed | all |
| the same with `mostly`, or with a parameter in its arguments | all | changed, unless with `mostly` |
| keys (`…_to_be_unique`) | all: changed rows, and those elsewhere that share a key | all |
| `expect_column_max_to_be_between`, `…_min_…` | all: changed rows, and recorded extremes | both |
| row counts, sums, means | all | changed: each partition has a count, sum or mean of its own |
| `unexpected_rows_expectation` | all | both |
| columns and types | all: no row is read | all |
| anything else (distributions, distinct values, other tables) | all | all |
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from expectations.parameters import used_parameters


class Scope(StrEnum):
    """Whether a statement is about each partition by itself, or about all rows together."""

    CHANGED = "changed"
    ALL = "all"


class Manner(StrEnum):
    """How an expectation is evaluated on a model that is kept in partitions."""

    PARTITIONS = "partitions"
    """On the rows of the partitions in question."""
    KEYS = "keys"
    """On those rows, and on the rows elsewhere that share a key with them."""
    EXTREMES = "extremes"
    """On those rows, and on what was recorded of all others."""
    WHOLE = "whole"
    """On everything."""


SQL_TYPE = "unexpected_rows_expectation"
# Expectations on the shape of a relation: they read no row, and no types through a query.
SHAPE_TYPES = frozenset(
    {
        "expect_column_to_exist",
        "expect_column_type_to_be",
        "expect_column_values_to_be_in_type_list",
        "expect_column_values_to_be_of_type",
        "expect_table_column_count_to_be_between",
        "expect_table_column_count_to_equal",
        "expect_table_columns_to_match_ordered_list",
        "expect_table_columns_to_match_set",
    }
)
ROW_TYPES = frozenset(
    {
        "expect_column_distinct_values_to_be_in_set",
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_to_be_in_set",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_be_null",
        "expect_column_values_to_match_like_pattern",
        "expect_column_values_to_match_like_pattern_list",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_match_like_pattern",
        "expect_column_values_to_not_match_like_pattern_list",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_not_match_regex_list",
        "expect_multicolumn_sum_to_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
    }
)
KEY_TYPES = frozenset({"expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})
EXTREME_TYPES = frozenset({"expect_column_max_to_be_between", "expect_column_min_to_be_between"})
# One number of a set of rows, as SQL; null, where there is no row, is no statement.
AGGREGATES = {
    "expect_table_row_count_to_equal": "count(*)",
    "expect_table_row_count_to_be_between": "count(*)",
    "expect_column_sum_to_be_between": "coalesce(sum({column}), 0)",
    "expect_column_mean_to_be_between": "avg({column})",
    "expect_column_max_to_be_between": "max({column})",
    "expect_column_min_to_be_between": "min({column})",
}
_NARROWING = ("row_condition", "condition_parser")


def manner_of(kind: str, kwargs: Mapping[str, Any], scope: Scope | None) -> Manner:
    """How the expectation is evaluated; `scope` is what its suite says, if it says anything."""
    tolerant = _is_tolerant(kwargs)
    if scope is Scope.CHANGED:
        return Manner.PARTITIONS
    if kind in KEY_TYPES and not tolerant:
        return Manner.KEYS
    if kind in EXTREME_TYPES and not _is_narrowed(kwargs):
        return Manner.EXTREMES
    if kind in ROW_TYPES and scope is None and not tolerant and not used_parameters(kwargs):
        return Manner.PARTITIONS
    return Manner.WHOLE


def is_aggregate(kind: str, scope: Scope | None) -> bool:
    """Whether it asks one number of each partition."""
    return scope is Scope.CHANGED and kind in AGGREGATES


def scope_problem(kind: str, kwargs: Mapping[str, Any], scope: Scope) -> str | None:
    """Why the expectation cannot have this scope, ending with what to do; None if it can."""
    if scope is Scope.ALL:
        return None
    return next(_reasons(kind, kwargs), None)


def _reasons(kind: str, kwargs: Mapping[str, Any]) -> Iterator[str]:
    """Why it cannot be judged a partition at a time."""
    if kind in KEY_TYPES:
        yield (
            "a key is unique over all partitions; leave `scope` out, or add `_partition` to the "
            "columns if it is unique in each of them only"
        )
    if _is_tolerant(kwargs):
        yield "`mostly` is a share of all rows; write `scope: all`, or leave `mostly` out"
    if kind not in {*ROW_TYPES, *AGGREGATES, SQL_TYPE}:
        yield "it cannot be asked of each partition by itself; write `scope: all`"
    if kind in AGGREGATES and _is_narrowed(kwargs):
        yield "a condition on rows is not known for single partitions; write `scope: all`"
    if kind not in AGGREGATES and (others := sorted(used_parameters(kwargs) - {"as_of"})):
        yield f"`{others[0]}` speaks of all partitions together; write `scope: all`"


def _is_tolerant(kwargs: Mapping[str, Any]) -> bool:
    return bool(kwargs.get("mostly", 1) != 1)


def _is_narrowed(kwargs: Mapping[str, Any]) -> bool:
    return any(kwargs.get(name) is not None for name in _NARROWING)
