"""Suites as values: what each expectation says, who owns it, which columns it reads.

Loading checks everything that can be known without Great Expectations and reports all problems of
a file at once, with line numbers; `expectations.check` adds expectation types and arguments.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expectations.document import Document, Place, Problem, SuiteError, read_document
from expectations.parameters import KEY, unknown_parameters, used_parameters
from expectations.scope import SQL_TYPE, Manner, Scope, manner_of, scope_problem
from expectations.verdict import Severity

SUITES = Path(__file__).parent / "suites"

# What a suite of a day's rows may read beside them: the rows of the day before, see `subject`.
DAY_BEFORE = "day_before"

_SUITE_KEYS = {"name", "expectations", "meta", "id", "notes"}
_EXPECTATION_KEYS = {"type", "kwargs", "severity", "meta", "id", "notes", "description"}
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B")
_COLUMN_LISTS = ("column_list", "column_set")


@dataclass(frozen=True, slots=True)
class SuiteExpectation:
    """One expectation of a suite; `owner` and `runbook` fall back to those of the suite.

    `reads` names other models that its SQL reads beside the one under test. `scope` is what the
    suite says of it; without that its kind decides.
    """

    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    reason: str
    owner: str
    runbook: str
    columns: tuple[str, ...]
    reads: tuple[str, ...]
    line: int
    scope: Scope | None = None

    @property
    def manner(self) -> Manner:
        """How it is evaluated on a model that is kept in partitions."""
        return manner_of(self.type, self.kwargs, self.scope)

    @property
    def parameters(self) -> frozenset[str]:
        """The run-time parameters in its arguments."""
        return used_parameters(self.kwargs)

    @property
    def expectation_id(self) -> str:
        """Stable name of type and arguments (12 hex digits), whatever their order or place."""
        return _digest([self.type, self.kwargs])[:12]


@dataclass(frozen=True, slots=True)
class Suite:
    """A loaded suite. `document` keeps the lines of the file for later problems."""

    name: str
    path: Path
    expectations: tuple[SuiteExpectation, ...]
    meta: Mapping[str, Any]
    document: Document

    @property
    def columns(self) -> frozenset[str]:
        """Every column that some expectation reads."""
        return frozenset(column for item in self.expectations for column in item.columns)

    @property
    def parameters(self) -> frozenset[str]:
        """Every run-time parameter that must be given to evaluate the suite."""
        return frozenset().union(*(item.parameters for item in self.expectations))

    @property
    def reads(self) -> frozenset[str]:
        """Other models that the suite's SQL reads: its verdict depends on them too."""
        return frozenset(name for item in self.expectations for name in item.reads)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns by which failing rows are named, if the suite says so: `meta.key`."""
        return tuple(map(str, self.meta.get("key") or ()))

    def missing_columns(self, available: Iterable[str]) -> list[Problem]:
        """Columns that the suite reads and a contract or model does not have."""
        known = set(available)
        unknown_keys = [
            self.document.problem(
                ("meta", "key"), f"column `{name}` does not exist; correct the name"
            )
            for name in self.row_key
            if name not in known
        ]
        return unknown_keys + [
            Problem(
                str(self.path),
                item.line,
                f"column `{column}` does not exist; correct the name or add it to the model",
            )
            for item in self.expectations
            for column in item.columns
            if column not in known
        ]


def list_suites(directory: Path = SUITES) -> list[Path]:
    """Every suite file below `directory`, sorted."""
    return sorted(directory.rglob("*.yml"))


def suite_hash(path: Path) -> str:
    """SHA-256 of what the suite means: comments, formatting and order do not matter."""
    value = read_document(path).value
    if isinstance(value, dict) and isinstance(value.get("expectations"), list):
        value["expectations"] = sorted(map(_digest, value["expectations"]))
    return _digest(value)


def load_suite(path: Path) -> Suite:
    """Read one suite file. Raises SuiteError with every problem and its line."""
    document = read_document(path)
    problems: list[Problem] = []
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("expectations"), list):
        raise SuiteError([document.problem((), "a suite needs `name` and a list `expectations`")])
    problems += _unknown_keys(document, (), value, _SUITE_KEYS)
    if value.get("name") != path.stem:
        problems.append(document.problem(("name",), f"`name` must be `{path.stem}`, as the file"))
    meta = _mapping(document, ("meta",), value.get("meta") or {}, problems)
    loaded = []
    for index, item in enumerate(value["expectations"]):
        place: Place = ("expectations", index)
        found = _load_expectation(document, place, item, meta, problems)
        if found is not None:
            loaded.append(found)
    seen: dict[str, int] = {}
    for found in loaded:
        first = seen.setdefault(found.expectation_id, found.line)
        if first != found.line:
            message = f"the same expectation stands on line {first}; keep one"
            problems.append(Problem(str(path), found.line, message))
    if problems:
        raise SuiteError(problems)
    return Suite(path.stem, path, tuple(loaded), meta, document)


def _load_expectation(
    document: Document,
    place: Place,
    item: Any,
    defaults: Mapping[str, Any],
    problems: list[Problem],
) -> SuiteExpectation | None:
    before = len(problems)
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        problems.append(document.problem(place, "an expectation needs a `type`"))
        return None
    problems += _unknown_keys(document, place, item, _EXPECTATION_KEYS)
    kwargs = _mapping(document, (*place, "kwargs"), item.get("kwargs") or {}, problems)
    meta = _mapping(document, (*place, "meta"), item.get("meta") or {}, problems)
    severities = ", ".join(Severity)
    if item.get("severity") not in set(Severity):
        message = f"`severity` is missing or unknown; write one of {severities}"
        problems.append(document.problem((*place, "severity"), message))
    told = {name: str(meta.get(name) or "").strip() for name in ("reason", "owner", "runbook")}
    for name in ("owner", "runbook"):
        told[name] = told[name] or str(defaults.get(name) or "").strip()
    for name, text in told.items():
        if not text:
            where = "meta" if name == "reason" else "meta, or in the suite's meta"
            problems.append(document.problem(place, f"`{name}` is missing; write it in {where}"))
    problems += _parameter_problems(document, (*place, "kwargs"), kwargs)
    scope = _scope(document, place, item["type"], kwargs, meta, problems)
    columns = _columns(kwargs)
    if item["type"] == SQL_TYPE:
        if "{batch}" not in str(kwargs.get("unexpected_rows_query")):
            message = "`unexpected_rows_query` must read `{batch}`, the rows that are judged"
            problems.append(document.problem((*place, "kwargs"), message))
        columns = tuple(map(str, meta.get("columns") or ()))
        if not columns:
            message = "SQL hides its columns from the checks; list them in `meta.columns`"
            problems.append(document.problem(place, message))
    if len(problems) > before:
        return None
    return SuiteExpectation(
        type=item["type"],
        kwargs=kwargs,
        severity=Severity(item["severity"]),
        **told,
        columns=columns,
        reads=tuple(map(str, meta.get("reads") or ())),
        line=document.lines[place],
        scope=scope,
    )


def _scope(
    document: Document,
    place: Place,
    kind: str,
    kwargs: Mapping[str, Any],
    meta: Mapping[str, Any],
    problems: list[Problem],
) -> Scope | None:
    declared = meta.get("scope")
    if declared is None:
        return None
    where = (*place, "meta", "scope")
    if declared not in set(Scope):
        message = f"`scope` is one of {', '.join(Scope)}; write one of them, or leave it out"
        problems.append(document.problem(where, message))
        return None
    if problem := scope_problem(kind, kwargs, Scope(declared)):
        problems.append(document.problem(where, problem))
    return Scope(declared)


def _parameter_problems(
    document: Document, place: Place, kwargs: Mapping[str, Any]
) -> list[Problem]:
    problems = []
    for name in unknown_parameters(used_parameters(kwargs)):
        message = f"no run provides the parameter `{name}`; see expectations/parameters.py"
        problems.append(document.problem(place, message))
    for argument, value in kwargs.items():
        if KEY in json.dumps(value) and not (isinstance(value, dict) and set(value) == {KEY}):
            message = f"`{argument}`: {KEY} must be the whole value; move it to the top"
            problems.append(document.problem((*place, argument), message))
    return problems


def _columns(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    names = [kwargs[name] for name in _COLUMN_ARGUMENTS if isinstance(kwargs.get(name), str)]
    for name in _COLUMN_LISTS:
        if isinstance(kwargs.get(name), list):
            names += map(str, kwargs[name])
    return tuple(names)


def _mapping(
    document: Document, place: Place, value: Any, problems: list[Problem]
) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(document.problem(place, f"`{place[-1]}` must be a mapping of names to values"))
    return {}


def _unknown_keys(
    document: Document, place: Place, value: Mapping[str, Any], known: set[str]
) -> list[Problem]:
    return [
        document.problem(
            (*place, key), f"unknown key `{key}`; known are {', '.join(sorted(known))}"
        )
        for key in value
        if key not in known
    ]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
