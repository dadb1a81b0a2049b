"""The tables of docs/errors.md, written from the code: `python tests/error_tables.py` renews them."""

import errno
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from ingestion import statuses, transport  # noqa: E402 - the path comes first
from ingestion.client import RetryPolicy  # noqa: E402
from orchestration.errors import EXIT_BUSY, EXIT_CODES, FailureKind  # noqa: E402
from orchestration.failures import backoff, evaluations, libraries, logins, sqlstates  # noqa: E402
from orchestration.failures import systems as operating_system  # noqa: E402
from orchestration.failures.database import condition  # noqa: E402
from orchestration.pipelines.stages import StagePolicy  # noqa: E402

DOCUMENT = PROJECT / "docs" / "errors.md"
_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WHOSE = {
    FailureKind.SOURCE: "the source's owner",
    FailureKind.QUALITY: "whoever decides on the data",
    FailureKind.TRANSFORM: "the author of the model",
    FailureKind.DESTINATION: "whoever runs the warehouse or the machine",
    FailureKind.CONFIGURATION: "whoever declared it: suite, pipeline, address, secret",
    FailureKind.INTERNAL: "the developers of Sluice",
}


def render(document: str) -> str:
    """The document with every table as the code has it. Raises KeyError for an unknown table."""
    return _PLACE.sub(lambda found: f"{found[1]}{_TABLES[found[2]]()}\n{found[3]}", document)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _passes(transient: bool) -> str:
    return "transient" if transient else "permanent"


def _kinds() -> str:
    rows = [(kind, EXIT_CODES[kind], _WHOSE[kind]) for kind in EXIT_CODES]
    busy = ("busy, lease lost, cancelled", EXIT_BUSY, "nobody: another process is at work")
    return _table(("kind", "exit code", "for"), [*rows, busy])


def _sqlstates() -> str:
    rows = [
        (
            f"`{state}`" if len(state) == 5 else f"`{state}…`",
            condition(state if len(state) == 5 else f"{state}000"),
            rule.kind or "the author's",
            _passes(rule.transient),
            rule.advice or "as the author's kind",
        )
        for state, rule in sorted(sqlstates.TABLE.items())
    ]
    unknown = ("any other", "", "the author's", "permanent", "as the author's kind")
    return _table(("SQLSTATE", "condition", "kind", "is", "what helps"), [*rows, unknown])


def _logins() -> str:
    rows = [
        (f"`{pattern.replace('|', chr(92) + '|')}`", f"`{state}`", words)
        for pattern, state, words in logins.TABLE
    ]
    rest = ("anything else", f"`{sqlstates.CANNOT_CONNECT}`", "the warehouse is out of reach")
    return _table(("libpq says", "read as", "told as"), [*rows, rest])


def _systems() -> str:
    known = sorted(operating_system.TABLE.items(), key=lambda item: item[1].code)
    rows = []
    for rule, group in groupby(known, key=lambda item: item[1]):
        names = ", ".join(sorted(f"`{errno.errorcode[number]}`" for number, _ in group))
        rows.append((names, rule.kind, f"`{rule.code}`", _passes(rule.transient), rule.advice))
    return _table(("errno", "kind", "code", "is", "what helps"), rows)


def _statuses() -> str:
    rows = [
        (
            f"{status // 100}xx" if status in (300, 400, 500) else status,
            f"`{rule.code}`",
            _passes(rule.transient),
            _variables(f"the source {rule.what}; {rule.advice}"),
        )
        for status, rule in sorted(statuses.TABLE.items())
    ]
    return _table(("status", "code", "is", "told as"), rows)


def _transport() -> str:
    rows = [
        (
            f"`{kind.__module__.partition('.')[0]}.{kind.__name__}`",
            f"`{rule.code}`",
            _passes(rule.transient),
            _variables(f"the source {rule.what}"),
        )
        for kind, rule in transport.TABLE
    ]
    return _table(("exception", "code", "is", "told as"), rows)


def _libraries() -> str:
    rows = [
        (f"`{name}`", rule.kind, f"`{rule.code}`", _passes(rule.transient), rule.advice)
        for name, rule in libraries.TABLE.items()
    ]
    return _table(("exception", "kind", "code", "is", "what helps"), rows)


def _evaluations() -> str:
    rows = [
        (f"`{word}`", rule.kind, _passes(rule.transient), rule.advice)
        for word, rule in evaluations.WORDS.items()
    ]
    return _table(("code", "kind", "is", "what helps"), rows)


def _retries() -> str:
    page = RetryPolicy()
    tries = StagePolicy.model_fields["max_attempts"].default
    unit = f"{backoff.base_seconds():g} s, at most {backoff.CAP_S:g} s"
    rows = [
        (
            "a page of a source",
            f"{page.attempts}, within {page.total_s:g} s a partition",
            f"{page.first_wait_s:g} s, at most {page.longest_wait_s:g} s",
            "`SLUICE_FETCH_ATTEMPTS`, `SLUICE_FETCH_TOTAL_S`",
        ),
        ("a dbt model", f"{tries} in each attempt of its stage", unit, "`transform.max_attempts`"),
        ("a partition or another unit of a stage", tries, unit, "`max_attempts` of the stage"),
    ]
    return _table(("unit", "attempts", "first ceiling of the wait", "set by"), rows)


def _variables(text: str) -> str:
    return text.format(url_variable="`SLUICE_…_API_URL`", token_variable="`SLUICE_…_API_TOKEN`")


_TABLES = {
    "kinds": _kinds,
    "sqlstates": _sqlstates,
    "logins": _logins,
    "systems": _systems,
    "statuses": _statuses,
    "transport": _transport,
    "libraries": _libraries,
    "evaluations": _evaluations,
    "retries": _retries,
}

if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text("utf-8")), "utf-8")
