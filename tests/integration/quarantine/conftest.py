from collections.abc import Iterator
from pathlib import Path

import pytest
from quarantine_bench import Bench

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse


@pytest.fixture
def bench(
    warehouse: Warehouse,
    demo_server: DemoServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """A source that sends the sixteen carriers in order, nothing fetched yet."""
    demo_server.clear()
    monkeypatch.setenv("SLUICE_FLIGHTS_API_URL", demo_server.url)
    monkeypatch.setenv("SLUICE_FLIGHTS_API_TOKEN", demo_server.token)
    monkeypatch.setenv("SLUICE_PSEUDONYM_KEY", "a key for tests")
    yield Bench(warehouse, demo_server, tmp_path)
    demo_server.clear()
