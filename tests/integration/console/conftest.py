"""One web service for the tests of a module, with an inbox that each test finds empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from clones import cloned_warehouse
from harness import Sluice
from platform_api import PlatformApi
from web_service import WebService

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.embedded import EmbeddedServer


@pytest.fixture(scope="module")
def api() -> Iterator[PlatformApi]:
    with PlatformApi() as api:
        yield api


@pytest.fixture(scope="module")
def running(
    server: EmbeddedServer,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    demo_server: DemoServer,
    api: PlatformApi,
) -> Iterator[WebService]:
    home: Path = tmp_path_factory.mktemp("web")
    with cloned_warehouse(server, template) as cloned:
        sluice = Sluice(cloned, home, demo_server, extra=dict(api.environment))
        with WebService(sluice) as service:
            yield service


@pytest.fixture
def web(running: WebService, api: PlatformApi) -> WebService:
    api.status, api.delay_s = 202, 0.0
    running.client.cookies.clear()
    with running.sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute("delete from ops.inbox")
    return running
