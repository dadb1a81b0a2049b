import sys
from pathlib import Path
from textwrap import dedent

import pytest

import ingestion.sources
from ingestion.contracts import Contract
from ingestion.errors import IngestionConfigurationError
from ingestion.partitions import Partition
from ingestion.resources import Resource, Source
from ingestion.sources import get_resource, get_source, list_sources

STRANGER = """
    from typing import Annotated
    from typing_extensions import TypedDict
    from ingestion.contracts import Contract
    from ingestion.fields import About
    from ingestion.resources import Resource, Source

    class Team(TypedDict):
        code: Annotated[str, About(doc="Code.", length=(1, 5))]

    CONTRACT = Contract(
        name="stranger.teams", version="1", supported_versions=("1",), record=Team, key=("code",)
    )
    SOURCE = Source(
        name="stranger", description="x", resources=(Resource(contract=CONTRACT, path="/teams"),)
    )
"""


@pytest.fixture
def extra_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ingestion.sources, "__path__", [*ingestion.sources.__path__, str(tmp_path)])
    ingestion.sources._discover.cache_clear()
    yield tmp_path
    ingestion.sources._discover.cache_clear()
    for name in [name for name in sys.modules if name.startswith("ingestion.sources.stranger")]:
        del sys.modules[name]


def test_a_package_in_the_folder_is_a_source_without_any_list_to_edit(extra_folder: Path) -> None:
    (extra_folder / "stranger").mkdir()
    (extra_folder / "stranger" / "__init__.py").write_text(dedent(STRANGER))
    assert {"flights", "stranger"} <= {source.name for source in list_sources()}
    resource = get_resource("stranger.teams")
    assert resource.staging_table == "stranger__teams"
    assert get_source("stranger").url_variable == "SLUICE_STRANGER_API_URL"
    assert get_source("stranger").token_variable == "SLUICE_STRANGER_API_TOKEN"


def test_a_package_without_a_source_is_refused_not_skipped(extra_folder: Path) -> None:
    (extra_folder / "stranger").mkdir()
    (extra_folder / "stranger" / "__init__.py").write_text("")
    with pytest.raises(IngestionConfigurationError, match="declares no SOURCE"):
        list_sources()


@pytest.mark.parametrize("name", ["flights.nothing", "nowhere.nothing", "flights", ""])
def test_an_unknown_resource_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(IngestionConfigurationError, match="flights"):
        get_resource(name)


def test_a_resource_asks_for_its_own_windows_only() -> None:
    weather = get_resource("flights.weather")
    assert weather.query(Partition("flights.weather", "2013-02-12")) == {"date": "2013-02-12"}
    assert get_resource("flights.planes").query(Partition("flights.planes", "snapshot")) == {}
    for other in (
        Partition("flights.planes", "snapshot"),
        Partition("flights.weather", "snapshot"),
    ):
        with pytest.raises(ValueError, match="no partition of"):
            weather.query(other)


def test_a_resource_of_another_source_is_refused() -> None:
    contract: Contract = get_resource("flights.planes").contract
    with pytest.raises(TypeError, match=r"name the contract other\."):
        Source(name="other", description="x", resources=(Resource(contract=contract, path="/x"),))
