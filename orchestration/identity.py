"""Names that are derived, never drawn: the same thing has the same id on every machine.

Pure functions over strings, canonical JSON below every digest: no concatenation is ambiguous.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NewType

RunId = NewType("RunId", str)
VersionId = NewType("VersionId", str)
ManifestId = NewType("ManifestId", str)
ArtifactId = NewType("ArtifactId", str)
CodeId = NewType("CodeId", str)
ContentKey = NewType("ContentKey", str)
IdempotencyKey = NewType("IdempotencyKey", str)


def digest(value: Any) -> str:
    """sha256 in hex (64 characters) of the value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(pipeline: str, trigger_kind: str, trigger_key: str, code_id: str) -> RunId:
    """The id of the run that this request is, however often it is made."""
    return RunId("r_" + digest([pipeline, trigger_kind, trigger_key, code_id])[:16])


def idempotency_key(pipeline: str, source_partition: str, stage: str) -> IdempotencyKey:
    """sha256 of `pipeline:source_partition:stage`; none of the parts contains a colon."""
    for part in (pipeline, source_partition, stage):
        if ":" in part:
            raise ValueError(f"a part of an idempotency key contains a colon: {part!r}")
    text = f"{pipeline}:{source_partition}:{stage}"
    return IdempotencyKey(hashlib.sha256(text.encode()).hexdigest())


def manifest_id(pipeline: str, artifacts: Iterable[tuple[str, str, int, str]]) -> ManifestId:
    """Id of a set of artifacts by content: (resource, window, row count, content checksum) each."""
    return ManifestId("m_" + digest([pipeline, sorted(artifacts)])[:16])


def version_id(
    pipeline: str, manifest: str, content_keys: Mapping[str, str], published: Iterable[str]
) -> VersionId:
    """Id of one manifest seen through one set of model content keys, of which some are published."""
    shown = sorted(set(published) & set(content_keys))
    return VersionId("v_" + digest([pipeline, manifest, dict(content_keys), shown])[:16])
