"""A warehouse in which one good day is published, cloned for each test that does something to it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clones import cloned_warehouse
from harness import Sluice
from outcome_table import NEW_DAY, PUBLISHED_DAY
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

Published = dict[str, list[tuple[Any, ...]]]
Open = Callable[[Warehouse, Path], Sluice]


@pytest.fixture(scope="session")
def open_sluice(demo_server: DemoServer, warm_process: WarmProcess) -> Open:
    """Makes a Sluice of a warehouse and a home."""
    return lambda warehouse, home: WarmSluice(
        warehouse,
        home,
        demo_server,
        extra={"SLUICE_FETCH_ATTEMPTS": "3"},
        process=warm_process,
    )


@pytest.fixture(scope="session")
def good_day(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    open_sluice: Open,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sluice]:
    """One good day is published; only to look at and to be cloned."""
    demo_server.clear()
    with cloned_warehouse(server, template) as warehouse:
        sluice = open_sluice(warehouse, tmp_path_factory.mktemp("home"))
        sluice.run(PUBLISHED_DAY)
        yield sluice


@pytest.fixture(scope="session")
def before(good_day: Sluice) -> Published:
    """What readers see before anything goes wrong."""
    return good_day.everything_published()


@pytest.fixture(scope="session")
def whole(
    server: EmbeddedServer,
    demo_server: DemoServer,
    good_day: Sluice,
    before: Published,
    open_sluice: Open,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    """What readers see once the second day is published, whole."""
    demo_server.clear()
    with cloned_warehouse(server, good_day.warehouse.database) as warehouse:
        undisturbed = open_sluice(warehouse, tmp_path_factory.mktemp("home"))
        undisturbed.run(NEW_DAY)
        return undisturbed.everything_published()


@pytest.fixture
def after_a_good_day(
    server: EmbeddedServer,
    demo_server: DemoServer,
    good_day: Sluice,
    whole: Published,
    open_sluice: Open,
    tmp_path: Path,
) -> Iterator[Sluice]:
    """A clone of that, for one test: nothing is wrong yet."""
    demo_server.clear()
    with cloned_warehouse(server, good_day.warehouse.database) as warehouse:
        yield open_sluice(warehouse, tmp_path)
    demo_server.clear()
