"""A whole Sluice for one test: its own warehouse, home and demo service."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Sluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse


@pytest.fixture(scope="session")
def demo_server() -> Iterator[DemoServer]:
    with DemoServer() as demo:
        yield demo


@pytest.fixture
def sluice(warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer) -> Iterator[Sluice]:
    demo_server.clear()
    home = tmp_path / "home"
    home.mkdir()
    yield Sluice(warehouse, home, demo_server)
    demo_server.clear()
