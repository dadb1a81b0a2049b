"""What a fetch leaves on disk between fetching and loading: accepted rows, rejected records, counts.

One Arrow file a partition, written whole or not at all and readable by its owner alone; its checksum
says later whether it is still what was fetched. Losing it costs a fetch, never data.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import time
from typing import Any, Self

from ingestion.partitions import Partition
from ingestion.rejections import RejectedRecord

_VALUES = b"sluice.partition"
_REJECTED = b"sluice.rejected"


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A fetched partition: `ref` names its file in the spool, `checksum` is that file's sha256.

    fetched = accepted + rejected, always. `fetched_at` is when the first page was asked for, in
    UTC.
    """

    ref: str
    checksum: str
    resource: str
    partition: str
    run_id: str
    fetched: int
    accepted: int
    rejected: int
    schema_version: str
    contract_version: str
    unexpected_fields: tuple[str, ...]
    fetched_at: datetime

    def to_json(self) -> dict[str, Any]:
        """JSON-able, for a checkpoint; `from_json` takes it back."""
        return asdict(self) | {
            "unexpected_fields": list(self.unexpected_fields),
            "fetched_at": self.fetched_at.isoformat(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(
            **values
            | {
                "unexpected_fields": tuple(values["unexpected_fields"]),
                "fetched_at": datetime.fromisoformat(values["fetched_at"]),
            }
        )


def spool_path(spool_dir: Path, ref: str) -> Path:
    """The file of a spooled partition."""
    return spool_dir / f"{ref}.arrow"


def write_spooled(
    spool_dir: Path, table: Any, rejected: Sequence[RejectedRecord], facts: dict[str, Any]
) -> Fetched:
    """Writes the file and returns the partition. `facts` are the other fields of `Fetched`.

    Raises `OSError` when the disk does not take it; then nothing of this fetch is left.
    """
    spool_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = Partition.parse(facts["partition"])
    ref = f"{name.resource}_{name.window}_r{name.revision}_{secrets.token_hex(6)}"
    values = facts | {
        "ref": ref,
        "accepted": table.num_rows,
        "rejected": len(rejected),
        "fetched_at": facts["fetched_at"].isoformat(),
        "unexpected_fields": list(facts["unexpected_fields"]),
    }
    content = _encode(table, values, rejected)
    _write_whole(spool_path(spool_dir, ref), content)
    return Fetched.from_json(values | {"checksum": _checksum(content)})


def load_spooled(spool_dir: Path, ref: str, checksum: str) -> Fetched | None:
    """The spooled partition, or None when its file is missing or is not what was written."""
    try:
        content = spool_path(spool_dir, ref).read_bytes()
    except OSError:
        return None
    if _checksum(content) != checksum:
        return None
    import pyarrow as pa

    values, _ = _decode_metadata(pa.ipc.open_file(content).schema)
    return Fetched.from_json(values | {"checksum": checksum})


def read_rows(spool_dir: Path, ref: str) -> Any:
    """The accepted rows as an Arrow table: the contract's columns and `_source_ref`.

    Raises `FileNotFoundError`.
    """
    import pyarrow as pa

    with pa.memory_map(str(spool_path(spool_dir, ref))) as file:
        return pa.ipc.open_file(file).read_all()


def read_rejected(spool_dir: Path, ref: str) -> list[RejectedRecord]:
    """The rejected records of a spooled partition, redacted, in the source's order.

    Raises `FileNotFoundError`.
    """
    _, rejected = _decode_metadata(read_rows(spool_dir, ref).schema)
    return [RejectedRecord.from_json(record) for record in rejected]


def discard_spooled(spool_dir: Path, ref: str) -> None:
    """Removes the file; it may be gone already."""
    spool_path(spool_dir, ref).unlink(missing_ok=True)


def sweep_spool(spool_dir: Path, older_than: timedelta) -> int:
    """Removes files that nobody came back for; returns how many. The folder may be missing."""
    limit = time() - older_than.total_seconds()
    removed = 0
    for path in [*spool_dir.glob("*.arrow"), *spool_dir.glob(".*.draft")]:
        # Another process may be sweeping or discarding the same files.
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < limit:
                path.unlink()
                removed += 1
    return removed


def _encode(table: Any, values: dict[str, Any], rejected: Sequence[RejectedRecord]) -> bytes:
    import pyarrow as pa

    metadata = {
        _VALUES: json.dumps(values),
        _REJECTED: json.dumps([record.to_json() for record in rejected], allow_nan=False),
    }
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    # Read back once and soon: Arrow's own form costs a tenth of what parquet does for a small table.
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _decode_metadata(schema: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    metadata = schema.metadata
    return json.loads(metadata[_VALUES]), json.loads(metadata[_REJECTED])


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        # No fsync, which costs as much as all the rest: what a power cut leaves fails the checksum.
        with open(draft, "wb", opener=_open_private) as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
