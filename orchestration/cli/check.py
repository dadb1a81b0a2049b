"""`sluice check`: prints what is wrong, where, and what to do about it."""

from orchestration.checks import Severity, run_checks
from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.session import read_settings
from orchestration.errors import EXIT_CODES, FailureKind


def check(*, quick: bool, as_json: bool) -> None:
    settings = read_settings()
    if not quick:
        say("checking; dbt and Great Expectations take a few seconds to load")
    findings = run_checks(settings, quick=quick)
    errors = [item for item in findings if item.severity is Severity.ERROR]
    if as_json:
        print_json({"ok": not errors, "findings": [item.as_json() for item in findings]})
    else:
        print_rows(
            "findings",
            ["severity", "where", "message", "hint"],
            [item.as_json() for item in findings],
            "everything that was checked is in order",
        )
    if errors:
        raise SystemExit(EXIT_CODES[FailureKind.CONFIGURATION])
