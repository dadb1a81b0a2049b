import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ingestion.rejections import RejectedRecord
from ingestion.spool import (
    Fetched,
    discard_spooled,
    load_spooled,
    read_rejected,
    read_rows,
    spool_path,
    sweep_spool,
    write_spooled,
)

REJECTED = RejectedRecord(
    "/v1/x?page=1#3", "temp.float_type", "temp", "temp is …", {"a": [1, None]}
)


def spool(folder: Path) -> Fetched:
    return write_spooled(
        folder,
        pa.table({"a": [1, 2], "_source_ref": ["/1#0", "/1#1"]}),
        [REJECTED],
        {
            "resource": "flights.weather",
            "partition": "flights.weather/2013-02-12@2",
            "run_id": "r_1",
            "fetched": 3,
            "schema_version": "1",
            "contract_version": "1",
            "unexpected_fields": ("b", "c"),
            "fetched_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        },
    )


def test_what_was_spooled_is_found_again(tmp_path: Path) -> None:
    fetched = spool(tmp_path / "spool")
    assert (fetched.accepted, fetched.rejected) == (2, 1)
    assert load_spooled(tmp_path / "spool", fetched.ref, fetched.checksum) == fetched
    assert read_rejected(tmp_path / "spool", fetched.ref) == [REJECTED]
    assert read_rows(tmp_path / "spool", fetched.ref).column("a").to_pylist() == [1, 2]
    assert Fetched.from_json(fetched.to_json()) == fetched


def test_one_file_is_left_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    fetched = spool(tmp_path)
    path = spool_path(tmp_path, fetched.ref)
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    discard_spooled(tmp_path, fetched.ref)
    discard_spooled(tmp_path, fetched.ref)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_changed_file_is_not_taken_for_what_was_fetched(tmp_path: Path) -> None:
    fetched = spool(tmp_path)
    path = spool_path(tmp_path, fetched.ref)
    original = path.read_bytes()
    for content in (original[:-1] + bytes([original[-1] ^ 1]), original[:-1], b""):
        path.write_bytes(content)
        assert load_spooled(tmp_path, fetched.ref, fetched.checksum) is None
    path.unlink()
    assert load_spooled(tmp_path, fetched.ref, fetched.checksum) is None
    assert load_spooled(tmp_path / "empty", fetched.ref, fetched.checksum) is None


def test_two_fetches_of_one_partition_do_not_meet(tmp_path: Path) -> None:
    first, second = spool(tmp_path), spool(tmp_path)
    assert first.ref != second.ref
    assert load_spooled(tmp_path, first.ref, first.checksum) == first


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(draft: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        spool(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_came_back_for_is_swept(tmp_path: Path) -> None:
    old, new = spool(tmp_path), spool(tmp_path)
    draft = tmp_path / ".x.arrow.draft"
    draft.touch()
    for path in (spool_path(tmp_path, old.ref), draft):
        os.utime(path, (0, 0))
    assert sweep_spool(tmp_path, timedelta(days=7)) == 2
    assert list(tmp_path.iterdir()) == [spool_path(tmp_path, new.ref)]
    assert sweep_spool(tmp_path / "missing", timedelta(0)) == 0
