"""Suites: each one named exists, can be read, and reads only columns that its subject has."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from expectations.check import check_suite
from expectations.document import Problem, SuiteError
from expectations.suite import DAY_BEFORE, Suite, SuiteExpectation, load_suite
from expectations.verdict import Severity as SuiteSeverity
from expectations.volume import HISTORY_COLUMNS
from ingestion.resources import Resource
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, shown_path, split_hint

SUBJECT = "suites"
Place = tuple[int | str, ...]
_SuiteProblem = tuple[SuiteExpectation, str, str]


def check_suites(
    declared: Iterable[DeclaredPipeline],
    suites_dir: Path,
    columns: Mapping[str, Iterable[str]],
) -> list[Finding]:
    """`columns`: staging table or model → its columns; what is not in it is not compared."""
    findings, named = [], set[str]()
    for pipeline in declared:
        for place, name in _named_suites(pipeline):
            path = suites_dir / f"{name}.yml"
            if not path.is_file():
                message = f"the suite {name} does not exist"
                hint = f"write {shown_path(path, pipeline.project_dir, 1).rpartition(':')[0]}"
                if close := get_close_matches(name, _existing(suites_dir), 1):
                    hint += f"; or did you mean `{close[0]}`?"
                findings.append(pipeline.error(SUBJECT, place, message, hint))
            elif name not in named:
                findings += check_suite_file(path, pipeline.project_dir, columns)
            named.add(name)
    return findings


def check_suite_file(
    path: Path, project_dir: Path, columns: Mapping[str, Iterable[str]]
) -> list[Finding]:
    """One suite: its form, the columns it reads, the runbooks it names."""
    try:
        suite = load_suite(path)
        known = columns.get(suite.name)
        problems = suite.missing_columns(known) if known is not None else []
    except SuiteError as error:
        return [_finding(problem, project_dir) for problem in error.problems]
    return [_finding(problem, project_dir) for problem in problems] + [
        Finding(
            Severity.ERROR,
            SUBJECT,
            shown_path(path, project_dir, item.line),
            f"the runbook {item.runbook} does not exist",
            "write it, or name one that does",
        )
        for item in suite.expectations
        if "://" not in item.runbook
        and not (project_dir / item.runbook.partition("#")[0]).is_file()
    ]


def check_resource_suites(
    declared: Iterable[DeclaredPipeline], suites_dir: Path, known: Mapping[str, Resource]
) -> list[Finding]:
    """Suites of what arrives: what they read beside it, and that a first day has bounds too."""
    findings = []
    for pipeline in declared:
        for spec in pipeline.spec.resources:
            by_day = spec.name in known and known[spec.name].contract.window_kind == "day"
            for name in filter(None, (spec.suite, spec.volume_suite)):
                try:
                    suite = load_suite(suites_dir / f"{name}.yml")
                except (OSError, SuiteError):
                    continue
                is_volume = name == spec.volume_suite
                readable = {DAY_BEFORE} if by_day and not is_volume else set()
                problems = list(_foreign_reads(suite, readable))
                problems += _unbounded_beginning(suite) if is_volume else ()
                findings += [
                    Finding(
                        Severity.ERROR,
                        SUBJECT,
                        shown_path(suite.path, pipeline.project_dir, item.line),
                        *(message, hint),
                    )
                    for item, message, hint in problems
                ]
    return findings


def _foreign_reads(suite: Suite, readable: set[str]) -> Iterator[_SuiteProblem]:
    for item in suite.expectations:
        if wrong := sorted(set(item.reads) - readable):
            yield (
                item,
                f"rows that arrive cannot be compared with {', '.join(wrong)}",
                f"name `{DAY_BEFORE}` in a suite of the rows of days, models in suites of models",
            )


def _unbounded_beginning(suite: Suite) -> Iterator[_SuiteProblem]:
    """What has no history yet would pass with any number of rows."""
    critical = [item for item in suite.expectations if item.severity is SuiteSeverity.CRITICAL]
    historical = [item for item in critical if not HISTORY_COLUMNS.isdisjoint(item.columns)]
    if historical and not any("row_count" in item.columns for item in critical):
        yield (
            historical[0],
            "nothing is refused before there is a history",
            "add an expectation on `row_count` with constant bounds, also critical",
        )


def check_expectations(declared: Iterable[DeclaredPipeline], suites_dir: Path) -> list[Finding]:
    """Expectation types and arguments of every readable suite, by Great Expectations itself."""
    findings = []
    for pipeline in declared:
        for _, name in _named_suites(pipeline):
            try:
                suite = load_suite(suites_dir / f"{name}.yml")
            except (OSError, SuiteError):
                continue
            findings += [_finding(problem, pipeline.project_dir) for problem in check_suite(suite)]
    return findings


def _finding(problem: Problem, project_dir: Path) -> Finding:
    where = shown_path(Path(problem.path), project_dir, problem.line)
    return Finding(Severity.ERROR, SUBJECT, where, *split_hint(problem.message))


def _existing(suites_dir: Path) -> list[str]:
    return [
        path.relative_to(suites_dir).with_suffix("").as_posix()
        for path in suites_dir.glob("**/*.yml")
    ]


def _named_suites(pipeline: DeclaredPipeline) -> list[tuple[Place, str]]:
    words = ("suite", "volume_suite")
    named: list[tuple[Place, str]] = [
        (("resources", index, word), name)
        for index, resource in enumerate(pipeline.spec.resources)
        for word in words
        if (name := getattr(resource, word)) is not None
    ]
    return named + [(("suites", i), name) for i, name in enumerate(pipeline.spec.suites)]
