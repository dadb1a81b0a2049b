"""Suites: each one named exists, can be read, and reads only columns that its subject has."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from expectations.check import check_suite
from expectations.document import Problem, SuiteError
from expectations.suite import load_suite
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, shown_path, split_hint

SUBJECT = "suites"
Place = tuple[int | str, ...]


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
