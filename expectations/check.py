"""Checks suites against Great Expectations itself: expectation types and their arguments.

Importing Great Expectations takes seconds; everything else about a suite is checked on loading.
"""

from typing import Any

from expectations.document import Place, Problem
from expectations.session import load_great_expectations
from expectations.suite import Suite


def check_suite(suite: Suite) -> list[Problem]:
    """Unknown types, unknown, missing or malformed arguments; empty when the suite is sound."""
    load_great_expectations()
    problems: list[Problem] = []
    for index, item in enumerate(suite.document.value["expectations"]):
        place: Place = ("expectations", index)
        problems += _check_expectation(suite, place, item)
    return problems


def _check_expectation(suite: Suite, place: Place, item: dict[str, Any]) -> list[Problem]:
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import get_expectation_impl

    at = suite.document.problem
    try:
        expectation = get_expectation_impl(item["type"])
    except ExpectationNotFoundError:
        message = f"Great Expectations knows no `{item['type']}`; correct the type"
        return [at((*place, "type"), message)]
    kwargs = item.get("kwargs") or {}
    known = set(expectation.__fields__)
    problems = [
        at((*place, "kwargs", name), f"`{item['type']}` takes no `{name}`; remove or correct it")
        for name in kwargs
        if name not in known
    ]
    if problems:
        return problems
    try:
        expectation(**kwargs)
    except ValidationError as error:
        for found in error.errors():
            inside = (*place, "kwargs", *found["loc"])
            name = ".".join(str(part) for part in found["loc"])
            problems.append(at(inside, f"`{name}`: {found['msg']}; correct the argument"))
    return problems
