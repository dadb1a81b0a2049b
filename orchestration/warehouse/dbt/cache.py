"""Files that spare a second process what a first one was told, each below the digest of its question.

Nothing needed to resume is in here: a file that is missing, damaged or not ours alone counts as
absent, and one that cannot be written is not missed. The content is data, never code.
"""

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MARK = b"sluice cache 1"
_SUFFIX = ".answer"
_KEPT = 24
# A writer that was killed leaves its temporary file; no writer takes this long.
_LEFT_BEHIND_S = 3600
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class DiskCache:
    """A folder of ours (mode 0700) that keeps the files used last; processes may share it."""

    folder: Path

    def read(self, key: str) -> bytes | None:
        """The content that was written under this key (64 hex digits), if all of it is there."""
        if not self._is_private():
            return None
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not _is_ours_alone(found):
                return None
            head, _, content = file.read().partition(b"\n")
        if head != _head(key, content):
            return None
        with suppress(OSError):
            os.utime(self._path(key))
        return content

    def write(self, key: str, content: bytes) -> None:
        """Keeps the content, whole or not at all, and drops what was not used for longest."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private():
                self._replace(key, _head(key, content) + b"\n" + content)
                self._prune()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _is_private(self) -> bool:
        try:
            found = self.folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and _is_ours_alone(found)

    def _replace(self, key: str, text: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
            Path(temporary).replace(self._path(key))
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _prune(self) -> None:
        by_age: list[tuple[float, Path]] = []
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):
                by_age.append((file.stat().st_mtime, file))
        kept = sorted((entry for entry in by_age if entry[1].suffix == _SUFFIX), reverse=True)
        dead = [file for _, file in kept[_KEPT:]]
        oldest = time.time() - _LEFT_BEHIND_S
        dead += [file for age, file in by_age if file.name.startswith(".") and age < oldest]
        for file in dead:
            file.unlink(missing_ok=True)


def _head(key: str, content: bytes) -> bytes:
    return b" ".join((_MARK, key.encode(), hashlib.sha256(content).hexdigest().encode()))


def _is_ours_alone(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE_BY_OTHERS
