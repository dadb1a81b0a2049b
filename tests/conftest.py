"""One embedded server a session, one template database, a clone of it for each test that asks."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from clones import cloned_warehouse
from harness import CACHE
from hypothesis import HealthCheck, settings
from psycopg import sql
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.setup import set_up

TEMPLATE = "sluice_template"

# A busy machine is no failure: nothing in these tests is timed.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a first test was told by dbt serves those that ask about the same project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A server of its own for these tests, in a folder that its user can enter."""
    home = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    home.chmod(0o755)
    server = EmbeddedServer(home, durable=False)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server: EmbeddedServer) -> str:
    """A database that is set up and empty; nobody stays connected to it."""
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} owner sluice_owner").format(sql.Identifier(TEMPLATE))
        )
    set_up(Warehouse(server.url(database=TEMPLATE)))
    return TEMPLATE


@pytest.fixture
def warehouse(server: EmbeddedServer, template: str) -> Iterator[Warehouse]:
    """A warehouse of this test alone."""
    with cloned_warehouse(server, template) as cloned:
        yield cloned


@pytest.fixture(scope="module")
def shared_sluice(
    server: EmbeddedServer,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    demo_server: DemoServer,
    warm_process: WarmProcess,
) -> Iterator[WarmSluice]:
    """A whole Sluice for the tests of one module, which only look at what the first one did."""
    demo_server.clear()
    with cloned_warehouse(server, template) as cloned:
        home = tmp_path_factory.mktemp("home")
        yield WarmSluice(cloned, home, demo_server, process=warm_process)


@pytest.fixture(scope="session")
def demo_server() -> Iterator[DemoServer]:
    with DemoServer() as demo:
        yield demo


@pytest.fixture(scope="session")
def warm_process() -> Iterator[WarmProcess]:
    with WarmProcess() as process:
        yield process


@pytest.fixture
def sluice(
    warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer, warm_process: WarmProcess
) -> Iterator[WarmSluice]:
    """A whole Sluice for one test: its own warehouse and home."""
    demo_server.clear()
    home = tmp_path / "home"
    home.mkdir()
    yield WarmSluice(warehouse, home, demo_server, process=warm_process)
    demo_server.clear()
