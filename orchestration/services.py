"""The demo service API as a background process of one home: started once, found again, stopped.

It runs while nobody has configured a real source. Only a process that is provably the one started
here is ever signalled; a service that died or no longer answers is replaced at the next start.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestration.processes import (
    ProcessId,
    end_processes,
    file_lock,
    identify,
    is_alive,
    spawn_detached,
    wait_until,
)

_HOST = "127.0.0.1"
_PROJECT = Path(__file__).resolve().parents[1]
_TOKEN_VARIABLE = "SLUICE_FLIGHTS_API_TOKEN"  # noqa: S105  (the name of a variable)
_START_SECONDS = 30.0
_ANSWER_SECONDS = 5.0
_TERM_SECONDS = 10.0
_LOG_BYTES = 5_000_000


class ServiceError(RuntimeError):
    """A background service cannot be started or stopped; the message ends with what to do."""


@dataclass(frozen=True)
class ServiceStatus:
    """One background service; `url` is None while it does not run."""

    name: str
    running: bool
    pid: int | None
    url: str | None
    log: Path


@dataclass(frozen=True)
class _Record:
    pid: int
    started: str
    port: int

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.started)

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.port}"


def start_demo_api(home: Path, token: str) -> str:
    """Make sure that the demo API answers to this token and return its base URL (no final slash).

    Any number of processes may call it at once. Faults and corrections survive a restart, the port
    does not. Raises ServiceError.
    """
    record = _read(home)
    if record is not None and _answers(record, token):
        return record.url
    with _locked(home):
        record = _read(home)
        if record is not None:
            if _answers(record, token):
                return record.url
            _end(record)
        return _launch(home, token).url


def stop_demo_api(home: Path) -> None:
    """Stop the demo API of this home and wait until it is gone. Raises ServiceError."""
    if not _record_file(home).exists():
        return
    with _locked(home):
        record = _read(home)
        if record is not None:
            _end(record)
        _record_file(home).unlink(missing_ok=True)
        _port_file(home).unlink(missing_ok=True)


def services_status(home: Path) -> list[ServiceStatus]:
    """Every background service of this home, running or not; touches nothing."""
    record = _read(home)
    running = record is not None and is_alive(record.process) and _is_healthy(record)
    return [
        ServiceStatus(
            name="demo_api",
            running=running,
            pid=record.pid if record is not None and running else None,
            url=record.url if record is not None and running else None,
            log=_log_file(home),
        )
    ]


def _launch(home: Path, token: str) -> _Record:
    log = _log_file(home)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.unlink()
    _port_file(home).unlink(missing_ok=True)
    pid = spawn_detached(_command(home), log=log, env=_environment(token), folder=_PROJECT)
    process = identify(pid)
    wait_until(lambda: _read_port(home) is not None or identify(pid) is None, _START_SECONDS)
    port = _read_port(home)
    if process is not None and port is not None:
        record = _Record(process.pid, process.started, port)
        if _answers(record, token):
            _write(home, record)
            return record
    if process is not None:
        end_processes([process], [(signal.SIGKILL, 5)])
    raise ServiceError(
        f"The demo API did not start. {log} says why; run sluice up again when the cause is gone."
    )


def _command(home: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "ingestion.demo_api", "--host", _HOST, "--port", "0"),
        *("--port-file", str(_port_file(home)), "--token-env", _TOKEN_VARIABLE),
        *("--state-file", str(home / "demo_api.state.json")),
    ]


def _environment(token: str) -> dict[str, str]:
    # It needs none of our other secrets.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    return inherited | {_TOKEN_VARIABLE: token, "PYTHONUNBUFFERED": "1"}


def _end(record: _Record) -> None:
    try:
        gone = end_processes(
            [record.process], [(signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, 5)]
        )
    except PermissionError as error:
        raise ServiceError(
            f"The demo API (pid {record.pid}) belongs to another user. Stop it as that user, or "
            "set SLUICE_HOME to a folder of your own."
        ) from error
    if not gone:
        raise ServiceError(
            f"The demo API (pid {record.pid}) does not stop. Wait a moment and try again."
        )


def _answers(record: _Record, token: str) -> bool:
    """Whether it is our process, healthy, and knows this token (which nobody else is shown)."""
    return (
        is_alive(record.process)
        and _is_healthy(record)
        and _get(record, "/control/faults", {"Authorization": f"Bearer {token}"}) is not None
    )


def _is_healthy(record: _Record) -> bool:
    return _get(record, "/healthz", {}) == {"status": "ok"}


def _get(record: _Record, path: str, headers: dict[str, str]) -> object:
    """The JSON of a 200 answer, None for anything else."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(_HOST, record.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        answer: object = json.loads(body) if response.status == 200 else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return answer


def _read(home: Path) -> _Record | None:
    try:
        found = json.loads(_record_file(home).read_text("utf-8"))
        return _Record(int(found["pid"]), str(found["started"]), int(found["port"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # Only a disk fault writes half a record; without it there is no process to recognise.
        return None


def _write(home: Path, record: _Record) -> None:
    fresh = _record_file(home).with_suffix(".new")
    fresh.write_text(json.dumps(asdict(record)), "utf-8")
    fresh.replace(_record_file(home))


def _read_port(home: Path) -> int | None:
    try:
        return int(_port_file(home).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    try:
        with file_lock(home / "services.lock"):
            yield
    except OSError as error:
        raise ServiceError(
            f"The services of {home} could not be managed: {error.strerror} ({error.filename}). "
            "Put that right, then try again."
        ) from error


def _record_file(home: Path) -> Path:
    return home / "demo_api.json"


def _port_file(home: Path) -> Path:
    return home / "demo_api.port"


def _log_file(home: Path) -> Path:
    return home / "logs" / "demo_api.log"
