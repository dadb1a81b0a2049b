from collections.abc import Iterator

import pytest

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse


@pytest.fixture
def database(warehouse: Warehouse) -> Warehouse:
    """A fresh warehouse with migrations and staging tables."""
    return warehouse


@pytest.fixture(scope="session")
def demo_server() -> Iterator[DemoServer]:
    with DemoServer() as server:
        yield server


@pytest.fixture
def demo(demo_server: DemoServer) -> Iterator[DemoServer]:
    demo_server.clear()
    yield demo_server
    demo_server.clear()


@pytest.fixture
def environ(demo: DemoServer) -> dict[str, str]:
    return {
        "SLUICE_FLIGHTS_API_URL": demo.url,
        "SLUICE_FLIGHTS_API_TOKEN": demo.token,
        "SLUICE_PSEUDONYM_KEY": "a key for tests",
    }
