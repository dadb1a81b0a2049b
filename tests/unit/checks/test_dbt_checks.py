"""What `sluice check` says about the dbt project, by dbt itself, without a warehouse."""

import shutil
from copy import deepcopy
from pathlib import Path

import pytest

from orchestration.checks.dbt import (
    DbtProject,
    check_project,
    check_source_tables,
    model_columns,
)
from orchestration.checks.declared import read_pipelines
from orchestration.checks.finding import Finding
from orchestration.checks.sources import registered_resources
from orchestration.settings import Settings

PROJECT = Path(__file__).parents[3]
FLIGHTS = Path("orchestration/pipelines/flights.yml")
MARTS = Path("dbt_project/models/marts/flights")
SOURCES = Path("dbt_project/models/staging/flights/_flights__sources.yml")
KNOWN, _ = registered_resources()
STAGED_PLANES = "dbt_project/models/staging/flights/stg_flights__planes.sql"
Checked = tuple[DbtProject | None, list[Finding]]


def copy_project(folder: Path) -> Path:
    shutil.copytree(PROJECT / "orchestration/pipelines", folder / "orchestration/pipelines")
    generated = shutil.ignore_patterns("target", "logs", "profiles.yml")
    shutil.copytree(PROJECT / "dbt_project", folder / "dbt_project", ignore=generated)
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def check(project: Path) -> Checked:
    settings = Settings(project_dir=project)
    declared, problems = read_pipelines(settings.pipelines_dir, project)
    assert problems == []
    return check_project(settings, declared)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    return check(copy_project(tmp_path_factory.mktemp("shipped")))


def test_the_shipped_dbt_project_has_nothing_to_report(shipped: Checked) -> None:
    assert shipped[1] == []


def test_the_columns_of_published_models_are_those_of_their_contracts(shipped: Checked) -> None:
    assert shipped[0] is not None
    columns = model_columns(shipped[0])
    assert columns["dim_carrier"] == ["carrier_code", "carrier_name"]
    assert "stg_flights__planes" not in columns


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    project = copy_project(tmp_path_factory.mktemp("broken"))
    edit(project / FLIGHTS, "dim_plane]\n\nsuites", "dim_train, stg_flights__planes]\n\nsuites")
    edit(project / FLIGHTS, "fct_flights: [flight_key, ", "fct_flights: [flight_kay, ")
    edit(project / MARTS / "dim_carrier.sql", "carrier_name", "now() as carrier_name")
    return check(project)[1]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("the dbt project has no model dim_train", "publishes:"),
        ("fct_flights has no column flight_kay", "fct_flights:"),
        ("stg_flights__planes belongs to no group with an owner", STAGED_PLANES),
        ("bare view over", STAGED_PLANES),
        ("its result depends on the moment", str(MARTS / "dim_carrier.sql")),
    ],
)
def test_a_broken_project_is_reported_once_where_it_is_to_be_corrected(
    broken: list[Finding], message: str, place: str
) -> None:
    (found,) = [item for item in broken if message in item.message]
    file, _, line = found.where.rpartition(":")
    if file == str(FLIGHTS):
        assert place in (PROJECT / FLIGHTS).read_text().splitlines()[int(line) - 1]
    else:
        assert file == place


def test_nothing_else_is_reported(broken: list[Finding]) -> None:
    assert len(broken) == 5


def test_a_project_that_dbt_refuses_is_one_finding(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    (project / MARTS / "dim_carrier.sql").write_text("select {{ ref('nothing') }}")
    checked, findings = check(project)
    assert checked is None
    (found,) = findings
    assert "nothing" in found.message
    assert found.where == f"{MARTS / 'dim_carrier.sql'}:1"


def test_the_shipped_source_tables_are_those_of_the_contracts(shipped: Checked) -> None:
    assert shipped[0] is not None
    assert check_source_tables(shipped[0], KNOWN, PROJECT / "dbt_project", PROJECT) == []


def test_a_source_table_that_fits_no_contract_is_found_at_its_line(
    shipped: Checked, tmp_path: Path
) -> None:
    assert shipped[0] is not None
    copy_project(tmp_path)
    tables = {table.name: deepcopy(table) for table in shipped[0].sources.values()}
    edit(tmp_path / SOURCES, "name: airports", "name: airport")
    edit(tmp_path / SOURCES, "{name: seats,", "{name: chairs,")
    tables["airports"].name = "airport"
    tables["airlines"].identifier = "flights__airports"
    tables["planes"].columns["chairs"] = tables["planes"].columns.pop("seats")
    project = DbtProject({}, frozenset(), tables)
    lines = (tmp_path / SOURCES).read_text().splitlines()
    found = check_source_tables(project, KNOWN, tmp_path / "dbt_project", tmp_path)
    assert {
        (item.message, lines[int(item.where.rpartition(":")[2]) - 1].strip(" -{").partition(",")[0])
        for item in found
    } == {
        ("no source offers the resource flights.airport", "name: airport"),
        (
            "flights.airlines reads live.flights__airports, which is not its view",
            "name: airlines",
        ),
        ("the contract of flights.planes has no column chairs", "name: chairs"),
    }
