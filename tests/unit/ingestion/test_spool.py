import stat
from datetime import UTC, datetime
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
    rejected_path,
    rows_path,
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
    assert read_rows(tmp_path / "spool", fetched.ref).num_rows == 2
    assert Fetched.from_json(fetched.to_json()) == fetched


def test_nothing_but_the_two_files_is_left_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    fetched = spool(tmp_path)
    paths = {rows_path(tmp_path, fetched.ref), rejected_path(tmp_path, fetched.ref)}
    assert set(tmp_path.iterdir()) == paths
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    discard_spooled(tmp_path, fetched.ref)
    discard_spooled(tmp_path, fetched.ref)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path_of", [rows_path, rejected_path])
def test_a_missing_or_changed_file_is_not_taken_for_what_was_fetched(
    tmp_path: Path, path_of: object
) -> None:
    fetched = spool(tmp_path)
    path = path_of(tmp_path, fetched.ref)
    original = path.read_bytes()
    path.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    assert load_spooled(tmp_path, fetched.ref, fetched.checksum) is None
    path.unlink()
    assert load_spooled(tmp_path, fetched.ref, fetched.checksum) is None
    assert load_spooled(tmp_path / "empty", fetched.ref, fetched.checksum) is None


def test_two_fetches_of_one_partition_do_not_meet(tmp_path: Path) -> None:
    first, second = spool(tmp_path), spool(tmp_path)
    assert first.ref != second.ref
    assert load_spooled(tmp_path, first.ref, first.checksum) == first


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = []

    def fail_at_second(draft: Path, target: Path) -> None:
        replaced.append(target)
        if len(replaced) == 2:
            raise OSError(28, "No space left on device")
        draft.rename(target)

    monkeypatch.setattr(Path, "replace", fail_at_second)
    with pytest.raises(OSError, match="No space"):
        spool(tmp_path)
    assert list(tmp_path.iterdir()) == []
