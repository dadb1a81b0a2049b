"""Background processes: start them detached, recognise them again, end them.

A process is known by its pid *and* by when it started, so a recycled pid is never mistaken for ours
and never signalled. A zombie counts as gone: in a container nobody may ever reap it.
"""

import fcntl
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_HAS_PROC = sys.platform == "linux"


@dataclass(frozen=True)
class ProcessId:
    """A pid and a mark of its start: equal only for the very same process of the same boot."""

    pid: int
    started: str


@dataclass(frozen=True)
class SystemUser:
    """The uid and gid that a child runs as."""

    uid: int
    gid: int


@contextmanager
def file_lock(path: Path) -> Iterator[int]:
    """Hold an exclusive lock on `path` (made when missing), waiting for whoever has it.

    It belongs to the open file, so it also excludes threads, and it vanishes with the process and
    with every child that was given the file descriptor.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def identify(pid: int) -> ProcessId | None:
    """The identity of a living process, None when there is none or it is a zombie."""
    if pid <= 0:
        return None
    return _identify_in_proc(pid) if _HAS_PROC else _identify_elsewhere(pid)


def _identify_in_proc(pid: int) -> ProcessId | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name in parentheses may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return ProcessId(pid, f"{_boot_id()}:{fields[19]}") if fields[0] not in "ZX" else None


def _identify_elsewhere(pid: int) -> ProcessId | None:
    psutil = _psutil()
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid, f"{process.create_time():.3f}")
    except psutil.Error:
        return None


def is_alive(process: ProcessId) -> bool:
    """Whether that very process still runs."""
    return identify(process.pid) == process


def works_in(pid: int, folder: Path) -> bool:
    """Whether the process works in `folder`, however either of them was renamed since."""
    try:
        if _HAS_PROC:
            return (_PROC / str(pid) / "cwd").samefile(folder)
        psutil = _psutil()
        try:
            return Path(psutil.Process(pid).cwd()).samefile(folder)
        except psutil.Error:
            return False
    except OSError:
        return False


def working_in(folder: Path, program: str) -> list[ProcessId]:
    """Every living process of that program that works in `folder`, or did until its deletion."""
    if _HAS_PROC:
        pids = [
            int(entry.name)
            for entry in _PROC.iterdir()
            if entry.name.isdigit() and _runs(int(entry.name), program)
        ]
    else:
        pids = [
            process.pid
            for process in _psutil().process_iter(["name"])
            if process.info["name"] == program
        ]
    found = (
        identify(pid) for pid in pids if works_in(pid, folder) or _worked_in_deleted(pid, folder)
    )
    return [process for process in found if process is not None]


def _runs(pid: int, program: str) -> bool:
    try:
        return (_PROC / str(pid) / "comm").read_text(errors="replace").strip() == program
    except OSError:
        return False


def _worked_in_deleted(pid: int, folder: Path) -> bool:
    try:
        return _HAS_PROC and str((_PROC / str(pid) / "cwd").readlink()) == f"{folder} (deleted)"
    except OSError:
        return False


def _psutil() -> Any:
    # Only where there is no /proc; it has no type stubs of its own.
    return importlib.import_module("psutil")


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def spawn_detached(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    folder: Path,
    user: SystemUser | None = None,
) -> int:
    """Start a process that outlives us, in its own session, not our child; returns its pid.

    Both of its outputs are appended to `log`, which `user` must be able to write. Raises OSError
    when the shell cannot be started (as another user: PermissionError).
    """
    # The arguments travel as positional parameters: nothing of a path is ever read as shell text.
    script = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'
    started = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        cwd=folder,
        start_new_session=True,
        umask=0o077,
        check=True,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
    return int(started.stdout)


def end_processes(
    processes: Sequence[ProcessId], steps: Sequence[tuple[signal.Signals, float]]
) -> bool:
    """Signal them step by step, each with its patience in seconds, until all are gone; else False.

    Raises PermissionError when one belongs to somebody else.
    """

    def gone() -> bool:
        return not any(is_alive(process) for process in processes)

    for number, patience in steps:
        for process in filter(is_alive, processes):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        if wait_until(gone, patience):
            return True
    return gone()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll `condition` every 10 ms; False when it is still false after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
