"""One demo service for each module, and a caller that leaves it as it found it."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ingestion.demo_api.server import DemoServer


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer() as running:
        yield running


@pytest.fixture
def client(server: DemoServer) -> Iterator[httpx.Client]:
    server.clear()
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=20, trust_env=False) as opened:
        yield opened
    server.clear()


@pytest.fixture
def read(client: httpx.Client) -> Callable[[str], list[dict[str, Any]]]:
    """Follow the pages from a link; every page must tell the true total."""

    def follow(link: str | None) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        totals = set()
        while link:
            answer = client.get(link).raise_for_status().json()
            records += answer["records"]
            totals.add(answer["total_records"])
            link = answer["next"]
        assert totals == {len(records)}
        return records

    return follow


@pytest.fixture
def set_fault(client: httpx.Client) -> Callable[..., int]:
    """Put a fault into force over HTTP and return its id."""

    def post(**fault: object) -> int:
        answer = client.post("/control/faults", json=fault)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    return post
