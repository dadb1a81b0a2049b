"""How a suite's expectation is put to Great Expectations on one subject.

SQL gets the neighbours it names as common table expressions, so that it can read nothing that its
suite does not declare; what is asked of each partition becomes a query for those that are wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from expectations.aggregates import bounds_of, broken_partitions
from expectations.parameters import KEY
from expectations.results import aggregate
from expectations.scope import SQL_TYPE, is_aggregate
from expectations.session import Session
from expectations.subject import Subject
from expectations.suite import SuiteExpectation
from expectations.verdict import ExpectationResult

_BATCH = "{batch}"
_QUERY = "unexpected_rows_query"
_BOUNDS = frozenset({"value", "min_value", "max_value"})


@dataclass(frozen=True)
class Asked:
    """One expectation in the form in which Great Expectations gets it."""

    item: SuiteExpectation
    type: str
    kwargs: Mapping[str, Any]
    of_each_partition: bool = False

    @property
    def beginning(self) -> str | None:
        """What its statement begins with, if it reads rows by SQL of its own."""
        if self.type != SQL_TYPE:
            return None
        return str(self.kwargs[_QUERY]).partition(_BATCH)[0].replace("{{", "{").lstrip()

    def configuration(self, position: int) -> dict[str, Any]:
        return {
            "type": self.type,
            "kwargs": dict(self.kwargs),
            "severity": self.item.severity.value,
            "meta": {"position": position},
        }


def ask(items: Iterable[SuiteExpectation], subject: Subject) -> list[Asked]:
    """The expectations as they are put, in order."""
    return [_ask(item, subject) for item in items]


def _ask(item: SuiteExpectation, subject: Subject) -> Asked:
    if subject.partitions and is_aggregate(item.type, item.scope):
        query = broken_partitions(item, subject, f"{_BATCH} as rows")
        return Asked(item, SQL_TYPE, {_QUERY: query}, of_each_partition=True)
    if item.type == SQL_TYPE and subject.neighbours:
        text = _with_neighbours(str(item.kwargs[_QUERY]), subject.neighbours)
        return Asked(item, SQL_TYPE, {**item.kwargs, _QUERY: text})
    return Asked(item, item.type, item.kwargs)


def _with_neighbours(query: str, neighbours: Mapping[str, str]) -> str:
    named = [
        sql.SQL("{} as ({})").format(sql.Identifier(name), sql.SQL(text)).as_string(None)
        for name, text in sorted(neighbours.items())
    ]
    # Great Expectations fills in the braces that are left.
    head = ", ".join(named).replace("{", "{{").replace("}", "}}")
    return "\n".join(["with", head, "select * from (", query, ") as unexpected"])


def of_each_partition(
    session: Session, subject: Subject, asked: Asked, result: ExpectationResult
) -> ExpectationResult:
    """The result of what was asked of each partition: which are wrong, and by how much if it is one.

    One query when it failed. Raises SQLAlchemy's errors.
    """
    bounds = {name: _written(asked.item.kwargs[name]) for name in _BOUNDS & set(asked.item.kwargs)}
    if result.success:
        return replace(result, bounds=bounds, observed=None, unexpected_count=0)
    broken = session.query(sql.SQL(subject.filled_in(str(asked.kwargs[_QUERY]))))
    partitions = {str(name): 1 for name, _ in broken}
    observed = None
    if len(broken) == 1:
        [(name, number)] = broken
        found = bounds_of(asked.item, subject.partitions[name])
        exact = "value" in bounds
        bounds = {"value": found.least} if exact else {"min_value": found.least}
        bounds |= {} if exact else {"max_value": found.greatest}
        observed = aggregate(number if number is not None else 0)
    return replace(
        result,
        bounds=bounds,
        observed=observed,
        unexpected_count=len(broken),
        partitions=partitions,
    )


def _written(value: Any) -> Any:
    """A bound as the suite has it: the same words for all partitions."""
    return value[KEY] if isinstance(value, dict) and KEY in value else value
