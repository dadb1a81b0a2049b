"""A whole Sluice for one test, and fresh ones for tests that need several."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from harness import Sluice
from observation import REQUEST, observe
from psycopg import sql
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def fresh_sluice(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    warm_process: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[], Sluice]]:
    """Makes a Sluice with an empty warehouse and an empty home, as often as it is called.

    All of them run one copy of the project, so that editing the checkout meanwhile changes nothing.
    """
    databases: list[str] = []
    project = tmp_path_factory.mktemp("project") / "copy"

    def administer(statement: str, *names: str) -> None:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL(statement).format(*(sql.Identifier(name) for name in names))  # type: ignore[arg-type]
            )

    def make() -> Sluice:
        while databases:
            administer("drop database {} with (force)", databases.pop())
        databases.append(f"test_{secrets.token_hex(6)}")
        administer(
            "create database {} template {} owner sluice_owner strategy file_copy",
            databases[-1],
            template,
        )
        home = tmp_path_factory.mktemp("home")
        sluice = WarmSluice(
            Warehouse(server.url(database=databases[-1])), home, demo_server, process=warm_process
        )
        return (
            replace(sluice, project=project) if project.exists() else sluice.copy_project(project)
        )

    yield make
    while databases:
        administer("drop database {} with (force)", databases.pop())


@pytest.fixture(scope="session")
def undisturbed(fresh_sluice: Callable[[], Sluice]) -> dict[str, Any]:
    """What a run leaves behind that nothing happened to."""
    sluice = fresh_sluice()
    assert sluice.json(*REQUEST)["outcome"] == "published"
    return observe(sluice)
