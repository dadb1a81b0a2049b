"""One Postgres data folder: made whole or not at all, configured, launched, recognised, ended.

The callers hold the home's lock for everything that changes something.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestration.processes import (
    ProcessId,
    SystemUser,
    end_processes,
    identify,
    spawn_detached,
    wait_until,
    working_in,
    works_in,
)
from orchestration.warehouse.embedded_install import POSTGRES_MAJOR, EmbeddedServerError
from orchestration.warehouse.embedded_place import Place, give_to, sockets_are_private

SUPERUSER = "postgres"
_BOOTSTRAP = Path(__file__).with_name("embedded_bootstrap.sql")
_COMMON_SETTINGS = Path(__file__).with_name("embedded.conf")
_SETTINGS = "sluice.conf"
_START_LOG = "start.log"
_FRESH = f".{POSTGRES_MAJOR}.new-"

_THROWAWAY_SETTINGS = """\
fsync = off
full_page_writes = off
"""


@dataclass(frozen=True)
class Postmaster:
    """The running server process of a data folder; `ready` as it says itself in postmaster.pid."""

    process: ProcessId
    ready: bool


def running_postmaster(data: Path) -> Postmaster | None:
    """The server that runs on this very folder, whatever a stale or copied pid file says."""
    lines = _pid_file_lines(data)
    if not lines or not lines[0].strip().isdigit():
        return None
    process = identify(int(lines[0]))
    if process is None or not works_in(process.pid, data):
        return None
    return Postmaster(process, len(lines) > 7 and lines[7].strip() == "ready")


def is_answering(place: Place) -> bool:
    """Whether the server runs, says ready and accepts connections; about 1 ms, no subprocess."""
    postmaster = running_postmaster(place.data)
    if postmaster is None or not postmaster.ready or not sockets_are_private(place):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(str(place.socket))
        except OSError:
            return False
    return True


def ensure_cluster(place: Place, programs: Path, *, durable: bool, lock: int) -> None:
    """Make the data folder if missing (initdb, roles, database), whole or not; write settings.

    `lock` is the open lock file: the programs hold it too, so that nobody takes their work away
    when only their starter was killed.
    """
    data = place.data
    for leftover in data.parent.glob(f"{_FRESH}*"):
        shutil.rmtree(leftover)
    if not data.exists():
        _create(place, programs, durable=durable, lock=lock)
    elif not (data / "PG_VERSION").exists():
        raise EmbeddedServerError(
            f"{data} is not a Postgres data folder. Move it away, then try again."
        )
    if place.user and data.stat().st_uid != place.user.uid:
        give_to(data, place.user)
    settings = _COMMON_SETTINGS.read_text("utf-8")
    settings += f"unix_socket_directories = '{place.sockets}'\n"
    settings += "" if durable else _THROWAWAY_SETTINGS
    _write(data / _SETTINGS, settings, place.user)


def refuse_torn_copy(place: Place) -> None:
    """Raise EmbeddedServerError for a folder copied while in use: recovery cannot mend that."""
    lines = _pid_file_lines(place.data)
    origin = Path(lines[1]) if len(lines) > 1 else place.data
    if origin.is_dir() and place.data.is_dir() and not origin.samefile(place.data):
        raise EmbeddedServerError(
            f"{place.data} was copied from {origin} while a server used it, so it may be torn. "
            f"Stop that server (sluice down) and copy again, or delete {place.data} to begin with "
            "nothing."
        )


def clear_leftovers(place: Place) -> None:
    """End what survived its server and remove its marks; needs that no server runs there."""
    end_strays(place.data)
    # Postgres would refuse to start when the pid in it now belongs to another process of its user.
    (place.data / "postmaster.pid").unlink(missing_ok=True)
    if sockets_are_private(place):
        shutil.rmtree(place.sockets, ignore_errors=True)


def launch(place: Place, programs: Path, *, patience: float) -> None:
    """Start the server and wait until it answers (after a crash: until it has recovered)."""
    log = place.data / _START_LOG
    log.unlink(missing_ok=True)
    pid = spawn_detached(
        [str(programs / "postgres"), "-D", str(place.data)],
        log=log,
        env=_environment(),
        folder=Path("/"),
        user=place.user,
    )
    answered = wait_until(
        lambda: (
            is_answering(place)
            or (identify(pid) is None and running_postmaster(place.data) is None)
        ),
        patience,
    )
    if not is_answering(place):
        reason = "it did not answer in time" if not answered else _last_words(place)
        raise EmbeddedServerError(
            f"The embedded Postgres did not start: {reason}. Its logs are {log} and {place.logs}; "
            "run sluice up again when the cause is gone."
        )


def end_server(place: Place) -> None:
    """Fast shutdown of the server, then of whatever outlived it; nothing runs afterwards."""
    postmaster = running_postmaster(place.data)
    if postmaster is not None and not end_processes(
        [postmaster.process], [(signal.SIGINT, 120), (signal.SIGQUIT, 30)]
    ):
        raise EmbeddedServerError(
            f"The embedded Postgres (pid {postmaster.process.pid}) does not stop. Wait a minute "
            "and run sluice down again; a disk that does not answer is the usual cause."
        )
    end_strays(place.data)


def end_strays(data: Path) -> None:
    """End server processes without a server: after a SIGKILL, or after their folder was deleted."""
    wait_until(lambda: not working_in(data, "postgres"), 2 if data.exists() else 0)
    end_processes(working_in(data, "postgres"), [(signal.SIGQUIT, 3), (signal.SIGKILL, 5)])


def _create(place: Place, programs: Path, *, durable: bool, lock: int) -> None:
    fresh = Path(tempfile.mkdtemp(prefix=_FRESH, dir=place.data.parent))
    if place.user:
        os.chown(fresh, place.user.uid, place.user.gid)
    locale = [
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
    ]
    options = ["--auth=trust", "--no-instructions", *([] if durable else ["--no-sync"])]
    _run(
        place,
        [str(programs / "initdb"), "-D", str(fresh), "-U", SUPERUSER, *locale, *options],
        lock,
    )
    statements = [
        line for line in _BOOTSTRAP.read_text().splitlines() if line and not line.startswith("--")
    ]
    single = [
        "--single",
        "-D",
        str(fresh),
        "-c",
        "exit_on_error=on",
        *([] if durable else ["-F"]),
        SUPERUSER,
    ]
    _run(
        place,
        [str(programs / "postgres"), *single],
        lock,
        "".join(f"{line}\n" for line in statements),
    )
    main_file = fresh / "postgresql.conf"
    _write(main_file, f"{main_file.read_text()}\ninclude '{_SETTINGS}'\n", place.user)
    _write(fresh / "pg_hba.conf", "local all all trust\n", place.user)
    _write(fresh / _SETTINGS, "", place.user)
    fresh.rename(place.data)
    _sync_folder(place.data.parent)


def _run(place: Place, command: Sequence[str], lock: int, text: str = "") -> None:
    user = place.user
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        cwd="/",
        env=_environment(),
        umask=0o077,
        pass_fds=(lock,),
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise EmbeddedServerError(
            f"{Path(command[0]).name} could not make the database: {said}. "
            f"Check the space and the permissions of {place.data.parent}, then try again."
        )


def _environment() -> dict[str, str]:
    # No secret of ours, and none of the caller's PG* variables, may reach the server.
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def _write(path: Path, text: str, user: SystemUser | None) -> None:
    fd, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        if user:
            os.fchown(fd, user.uid, user.gid)
        file.flush()
        os.fsync(fd)
    Path(name).replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _pid_file_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text("utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def _last_words(place: Place) -> str:
    logs = [
        place.data / _START_LOG,
        *sorted(place.logs.glob("*.log"), key=lambda path: path.stat().st_mtime),
    ]
    said = [
        line.partition("FATAL:")[2].strip()
        for log in logs
        if log.exists()
        for line in log.read_text(errors="replace").splitlines()
        if "FATAL:" in line
    ]
    return said[-1] if said else "it ended without a message"
