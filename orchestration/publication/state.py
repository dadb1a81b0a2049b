"""What is published and what the slots show right now, read from the catalogue itself.

Reading only; a slot view is known by the relation below it, not by what was written down about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.identity import VersionId
from orchestration.publication.dependants import Dependant, find_dependants
from orchestration.publication.shapes import Column, Shape, columns_from_json
from orchestration.publication.versions import refuse_dropped
from orchestration.publication.views import Schema, Slot, Source
from orchestration.sql.rows import rows_of


@dataclass(frozen=True)
class Pointer:
    """What every published view of a pipeline shows; `flipped_by` is a 64-bit transaction id."""

    active_slot: Slot
    version_id: VersionId
    publication_id: int
    flipped_by: int


@dataclass(frozen=True)
class Target:
    """A model of the version that is to be shown; its source has no columns if it is gone."""

    model: str
    relation: str
    columns: tuple[Column, ...]
    source: Source


@dataclass(frozen=True)
class SlotView:
    """A slot view as it is; `is_recorded` says whether `ops.slot_views` agrees."""

    columns: tuple[Column, ...]
    relation: str
    source: Source
    is_recorded: bool


@dataclass(frozen=True)
class PublishedView:
    columns: tuple[Column, ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Registered:
    """A published model as it is known to belong to a pipeline."""

    pipeline: str
    shape: Shape


@dataclass(frozen=True)
class PublicationState:
    """All that preparing a slot depends on."""

    pipeline: str
    version_id: VersionId
    pointer: Pointer | None
    targets: tuple[Target, ...]
    registered: dict[str, Registered]
    slot_views: dict[tuple[Slot, str, int], SlotView]
    """By slot, model and number of the shape."""
    published_views: dict[tuple[Schema, str], PublishedView]
    dependants: tuple[Dependant, ...] = ()

    @property
    def missing_models(self) -> list[str]:
        """Published models of this pipeline that the version doesn't have."""
        has = {target.model for target in self.targets}
        return sorted(
            model
            for model, entry in self.registered.items()
            if entry.pipeline == self.pipeline and model not in has
        )


def read_pointer(
    connection: psycopg.Connection, pipeline: str, *, lock: bool = False
) -> Pointer | None:
    """The pointer of a pipeline. `lock` keeps it from moving until the transaction ends."""
    row = connection.execute(
        "select active_slot, version_id, publication_id, flipped_by::text::bigint "
        "from ops.publication_pointer where pipeline = %s" + (" for update" if lock else ""),
        [pipeline],
    ).fetchone()
    return Pointer(*row) if row else None


def read_targets(connection: psycopg.Connection, version_id: VersionId) -> tuple[Target, ...]:
    rows = rows_of(connection, "publication_target", {"version_id": version_id})
    return tuple(
        Target(row["model"], row["relation_name"], columns_from_json(row["columns"]), _source(row))
        for row in rows
    )


def read_registered(
    connection: psycopg.Connection, pipeline: str, models: Sequence[str]
) -> dict[str, Registered]:
    """Every published model of the pipeline, and these models whoever owns them."""
    rows = connection.execute(
        "select model, pipeline, columns, shape, renamed from ops.published_models "
        "where pipeline = %s or model = any(%s)",
        [pipeline, list(models)],
    ).fetchall()
    return {
        model: Registered(owner, Shape(columns_from_json(columns), number, renamed))
        for model, owner, columns, number, renamed in rows
    }


def require_version(connection: psycopg.Connection, pipeline: str, version_id: VersionId) -> str:
    """The version's state. Raises `ConfigurationError` unless it is one of this pipeline's."""
    row = connection.execute(
        "select state from ops.versions where version_id = %s and pipeline = %s",
        [version_id, pipeline],
    ).fetchone()
    if row is None:
        refuse_dropped(connection, version_id, pipeline)
        raise ConfigurationError(
            f"pipeline {pipeline} has no version {version_id}; see: sluice versions list",
            code="version_unknown",
        )
    return str(row[0])


def read_state(
    connection: psycopg.Connection, pipeline: str, version_id: VersionId
) -> PublicationState:
    """Raises `ConfigurationError` (`version_unknown`, `version_dropped`)."""
    require_version(connection, pipeline, version_id)
    targets = read_targets(connection, version_id)
    registered = read_registered(connection, pipeline, [target.model for target in targets])
    models = sorted({*registered, *(target.model for target in targets)})
    return PublicationState(
        pipeline=pipeline,
        version_id=version_id,
        pointer=read_pointer(connection, pipeline),
        targets=targets,
        registered=registered,
        slot_views={
            (row["slot"], row["model"], row["shape"]): _slot_view(row)
            for row in rows_of(connection, "publication_slot_views", {"models": models})
        },
        published_views={
            (row["schema"], row["model"]): PublishedView(
                columns_from_json(row["columns"]), tuple(row["options"])
            )
            for row in rows_of(connection, "publication_published_views", {"models": models})
        },
        dependants=find_dependants(connection, models),
    )


def _slot_view(row: dict[str, Any]) -> SlotView:
    return SlotView(
        columns=columns_from_json(row["columns"]),
        relation=row["relation_name"],
        source=_source(row),
        is_recorded=row["relation_name"] == row["recorded_relation_name"],
    )


def _source(row: dict[str, Any]) -> Source:
    return Source(row["source_name"], columns_from_json(row["source_columns"]))
