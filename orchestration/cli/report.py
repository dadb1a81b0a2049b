"""`sluice report`: writes the page of one run."""

from pathlib import Path

from orchestration.cli.output import print_json, say, write_file
from orchestration.cli.reading import reading
from orchestration.cli.session import read_settings


def write_report(prefix: str | None, *, output: Path | None, as_json: bool) -> None:
    """Without `output` the page goes below SLUICE_HOME, one file a run."""
    from orchestration.reports.facts import read_report
    from orchestration.reports.page import render_report
    from orchestration.runs.state import resolve_run

    with reading() as connection:
        run = resolve_run(connection, prefix)
        page = render_report(read_report(connection, run))
    file = output or read_settings().home_dir / "reports" / f"{run.run_id}.html"
    write_file(file, page.encode())
    if as_json:
        print_json({"run_id": run.run_id, "outcome": run.outcome, "report": str(file)})
    else:
        say(f"report of {run.run_id} ({run.outcome or run.status}):")
        print(file)  # noqa: T201
