"""What retention decides on: everything that is kept now, and what hangs on what. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

Window = tuple[str, str]
"""(resource, window)."""


@dataclass(frozen=True, kw_only=True)
class VersionFact:
    """`publication` is the number of its latest publication; `relations` are those of its models."""

    version_id: str
    pipeline: str
    state: str
    manifest_id: str
    run_id: str
    created_at: datetime
    publication: int | None = None
    pinned: bool = False
    has_schema: bool = False
    relations: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RunFact:
    """`is_open`: not ended, or driven again; `may_resume`: failed or cancelled, and not superseded.

    `partitions` are what it asked for, (window, revision) each; `artifacts` what it was told.
    """

    run_id: str
    accepted_at: datetime
    ended_at: datetime | None = None
    is_open: bool = False
    may_resume: bool = False
    version_id: str | None = None
    partitions: frozenset[tuple[Window, int]] = frozenset()
    artifacts: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ManifestFact:
    manifest_id: str
    run_id: str
    artifacts: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ArtifactFact:
    """`rows` and `bytes` (an estimate) are what staging holds of it, or did before it was emptied.

    `source_revision` is when its source was asked: that of its origin for a retry, else its own.
    """

    artifact_id: str
    window: Window
    revision: int
    source_revision: int
    state: str
    accepted: bool
    created_at: datetime
    is_empty: bool = False
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class CheckpointFact:
    """`output` names an artifact or a version that the unit came to, or a version that it judged."""

    key: str
    run_id: str
    output: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class QuarantineFact:
    """An entry is a record or a whole partition, by its number.

    `decided_at` is None for what is held, and for what has nothing (more) to erase.
    """

    kind: str
    number: int
    artifact_id: str
    decided_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class PipelineFacts:
    """Everything of one pipeline. `now` is the database's time; `schemas` are of versions that are gone."""

    pipeline: str
    now: datetime
    published: str | None = None
    rollback_to: str | None = None
    versions: tuple[VersionFact, ...] = ()
    runs: tuple[RunFact, ...] = ()
    manifests: tuple[ManifestFact, ...] = ()
    artifacts: tuple[ArtifactFact, ...] = ()
    checkpoints: tuple[CheckpointFact, ...] = ()
    quarantine: tuple[QuarantineFact, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RelationFact:
    """A row of ops.relations. `reads` are relations of the store that it cannot do without.

    `order` grows with creation: what stands on something is younger. `readers` are views outside the
    store, the slots and the versions' schemas that stand on it, such as an analyst's.
    """

    name: str
    model: str
    kind: str
    state: str
    run_id: str
    created_at: datetime
    exists: bool = True
    order: int = 0
    bytes: int = 0
    reads: frozenset[str] = frozenset()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StoreFacts:
    """The store, which all pipelines share. `versions` maps each version to its models' relations."""

    now: datetime
    versions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    slots: frozenset[str] = frozenset()
    open_runs: frozenset[str] = frozenset()
    relations: tuple[RelationFact, ...] = ()
    schemas: tuple[str, ...] = ()
