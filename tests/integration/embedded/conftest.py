import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestration.warehouse.embedded import EmbeddedServer

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter; pytest's own ones are private."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_server() -> Iterator[Callable[[Path], EmbeddedServer]]:
    """Makes servers for given homes and destroys all of them afterwards."""
    made: list[EmbeddedServer] = []

    def make(home: Path) -> EmbeddedServer:
        server = EmbeddedServer(home, durable=False)
        made.append(server)
        return server

    yield make
    for server in made:
        server.destroy()


@pytest.fixture
def server(open_folder: Path, make_server: Callable[[Path], EmbeddedServer]) -> EmbeddedServer:
    return make_server(open_folder / "home")


@pytest.fixture
def in_new_process() -> Callable[..., "subprocess.Popen[str]"]:
    """Runs Python text in a new process that can import the project; `arguments` are argv."""

    def start(text: str, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", text, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
        )

    return start
