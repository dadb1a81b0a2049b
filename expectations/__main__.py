"""Evaluates one suite from the command line: `python -m expectations SUITE --schema S --table T`.

Exit codes: 0 passed or warned, 10 failed, 75 could not be evaluated, try again, 78 could not be
evaluated for good, 2 wrong usage.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from expectations.check import check_suite
from expectations.document import SuiteError
from expectations.gate import evaluate_suite
from expectations.suite import Suite, list_suites, load_suite
from expectations.verdict import Verdict, VerdictStatus


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    url = options.url or os.environ.get("SLUICE_WAREHOUSE_URL")
    if not url:
        sys.stderr.write("no warehouse: give --url or set SLUICE_WAREHOUSE_URL\n")
        return 2
    try:
        suite = load_suite(_find(options.suite))
        problems = check_suite(suite)
        if problems:
            raise SuiteError(problems)
    except SuiteError as error:
        sys.stderr.write(f"{error}\n")
        return 78
    verdict = evaluate_suite(
        suite,
        url,
        schema=options.schema,
        table=options.table,
        query=options.query,
        parameters=dict(options.param),
        partition_column=options.partition_column,
    )
    if options.json:
        sys.stdout.write(json.dumps(verdict.to_dict()) + "\n")
    else:
        sys.stdout.write(_describe(suite, verdict))
    if verdict.status is VerdictStatus.ERROR:
        return 75 if verdict.transient else 78
    return 10 if verdict.status is VerdictStatus.FAILED else 0


def _describe(suite: Suite, verdict: Verdict) -> str:
    lines = [f"{suite.name}: {verdict.status} in {verdict.duration_s:.2f} s"]
    if verdict.error:
        lines.append(f"  {verdict.error.message}")
    for result in verdict.results:
        mark = "error" if result.error else "ok" if result.success else str(result.severity)
        seen = result.observed if result.observed is not None else result.unexpected_count
        columns = ", ".join(result.columns)
        lines.append(f"  {mark:<8} {result.type} ({columns}): {seen}")
        if result.error:
            lines.append(f"           {result.error.message}")
        elif not result.success:
            lines.append(f"           {result.reason} Owner: {result.owner}. See {result.runbook}")
    return "\n".join(lines) + "\n"


def _find(name: str) -> Path:
    """A path, or the name of a suite of this package."""
    path = Path(name)
    if path.suffix == ".yml":
        return path
    named = [candidate for candidate in list_suites() if candidate.stem == name]
    return named[0] if named else path.with_suffix(".yml")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m expectations", description=__doc__)
    parser.add_argument("suite", help="path of a suite file, or the name of a suite")
    parser.add_argument("--url", help="warehouse; default: SLUICE_WAREHOUSE_URL")
    parser.add_argument("--schema", required=True)
    parser.add_argument("--table")
    parser.add_argument("--query", help="evaluate these rows instead of the whole table")
    parser.add_argument("--param", action="append", default=[], type=_pair, metavar="NAME=VALUE")
    parser.add_argument("--partition-column", help="count unexpected rows by this column")
    parser.add_argument("--json", action="store_true")
    return parser


def _pair(text: str) -> tuple[str, str | int | float]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


if __name__ == "__main__":
    sys.exit(main())
