"""Entries of `shape_changes` that allow nothing any more, so that the file says what is still to come."""

from collections.abc import Iterable, Mapping

import psycopg

from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding
from orchestration.pipelines.shape_changes import AllowedShapeChange

SUBJECT = "shapes"
Published = Mapping[str, Mapping[str, str]]
"""Model → column → type, as readers see them."""


def check_shape_changes(
    connection: psycopg.Connection, declared: Iterable[DeclaredPipeline]
) -> list[Finding]:
    """Against what is published in this warehouse; a pipeline that has published nothing is new."""
    if connection.execute("select to_regclass('ops.published_models')").fetchone() == (None,):
        return []
    rows = connection.execute(
        "select pipeline, model, columns from ops.published_models"
    ).fetchall()
    findings = []
    for pipeline in declared:
        published = {
            model: {column["name"]: column["type"] for column in columns}
            for owner, model, columns in rows
            if owner == pipeline.spec.name
        }
        for index, entry in enumerate(pipeline.spec.shape_changes if published else ()):
            if _is_done(entry, published):
                message = f"this change of {_subject(entry)} is published, or was never needed"
                hint = "take the entry out; it allows nothing more"
                place = ("shape_changes", index)
                findings.append(pipeline.warning(SUBJECT, place, message, hint))
    return findings


def _is_done(entry: AllowedShapeChange, published: Published) -> bool:
    if entry.withdraw is not None:
        return entry.withdraw not in published
    columns = published.get(entry.model, {})
    if entry.retype is not None:
        return columns.get(entry.column) in {entry.to, None}
    return entry.column not in columns


def _subject(entry: AllowedShapeChange) -> str:
    return f"{entry.model}.{entry.column}" if entry.column else entry.model
