"""A folder on this machine for one process: gone with it, also when it was killed.

Nothing in it is needed to resume. A process holds a lock on its folder, so that the next one can
tell what dead ones left behind and removes it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A new folder below `parent`, which is made when missing and swept first."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sweep_work_folders(parent)
    folder, lock = _new_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep_work_folders(parent: Path) -> None:
    """Removes the folders below `parent`, which may be missing, whose process is gone."""
    for left in parent.glob("*"):
        _remove_if_dead(left)


def _new_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent))
        lock = _lock(folder)
        # Between its birth and its lock another process may have taken it for a dead one's.
        if lock is not None and folder.exists():
            return folder, lock
        if lock is not None:
            os.close(lock)


def _remove_if_dead(folder: Path) -> None:
    lock = _lock(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """A file descriptor that holds the folder's lock; None if it is gone or somebody has it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
