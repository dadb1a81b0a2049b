"""What a fetch leaves on disk between fetching and loading: accepted rows, rejected records,
counts.

Two files a partition, each written whole or not at all and readable by their owner alone; a
checksum over both says later whether they are still what was fetched. Losing them costs a fetch,
never data.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from ingestion.partitions import Partition
from ingestion.rejections import RejectedRecord


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A fetched partition: `ref` names its files in the spool, `checksum` is the sha256 of both.

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


def rows_path(spool_dir: Path, ref: str) -> Path:
    """The accepted rows: the contract's columns and `_source_ref`."""
    return spool_dir / f"{ref}.arrow"


def rejected_path(spool_dir: Path, ref: str) -> Path:
    """The rejected records, redacted, with the counts of the partition."""
    return spool_dir / f"{ref}.rejected.json"


def write_spooled(
    spool_dir: Path, table: Any, rejected: Sequence[RejectedRecord], facts: dict[str, Any]
) -> Fetched:
    """Writes both files and returns the partition. `facts` are the other fields of `Fetched`.

    Raises `OSError` when the disk does not take them; then nothing of this fetch is left.
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
    rows = _encode_rows(table)
    records = [record.to_json() for record in rejected]
    rest = json.dumps({"partition": values, "rejected": records}, allow_nan=False).encode()
    try:
        _write_whole(rows_path(spool_dir, ref), rows)
        _write_whole(rejected_path(spool_dir, ref), rest)
    except OSError:
        discard_spooled(spool_dir, ref)
        raise
    return Fetched.from_json(values | {"checksum": _checksum(rows, rest)})


def load_spooled(spool_dir: Path, ref: str, checksum: str) -> Fetched | None:
    """The spooled partition, or None when a file is missing or is not what was written."""
    try:
        rows = rows_path(spool_dir, ref).read_bytes()
        rest = rejected_path(spool_dir, ref).read_bytes()
    except OSError:
        return None
    if _checksum(rows, rest) != checksum:
        return None
    return Fetched.from_json(json.loads(rest)["partition"] | {"checksum": checksum})


def read_rejected(spool_dir: Path, ref: str) -> list[RejectedRecord]:
    """The rejected records of a spooled partition, in the source's order. Raises `OSError`."""
    stored = json.loads(rejected_path(spool_dir, ref).read_bytes())
    return [RejectedRecord(**record) for record in stored["rejected"]]


def discard_spooled(spool_dir: Path, ref: str) -> None:
    """Removes both files; they may be gone already."""
    rows_path(spool_dir, ref).unlink(missing_ok=True)
    rejected_path(spool_dir, ref).unlink(missing_ok=True)


def read_rows(spool_dir: Path, ref: str) -> Any:
    """The accepted rows as an Arrow table. Raises `FileNotFoundError`."""
    import pyarrow as pa

    with pa.memory_map(str(rows_path(spool_dir, ref))) as file:
        return pa.ipc.open_file(file).read_all()


def _encode_rows(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    # Read back once and soon: Arrow's own form costs a tenth of what parquet does for a small table.
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _checksum(*contents: bytes) -> str:
    whole = hashlib.sha256()
    for content in contents:
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        # No fsync, which costs as much as all the rest: what a power cut leaves fails the checksum.
        with open(draft, "wb", opener=_open_private) as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
