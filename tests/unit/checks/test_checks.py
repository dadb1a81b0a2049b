"""`sluice check`: what it finds in a copy of the project, each finding with file and line."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

import ingestion.sources
from orchestration.checks import Finding, Severity, run_checks
from orchestration.settings import Settings

PROJECT = Path(__file__).parents[3]
FLIGHTS = Path("orchestration/pipelines/flights.yml")

Check = Callable[[], list[Finding]]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what is checked, without a warehouse."""
    for folder in ("orchestration/pipelines", "expectations/suites", "docs/runbooks"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    return tmp_path


@pytest.fixture
def check(project: Path) -> Check:
    """The quick checks of the copy, without the word that its server does not run."""

    def run() -> list[Finding]:
        settings = Settings(project_dir=project, home=project / ".sluice")
        return [found for found in run_checks(settings, quick=True) if found.subject != "warehouse"]

    return run


def edit(project: Path, old: str, new: str, file: Path = FLIGHTS) -> int:
    """Replaces the first `old`; the line on which it began."""
    text = (project / file).read_text()
    assert old in text
    (project / file).write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def test_the_project_as_shipped_has_nothing_to_report(check: Check) -> None:
    assert check() == []


def test_a_misspelt_word_is_found_at_its_line(project: Path, check: Check) -> None:
    line = edit(project, "max_quarantined_share", "max_quarantine_share")
    (found,) = check()
    assert found.where == f"{FLIGHTS}:{line}"
    assert "did you mean `max_quarantined_share`" in found.hint


def test_a_resource_that_no_source_offers_is_an_error(project: Path, check: Check) -> None:
    line = edit(project, "flights.planes", "flights.trains")
    (found,) = check()
    assert (found.severity, found.where) == (Severity.ERROR, f"{FLIGHTS}:{line}")
    assert "flights.planes" in found.hint


def test_a_required_field_that_the_contract_lacks_is_an_error(project: Path, check: Check) -> None:
    line = edit(project, "required_fields: [tailnum]", "required_fields: [tail]")
    (found,) = check()
    assert found.where == f"{FLIGHTS}:{line}"
    assert "flights.planes has no field tail" in found.message


def test_schema_versions_that_no_contract_reads_are_an_error(project: Path, check: Check) -> None:
    line = edit(project, 'schema_versions: ["1"]', 'schema_versions: ["7"]')
    found = check()
    assert {item.where for item in found} == {f"{FLIGHTS}:{line}"}
    assert len(found) == 5


@pytest.mark.parametrize("suite", ["staging/flights__planes", "marts/dim_plane"])
def test_a_suite_that_does_not_exist_is_an_error(project: Path, check: Check, suite: str) -> None:
    line = edit(project, f"{suite}\n", f"{suite}s\n")
    (found,) = check()
    assert found.where == f"{FLIGHTS}:{line}"
    assert f"{suite}s" in found.message


def test_a_suite_that_reads_an_unknown_column_is_an_error(project: Path, check: Check) -> None:
    suite = Path("expectations/suites/staging/flights__planes.yml")
    edit(project, "column: seats", "column: chairs", suite)
    (found,) = check()
    assert found.where.startswith(f"{suite}:")
    assert "`chairs`" in found.message


def test_a_volume_suite_that_knows_only_history_is_an_error(project: Path, check: Check) -> None:
    suite = Path("expectations/suites/staging/flights__flights__volume.yml")
    assert "share_of_usual" in (project / suite).read_text()
    edit(
        project,
        "column: row_count, min_value: 550",
        "column: usual_row_count, min_value: 550",
        suite,
    )
    (found,) = check()
    assert found.where.startswith(f"{suite}:")
    assert "before there is a history" in found.message


@pytest.mark.parametrize(
    ("suite", "reads"),
    [("flights", "fct_flights"), ("planes", "day_before"), ("flights__volume", "day_before")],
)
def test_a_suite_of_arriving_rows_that_reads_something_else_is_an_error(
    project: Path, check: Check, suite: str, reads: str
) -> None:
    file = Path(f"expectations/suites/staging/flights__{suite}.yml")
    line = edit(project, "meta: {reason: ", f"meta: {{reads: [{reads}], reason: ", file)
    (found,) = check()
    assert found.where == f"{file}:{line - 3}"
    assert reads in found.message


def test_a_suite_without_severity_is_found_in_its_file(project: Path, check: Check) -> None:
    suite = Path("expectations/suites/marts/dim_plane.yml")
    edit(project, "severity: ", "sevrity: ", suite)
    found = check()
    assert found
    assert all(item.where.startswith(f"{suite}:") for item in found)


def test_a_runbook_that_does_not_exist_is_an_error(project: Path, check: Check) -> None:
    suite = Path("expectations/suites/marts/dim_plane.yml")
    edit(project, "runbook: docs/runbooks/failed-gate.md", "runbook: docs/nowhere.md", suite)
    found = check()
    assert found
    assert {item.message for item in found} == {"the runbook docs/nowhere.md does not exist"}


def test_a_model_published_by_two_pipelines_is_an_error_in_the_second(
    project: Path, check: Check
) -> None:
    second = FLIGHTS.with_name("planes.yml")
    text = (project / FLIGHTS).read_text().replace("name: flights\n", "name: planes\n", 1)
    (project / second).write_text(text)
    found = check()
    assert {item.where.partition(":")[0] for item in found} == {str(second)}
    assert sum("publishes dim_plane too" in item.message for item in found) == 1


def test_every_broken_file_is_reported_and_the_others_are_still_checked(
    project: Path, check: Check
) -> None:
    edit(project, "flights.planes", "flights.trains")
    (project / FLIGHTS.with_name("broken.yml")).write_text("name: broken\n")
    files = {item.where.rpartition(":")[0] for item in check()}
    assert files == {str(FLIGHTS), str(FLIGHTS.with_name("broken.yml"))}


def test_a_project_without_pipelines_says_so(project: Path, check: Check) -> None:
    (project / FLIGHTS).unlink()
    (found,) = check()
    assert "no pipeline" in found.message


def test_a_real_source_without_token_and_key_is_reported_at_once(
    project: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_FLIGHTS_API_URL", "https://flights.example.com")
    missing = {found.message.partition(" ")[0] for found in check()}
    assert missing == {"SLUICE_FLIGHTS_API_TOKEN", "SLUICE_PSEUDONYM_KEY"}


def test_a_warehouse_url_that_is_none_is_an_error_that_does_not_show_it(project: Path) -> None:
    settings = Settings(project_dir=project, warehouse_url=SecretStr("mysql://me:geheim@host/db"))
    found = [item for item in run_checks(settings, quick=True) if item.subject == "environment"]
    assert [item.severity for item in found] == [Severity.ERROR]
    assert "geheim" not in str(found)


def test_a_warehouse_that_does_not_answer_is_a_warning(project: Path) -> None:
    url = SecretStr("postgresql://me:geheim@127.0.0.1:1/db")
    settings = Settings(project_dir=project, warehouse_url=url, roles_secret=SecretStr("long"))
    (found,) = run_checks(settings, quick=True)
    assert (found.subject, found.severity) == ("warehouse", Severity.WARNING)
    assert "geheim" not in str(found)


def test_an_embedded_server_that_does_not_run_is_not_started(project: Path) -> None:
    settings = Settings(project_dir=project, home=project / ".sluice")
    (found,) = run_checks(settings, quick=True)
    assert (found.subject, "sluice up" in found.hint) == ("warehouse", True)
    assert not (project / ".sluice").exists()


def test_errors_come_before_warnings(project: Path) -> None:
    edit(project, "flights.planes", "flights.trains")
    found = run_checks(Settings(project_dir=project, home=project / ".sluice"), quick=True)
    severities = [item.severity for item in found]
    assert severities == [Severity.ERROR, Severity.WARNING]


def test_a_source_that_cannot_be_imported_is_found_at_its_line(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("\nx = (\n")
    monkeypatch.setattr(ingestion.sources, "__path__", [str(tmp_path)])
    ingestion.sources._discover.cache_clear()
    try:
        (found,) = [item for item in check() if item.subject == "sources"]
    finally:
        ingestion.sources._discover.cache_clear()
    assert found.where == "ingestion/sources/broken/__init__.py:2"
    assert found.message == "'(' was never closed"


def test_a_misspelt_suite_is_offered_the_one_that_exists(project: Path, check: Check) -> None:
    edit(project, "marts/dim_plane\n", "marts/dim_plan\n")
    (found,) = check()
    assert "did you mean `marts/dim_plane`?" in found.hint
