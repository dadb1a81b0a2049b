"""A source that says 429 and how long to wait is asked again no sooner, by the whole pipeline."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.faults import Fault
from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse

DAY = "2013-01-05"
RETRY_AFTER_S = 3


@dataclass
class RequestLog:
    """What the service was asked, page by page: when it answered with which status, and when asked."""

    app: ASGIApp
    requests: dict[str, list[tuple[float, float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked, status = monotonic(), 0

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                page = f"{scope['path']}?{scope['query_string'].decode()}"
                self.requests[page].append((asked, monotonic(), status))
            await send(message)

        await self.app(scope, receive, note)


@pytest.fixture
def log() -> Iterator[tuple[DemoServer, RequestLog]]:
    """A service of this test alone, and its log."""
    demo = DemoServer()
    log = RequestLog(demo._server.config.app)  # type: ignore[arg-type]
    demo._server.config.app = log
    with demo:
        yield demo, log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attempts_of_a_page", "attempts_of_the_unit"), [("5", 1), ("1", 3)], ids=["client", "stage"]
)
def test_a_wait_that_the_source_asks_for_is_kept_and_the_partition_loaded_once(
    warehouse: Warehouse,
    tmp_path: Path,
    warm_process: WarmProcess,
    log: tuple[DemoServer, RequestLog],
    attempts_of_a_page: str,
    attempts_of_the_unit: int,
) -> None:
    """First the page is tried again where it is read; then only the stage can try again."""
    demo, seen = log
    sluice = WarmSluice(warehouse, tmp_path, demo, process=warm_process)
    sluice.extra["SLUICE_FETCH_ATTEMPTS"] = attempts_of_a_page
    demo.set_fault(
        Fault.RATE_LIMITED, resource="flights", date=DAY, page=1, times=2, seconds=RETRY_AFTER_S
    )
    done = sluice.run(DAY)
    assert done["outcome"] == "published"

    [limited] = [page for page in seen.requests.values() if 429 in {s for _, _, s in page}]
    assert [status for _, _, status in limited] == [429, 429, 200]
    waits = [later[0] - sooner[1] for sooner, later in itertools.pairwise(limited)]
    assert all(wait >= RETRY_AFTER_S for wait in waits), waits
    others = [page for page in seen.requests.values() if page is not limited]
    assert all(len(page) == 1 for page in others), "what was fetched was asked for again"

    assert sluice.query(
        "select state, count(*) from ops.artifacts where partition = "
        f"'flights.flights/{DAY}@1' group by 1"
    ) == [("adopted", 1)]
    assert sluice.query(
        "select max(attempt) from ops.checkpoints where stage = 'extract' and step = ''"
    ) == [(attempts_of_the_unit,)]
    assert sluice.query("select distinct error_code from ops.attempts where status = 'failed'") == (
        [("source_rate_limited",)] if attempts_of_the_unit > 1 else []
    )
