"""One side of a comparison: for each model where its rows are, and what is known of them unread."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import psycopg

from orchestration.comparison.value import SideLabel
from orchestration.errors import ConfigurationError
from orchestration.publication.shapes import Column, columns_from_json
from orchestration.publication.versions import Version
from orchestration.sql.rows import rows_of
from orchestration.warehouse.dbt.state import ModelState
from orchestration.warehouse.partitions import is_partitioned, visible_partitions
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.states import read_model_states


@dataclass(frozen=True)
class Place:
    """A relation that holds rows."""

    schema: str
    name: str


@dataclass(frozen=True)
class Partition:
    """One partition of a model: where it is, and what it is; equal keys mean equal rows."""

    place: Place
    key: str
    rows: int


@dataclass(frozen=True)
class ModelSide:
    """One model. `columns` are those that readers see; `rows` is None while nobody counted them.

    `content_key` is equal on both sides only if the rows are. `partitions` is None for a model that
    is kept as a whole.
    """

    model: str
    place: Place
    columns: tuple[Column, ...]
    content_key: str
    rows: int | None = None
    partitions: Mapping[str, Partition] | None = None
    state: ModelState | None = None


@dataclass(frozen=True)
class Side:
    """All models to compare, by name."""

    label: SideLabel
    models: Mapping[str, ModelSide] = field(default_factory=dict)


def version_side(
    connection: psycopg.Connection, version: Version, extra: Iterable[str] = ()
) -> Side:
    """The published models of a version, and those named in `extra`; any role that reads `ops`."""
    states = read_model_states(connection, version.version_id)
    rows = rows_of(
        connection, "comparison_models", {"version_id": version.version_id, "extra": list(extra)}
    )
    models = {
        row["model"]: ModelSide(
            model=row["model"],
            place=Place(STORE_SCHEMA, row["relation_name"]),
            columns=columns_from_json(row["columns"] or ()),
            content_key=row["content_key"],
            rows=row["row_count"],
            state=states.get(row["model"]),
        )
        for row in rows
    }
    return Side(label_of(version), models)


def label_of(version: Version) -> SideLabel:
    return SideLabel(
        name=version.version_id,
        pipeline=version.pipeline,
        state=version.state,
        commit=version.code_commit,
        dirty=version.code_dirty,
    )


def read_partitions(connection: psycopg.Connection, relation: str) -> dict[str, Partition] | None:
    """The partitions that a view over segments shows; None for a model that is kept as a whole."""
    if not is_partitioned(connection, relation):
        return None
    return {
        name: Partition(Place(STORE_SCHEMA, found.segment), found.partition_key, found.row_count)
        for name, found in visible_partitions(connection, relation).items()
    }


def require_places(connection: psycopg.Connection, label: str, places: Iterable[Place]) -> None:
    """Raises `ConfigurationError` (`relation_gone`) when rows that must be read are not there."""
    names = sorted({f"{place.schema}.{place.name}" for place in places})
    gone = connection.execute(
        "select name from unnest(%s::text[]) as name where to_regclass(name) is null", [names]
    ).fetchall()
    if gone:
        raise ConfigurationError(
            f"{label} no longer has its rows ({', '.join(name for (name,) in gone)} is gone), so it "
            "cannot be compared; choose a newer version: sluice versions list",
            code="relation_gone",
        )
