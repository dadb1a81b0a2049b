"""From a version, a partition or a model to what it came from and where it went, read from rows.

A partitioned model is traced window by window, any other one as a whole, through all its parents.
What a lookback adds to a window is not in the rows, and not in the answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ingestion.partitions import SNAPSHOT
from orchestration.errors import ConfigurationError
from orchestration.publication.versions import resolve_version
from orchestration.publication.views import PUBLISHED_SCHEMA
from orchestration.sql.queries import query
from orchestration.warehouse.names import qualified, staging_table

Row = dict[str, Any]


def trace(connection: psycopg.Connection, item: str) -> Row:
    """The lineage of an item, as JSON; the gate's connection, which may read staging too.

    Raises `ConfigurationError` (`unknown_item`, `version_dropped`, `version_ambiguous`).
    """
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
    [version] = _rows(connection, "lineage_version", [version_id])
    artifacts = _rows(connection, "lineage_artifacts", [version["manifest_id"]])
    segments = _rows(connection, "lineage_segments", {"version_id": version_id})
    models = [
        _trace_model(
            version,
            model,
            artifacts,
            [item for item in segments if item["model"] == model["model"]],
        )
        for model in _rows(connection, "lineage_models", {"version_id": version_id})
        if only in (None, model["model"])
    ]
    if only is not None:
        needed = set(models[0]["resources"])
        artifacts = [item for item in artifacts if item["resource"] in needed]
    return {
        **version,
        "models": models,
        "artifacts": _with_sources(connection, artifacts),
    }


def _trace_model(
    version: Row, model: Row, artifacts: Iterable[Row], segments: Iterable[Row]
) -> Row:
    """A model of a version: the view that shows it, and what its rows, or each window's, came from."""
    of_model = [item for item in artifacts if item["resource"] in model["resources"]]
    by_segment: dict[str, list[Row]] = {}
    for item in segments:
        window = item["partition"]
        from_here = [each["partition"] for each in of_model if each["window_name"] == window]
        by_segment.setdefault(item["segment"], []).append(
            {"partition": window, "rows": item["rows"], "artifacts": from_here}
        )
    whole = [
        item["partition"] for item in of_model if not by_segment or item["window_name"] == SNAPSHOT
    ]
    return {
        **model,
        "view": _view(version, model),
        "segments": [
            {"segment": name, "partitions": partitions} for name, partitions in by_segment.items()
        ],
        "artifacts": whole,
    }


def _trace_partition(connection: psycopg.Connection, item: str) -> Row:
    """Every revision of a window (or one), the versions that have it, and where readers see it."""
    resource, window, revision = _parse(item)
    artifacts = _rows(
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
        _trace_into(connection, version) for version in _rows(connection, "lineage_versions", [ids])
    ]
    published = [
        {
            "view": model["view"],
            "version_id": version["version_id"],
            "partition": version["partition"],
        }
        for version in versions
        for model in version["models"]
        if model["view"] is not None
    ]
    return {
        "item": item,
        "kind": "partition",
        "artifacts": _with_sources(connection, artifacts),
        "versions": versions,
        "published": published,
    }


def _trace_into(connection: psycopg.Connection, version: Row) -> Row:
    """The models of a version that are made of one of its artifacts: a segment of each, or the whole."""
    resource, window = version["resource"], version["window_name"]
    values = {"version_id": version["version_id"]}
    segments = _rows(connection, "lineage_segments", values)
    partitioned = {item["model"] for item in segments}
    lies = {item["model"]: item for item in segments if item["partition"] == window}
    models = []
    for model in _rows(connection, "lineage_models", values):
        name = model["model"]
        if resource not in model["resources"]:
            continue
        by_window = name in partitioned and window != SNAPSHOT
        if by_window and name not in lies:
            continue
        models.append(
            {
                "model": name,
                "relation": model["relation"],
                "segment": lies[name]["segment"] if by_window else None,
                "rows": lies[name]["rows"] if by_window else model["rows"],
                "view": _view(version, model),
            }
        )
    shown = ("version_id", "pipeline", "state", "published", "partition")
    return {**{name: version[name] for name in shown}, "models": models}


def _view(version: Mapping[str, Any], model: Mapping[str, Any]) -> str | None:
    """The view in which readers see this model of this version now."""
    is_shown = version["published"] and model["published"]
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


def _rows(connection: psycopg.Connection, name: str, values: Any) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query(name), values).fetchall()
