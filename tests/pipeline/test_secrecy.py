"""Secrets and personal data stay where they belong, also when things go wrong, and nobody is called."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.ipc
import pytest
from harness import CACHE, Moment, Sluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.embedded_install import installed_programs

DAY = "2013-01-05"
TOKEN = "a-token-that-nobody-may-see"
PSEUDONYM_KEY = "a-key-that-nobody-may-see"
CREW = "@crew.example"
# What Postgres says about rows: DETAIL of a broken constraint, and a value in a first line.
ROW_VALUES = ("Failing row contains", "DETAIL", 'for type integer: "')
MARTS = Path("dbt_project/models/marts/flights")

# Python's own sockets are watched from inside; libpq opens none but those of the warehouse's URL.
WATCH = """
import os, socket

def _note(what):
    with open(os.environ["SOCKETS_SEEN"], "a") as file:
        print(what, file=file)

def _is_near(address):
    return isinstance(address, (str, bytes)) or str(address[0]) in ("127.0.0.1", "::1", "localhost")

def _watched(name):
    original = getattr(socket.socket, name)
    def call(self, address, *rest):
        _note(f"{'near' if _is_near(address) else 'FAR'} {name} {address}")
        if not _is_near(address):
            raise OSError("a socket was about to leave this machine")
        return original(self, address, *rest)
    setattr(socket.socket, name, call)

for name in ("connect", "connect_ex"):
    _watched(name)
_sendto, _getaddrinfo = socket.socket.sendto, socket.getaddrinfo

def sendto(self, data, *rest):
    if not _is_near(rest[-1]):
        _note(f"FAR sendto {rest[-1]}")
    return _sendto(self, data, *rest)

def getaddrinfo(host, *rest, **named):
    if host not in (None, "", b"", "127.0.0.1", "::1", "localhost", socket.gethostname()):
        _note(f"FAR getaddrinfo {host}")
        raise OSError("a name was about to be looked up")
    return _getaddrinfo(host, *rest, **named)

socket.socket.sendto, socket.getaddrinfo = sendto, getaddrinfo
"""


@pytest.fixture
def secret_demo() -> Iterator[DemoServer]:
    with DemoServer(token=TOKEN) as demo:
        yield demo


@pytest.fixture
def watched(warehouse: Warehouse, secret_demo: DemoServer, tmp_path: Path) -> Sluice:
    """A copy of the project with secrets of its own, whose sockets are written down."""
    home, watch = tmp_path / "home", tmp_path / "watch"
    home.mkdir()
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    copy = Sluice(warehouse, home, secret_demo).copy_project(tmp_path / "project")
    return replace(
        copy,
        extra={
            "PYTHONPATH": f"{watch}:{copy.project}",
            CACHE: str(home / "cache"),
            "SOCKETS_SEEN": str(tmp_path / "sockets"),
            "SLUICE_PSEUDONYM_KEY": PSEUDONYM_KEY,
            "SLUICE_LOG_LEVEL": "DEBUG",
        },
    )


@pytest.mark.slow
def test_secrets_and_row_values_stay_inside_and_no_socket_leaves_the_machine(
    watched: Sluice, server: EmbeddedServer, tmp_path: Path
) -> None:
    said = _a_bad_day(watched)
    places = {
        "output": said,
        "database": _dump(watched.warehouse),
        "home": _files(watched.home),
        "server log": _files(server.home, "log/*"),
        "dbt's own folders": _files(watched.project / "dbt_project", "**/logs/*"),
    }
    assert "crew_pseudonym" in places["database"]
    assert "stage ended" in places["home"]
    for place, text in places.items():
        for secret in (CREW, TOKEN, PSEUDONYM_KEY):
            assert secret not in text, f"{secret} in {place}: {_around(text, secret)}"
        for sign in ROW_VALUES:
            assert sign not in text, f"{sign} in {place}: {_around(text, sign)}"

    sockets = (tmp_path / "sockets").read_text().splitlines()
    assert any(line.startswith("near connect") for line in sockets)
    assert [line for line in sockets if line.startswith("FAR")] == []


def _a_bad_day(sluice: Sluice) -> str:
    """Faults at the source, a kill while fetched rows lie on the disk, three ways to fail in dbt."""
    said = []
    demo, folder = sluice.demo, sluice.project / MARTS
    for position, (fault, field) in enumerate(
        [
            ("malformed_record", "crew_email"),
            ("nul_character", "crew_email"),
            ("malformed_record", "distance"),
            ("missing_field", "origin"),
            ("extra_field", None),
        ]
    ):
        demo.set_fault(fault, resource="flights", date=DAY, page=1, position=position, field=field)
    sluice.kill_at(Moment(0.8, "extract"), "run", "--pipeline", "flights", "--partitions", DAY)
    assert CREW not in _spooled(sluice)

    def run(code: int) -> None:
        for options in ([], ["--json"]):
            done = sluice.call("run", "--pipeline", "flights", "--partitions", DAY, *options)
            said.append(done.stdout + done.stderr)
            assert done.returncode == code, said[-1][-4000:]

    run(0)
    assert len(sluice.query("select 1 from quarantine.records")) >= 3
    carriers, flights = folder / "dim_carrier.sql", folder / "fct_flights.sql"
    for file, old, new in [
        # not what the contract says
        (carriers, "        carrier_name\n", "        length(carrier_name) as carrier_name\n"),
        # a broken NOT NULL, whose DETAIL shows the whole row
        (
            flights,
            "        carrier_code,\n",
            "        nullif(carrier_code, 'UA') as carrier_code,\n",
        ),
        # a value in the first line of the error
        (
            flights,
            "        flight_number,\n",
            "        cast(tail_number as integer) as flight_number,\n",
        ),
    ]:
        text = file.read_text()
        assert text.count(old) == 1
        file.write_text(text.replace(old, new))
        run(12)
        file.write_text(text)
    for command in (
        ["status"],
        ["runs", "show"],
        ["gates", "show"],
        ["quarantine", "list"],
        ["quarantine", "show", "record-1"],
    ):
        for options in ([], ["--json"]):
            done = sluice.call(*command, *options)
            assert done.returncode == 0, done.stderr
            said.append(done.stdout + done.stderr)
    return "\n".join(said)


def _dump(warehouse: Warehouse) -> str:
    return subprocess.run(
        [str(installed_programs() / "pg_dump"), "--no-password", warehouse.owner_url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _files(folder: Path, pattern: str = "*") -> str:
    files = [file for file in folder.rglob(pattern) if file.is_file()]
    return "\n".join(file.read_bytes().decode(errors="replace") for file in files)


def _spooled(sluice: Sluice) -> str:
    """What lies in the spool, also where the files are compressed."""
    tables = [pyarrow.ipc.open_file(file).read_all() for file in sluice.home.rglob("spool/*.arrow")]
    assert all("crew_email" not in table.column_names for table in tables)
    return _files(sluice.home) + "".join(str(table.to_pylist()) for table in tables)


def _around(text: str, needle: str) -> str:
    at = text.index(needle)
    return text[max(0, at - 300) : at + 200]
