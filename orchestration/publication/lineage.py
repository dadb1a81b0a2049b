"""From a version, a partition or a model to what it came from and where it went, read from rows.

A partitioned model is traced window by window, any other one as a whole, through all its parents; what
a lookback reads belongs to the window that looks back.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from orchestration.errors import ConfigurationError
from orchestration.publication.origins import Origins, TracedModel
from orchestration.publication.versions import resolve_version
from orchestration.publication.views import PUBLISHED_SCHEMA
from orchestration.sql.queries import query
from orchestration.sql.rows import rows_of
from orchestration.warehouse.names import qualified, staging_table
from orchestration.warehouse.states import read_model_states

Row = dict[str, Any]


@dataclass(frozen=True)
class _Version:
    """A version as its rows have it; `segments` has a row for each partition that a model shows."""

    models: Mapping[str, Row]
    segments: Mapping[str, list[Row]]
    origins: Origins


def trace(connection: psycopg.Connection, item: str) -> Row:
    """The lineage of an item, as JSON; the gate's connection, which may read staging too.

    In autocommit: everything is read in one snapshot. Raises `ConfigurationError` (`unknown_item`,
    `version_dropped`, `version_ambiguous`).
    """
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        return _trace(connection, item)


def _trace(connection: psycopg.Connection, item: str) -> Row:
    if "/" in item:
        return _trace_partition(connection, item)
    if found := connection.execute(query("lineage_of_model"), [item]).fetchall():
        versions = [_trace_version(connection, version, only=item) for (version,) in found]
        return {"item": item, "kind": "model", "versions": versions}
    try:
        version = resolve_version(connection, item)
    except ConfigurationError as error:
        if error.code != "version_unknown":
            raise
        raise ConfigurationError(
            f"{item!r} is neither a version nor a model of one; see: sluice versions list. A partition is "
            "written like flights.weather/2013-02-12",
            code="unknown_item",
        ) from None
    traced = _trace_version(connection, version.version_id)
    return {"item": version.version_id, "kind": "version", "versions": [traced]}


def _trace_version(connection: psycopg.Connection, version_id: str, only: str | None = None) -> Row:
    """A version with its models (or one of them), their segments, and the artifacts below these."""
    [version] = rows_of(connection, "lineage_version", [version_id])
    artifacts = rows_of(connection, "lineage_artifacts", [version["manifest_id"]])
    found = _read_version(connection, version_id, artifacts)
    models = [
        _trace_model(version, name, found, artifacts)
        for name in found.models
        if only in (None, name)
    ]
    if only is not None:
        needed = found.origins.resources(only)
        artifacts = [item for item in artifacts if item["resource"] in needed]
    return {
        **version,
        "models": models,
        "artifacts": _with_sources(connection, artifacts),
    }


def _trace_model(version: Row, name: str, found: _Version, artifacts: Collection[Row]) -> Row:
    """A model of a version: the view that shows it, and what its rows, or each window's, came from."""
    model, origins = found.models[name], found.origins
    loaded = {(item["resource"], item["window_name"]): item["partition"] for item in artifacts}
    segments: dict[str, list[Row]] = {}
    for item in found.segments.get(name, ()):
        came_from = sorted(loaded[each] for each in origins.of_partition(name, item["partition"]))
        shown = {"partition": item["partition"], "rows": item["rows"], "artifacts": came_from}
        segments.setdefault(item["segment"], []).append(shown)
    whole = origins.entire(name) if segments else origins.resources(name)
    return {
        **_facts(model),
        "resources": sorted(origins.resources(name)),
        "view": _view(version, model),
        "segments": [
            {"segment": segment, "partitions": partitions}
            for segment, partitions in segments.items()
        ],
        "artifacts": [item["partition"] for item in artifacts if item["resource"] in whole],
    }


def _trace_partition(connection: psycopg.Connection, item: str) -> Row:
    """Every revision of a window (or one), the versions that have it, and where readers see it."""
    resource, window, revision = _parse(item)
    artifacts = rows_of(
        connection,
        "lineage_partition",
        {"resource": resource, "window": window, "revision": revision},
    )
    if not artifacts:
        raise ConfigurationError(
            f"no partition {item} was ever loaded; see what a version was built from with: "
            "sluice lineage VERSION",
            code="unknown_item",
        )
    ids = [artifact["artifact_id"] for artifact in artifacts]
    versions = [
        _trace_into(connection, version, resource, window)
        for version in rows_of(connection, "lineage_versions", [ids])
    ]
    published = [
        {"view": view, "version_id": version["version_id"], "partition": version["partition"]}
        for version in versions
        for view in sorted({model["view"] for model in version["models"] if model["view"]})
    ]
    return {
        "item": item,
        "kind": "partition",
        "artifacts": _with_sources(connection, artifacts),
        "versions": versions,
        "published": published,
    }


def _trace_into(connection: psycopg.Connection, version: Row, resource: str, window: str) -> Row:
    """The models of a version that are made of a window: some of their partitions, or the whole."""
    artifacts = rows_of(connection, "lineage_artifacts", [version["manifest_id"]])
    found = _read_version(connection, version["version_id"], artifacts)
    models = []
    for name, model in found.models.items():
        if resource not in found.origins.resources(name):
            continue
        where = {"model": name, "relation": model["relation"], "view": _view(version, model)}
        segments = found.segments.get(name)
        if segments is None or resource in found.origins.entire(name):
            whole = {"segment": None, "partitions": None, "rows": model["rows"]}
            models.append(where | whole)
            continue
        made = found.origins.partitions_with(name, (resource, window))
        held: dict[str, list[Row]] = {}
        for item in segments:
            if item["partition"] in made:
                held.setdefault(item["segment"], []).append(item)
        models += [
            where
            | {
                "segment": segment,
                "partitions": [item["partition"] for item in items],
                "rows": sum(item["rows"] for item in items),
            }
            for segment, items in held.items()
        ]
    shown = ("version_id", "pipeline", "state", "published", "partition")
    return {**{name: version[name] for name in shown}, "models": models}


def _read_version(
    connection: psycopg.Connection, version_id: str, artifacts: Iterable[Row]
) -> _Version:
    values = {"version_id": version_id}
    models = {item["model"]: item for item in rows_of(connection, "lineage_models", values)}
    segments: dict[str, list[Row]] = {}
    for item in rows_of(connection, "lineage_segments", values):
        segments.setdefault(item["model"], []).append(item)
    windows: dict[str, set[str]] = {}
    for item in artifacts:
        windows.setdefault(item["resource"], set()).add(item["window_name"])
    states = read_model_states(connection, version_id)
    traced = {
        name: TracedModel(
            tuple(parent for parent in model["parents"] if parent in models),
            tuple(model["resources"]),
            model["kind"] == "view",
            tuple(sorted(item["partition"] for item in segments[name]))
            if name in segments
            else None,
            states[name].lookback if name in states else 0,
        )
        for name, model in models.items()
    }
    return _Version(models, segments, Origins(traced, windows))


def _facts(model: Row) -> Row:
    return {name: value for name, value in model.items() if name != "is_shown"}


def _view(version: Mapping[str, Any], model: Mapping[str, Any]) -> str | None:
    """The view in which readers see this model of this version now."""
    is_shown = version["published"] and model["is_shown"]
    return f"{PUBLISHED_SCHEMA}.{model['model']}" if is_shown else None


def _with_sources(connection: psycopg.Connection, artifacts: list[Row]) -> list[Row]:
    """The artifacts with `source_ref`: a request that they came from, if any of their rows are left."""
    sources: dict[str, str] = {}
    for resource in sorted({item["resource"] for item in artifacts}):
        table = qualified("staging", staging_table(resource))
        exists = connection.execute(
            "select to_regclass(%s)", [f"staging.{staging_table(resource)}"]
        ).fetchone()
        if exists is None or exists[0] is None:
            continue
        ids = [item["artifact_id"] for item in artifacts if item["resource"] == resource]
        found = connection.execute(
            sql.SQL(
                "select a, split_part(r._source_ref, '#', 1) from unnest(%s::text[]) as a "
                "cross join lateral (select t._source_ref from {} as t where t._artifact_id = a limit 1) r"
            ).format(table),
            [ids],
        ).fetchall()
        sources.update(dict(found))
    return [{**item, "source_ref": sources.get(item["artifact_id"])} for item in artifacts]


def _parse(item: str) -> tuple[str, str, int | None]:
    resource, _, rest = item.partition("/")
    window, separator, revision = rest.partition("@")
    if separator and not revision.isdecimal():
        raise ConfigurationError(
            f"not a partition: {item!r}; write it like flights.weather/2013-02-12@1, or without the "
            "revision",
            code="unknown_item",
        )
    return resource, window, int(revision) if separator else None
