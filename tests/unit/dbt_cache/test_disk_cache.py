"""Files that spare work: whole or absent, ours or ignored, and never more than so many."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestration.warehouse.dbt.cache import _KEPT, DiskCache

KEY = "a" * 64
OTHER = "b" * 64
CONTENT = b"an answer\nof two lines\x00" * 100

_WRITER = """
import sys
from pathlib import Path
from orchestration.warehouse.dbt.cache import DiskCache
cache, own = DiskCache(Path(sys.argv[1])), sys.argv[2]
whole = {name.encode() * 200_000 for name in "xyz"}
for turn in range(60):
    cache.write("c" * 64, own.encode() * 200_000)
    cache.write(f"{turn:02}{own}", b"crowd")
    assert cache.read("c" * 64) in whole | {None}
"""


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache" / "dbt")


def only_file(cache: DiskCache) -> Path:
    [file] = cache.folder.iterdir()
    return file


def test_what_was_written_is_read(cache: DiskCache) -> None:
    assert cache.read(KEY) is None
    cache.write(KEY, CONTENT)
    assert cache.read(KEY) == CONTENT
    assert cache.read(OTHER) is None
    cache.write(KEY, b"")
    assert cache.read(KEY) == b""


def test_folder_and_files_are_private(cache: DiskCache) -> None:
    cache.write(KEY, CONTENT)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert only_file(cache).stat().st_mode & 0o777 == 0o600


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def cut_to_head(file: Path) -> None:
    file.write_bytes(file.read_bytes().partition(b"\n")[0])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garbage(file: Path) -> None:
    file.write_bytes(os.urandom(4096))


def flip_a_bit(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[-7] ^= 1
    file.write_bytes(text)


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


def rename_another(file: Path) -> None:
    """The file says which question it answers."""
    cache = DiskCache(file.parent)
    cache.write(OTHER, b"another answer")
    (file.parent / file.name.replace(KEY, OTHER)).replace(file)


def link(file: Path) -> None:
    elsewhere = file.parent.parent / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def let_the_group_write(file: Path) -> None:
    file.chmod(0o660)


DAMAGES = [
    *(cut, cut_to_head, empty, garbage, flip_a_bit, lengthen, rename_another, link),
    let_the_group_write,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_counts_as_absent_and_is_written_again(
    cache: DiskCache, damage: Callable[[Path], None]
) -> None:
    cache.write(KEY, CONTENT)
    damage(only_file(cache))
    assert cache.read(KEY) is None
    cache.write(KEY, CONTENT)
    assert cache.read(KEY) == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_counts_as_absent(cache: DiskCache) -> None:
    cache.write(KEY, CONTENT)
    os.chown(only_file(cache), 65534, 65534)
    assert cache.read(KEY) is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_in_which_others_write_is_not_used(cache: DiskCache, mode: int) -> None:
    cache.write(KEY, CONTENT)
    cache.folder.chmod(mode)
    assert cache.read(KEY) is None
    cache.write(OTHER, CONTENT)
    cache.folder.chmod(0o700)
    assert cache.read(KEY) == CONTENT
    assert cache.read(OTHER) is None


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "cache")
    cache.write(KEY, CONTENT)
    assert cache.read(KEY) is None


def test_what_was_used_last_is_kept(cache: DiskCache) -> None:
    def age(key: str, seconds: int) -> None:
        os.utime(cache._path(key), (seconds, seconds))

    keys = [f"{number:064}" for number in range(_KEPT)]
    for number, key in enumerate(keys):
        cache.write(key, CONTENT)
        age(key, 1_000_000 + number)
    assert cache.read(keys[0]) == CONTENT
    cache.write(KEY, CONTENT)
    assert len(list(cache.folder.iterdir())) == _KEPT
    assert [key for key in (*keys, KEY) if cache.read(key) is None] == [keys[1]]


def test_what_a_killed_writer_left_is_removed_when_it_is_old(cache: DiskCache) -> None:
    cache.write(KEY, CONTENT)
    old, new = cache.folder / ".old", cache.folder / ".new"
    old.touch()
    new.touch()
    os.utime(old, (1_000_000, 1_000_000))
    cache.write(OTHER, CONTENT)
    assert (old.exists(), new.exists()) == (False, True)


def test_processes_that_write_at_once_never_show_half_a_file(cache: DiskCache) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(cache.folder), name]) for name in "xyz"
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    assert cache.read("c" * 64) in {name.encode() * 200_000 for name in "xyz"}
    files = list(cache.folder.iterdir())
    assert len(files) <= _KEPT
    assert not [file for file in files if file.name.startswith(".")]
