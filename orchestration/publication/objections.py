"""What speaks against showing a version, asked before the pointer is locked or found while it was."""

from collections.abc import Sequence
from typing import Any

import psycopg

from orchestration.errors import Busy, DestinationFailure, QualityFailure
from orchestration.identity import VersionId
from orchestration.publication.shape_rules import require_allowed
from orchestration.publication.views import Slot
from orchestration.sql.queries import query

_PUBLISHABLE = ("passed", "published", "retired")
_LISTED = 5


def require_publishable(
    connection: psycopg.Connection, pipeline: str, version_id: VersionId, slot: Slot, kind: str
) -> None:
    """Raises `QualityFailure` (`not_passed`), `DestinationFailure` (`lineage_incomplete`,
    `slot_not_prepared`), `Busy` (`rebase_needed`), `ConfigurationError` (`shape_change`)."""
    row = connection.execute(
        "select state from ops.versions where version_id = %s and pipeline = %s",
        [version_id, pipeline],
    ).fetchone()
    if row is None or row[0] not in _PUBLISHABLE:
        raise QualityFailure(
            f"version {version_id} did not pass its gates "
            f"({row[0] if row else 'unknown to this pipeline'}), so it cannot be published; "
            "see: sluice gates show",
            code="not_passed",
        )
    rows = connection.execute(
        query("publication_objections"),
        {"version_id": version_id, "pipeline": pipeline, "slot": slot, "kind": kind},
    ).fetchall()
    segments = connection.execute(
        query("publication_segments"), {"version_id": version_id}
    ).fetchall()
    raise_objections(version_id, [*rows, *(("lineage", subject) for (subject,) in segments)])


def raise_objections(version_id: VersionId, rows: Sequence[tuple[Any, ...]]) -> None:
    """Raises for the gravest kind of (objection, subject); returns when there is none."""
    found: dict[str, list[str]] = {}
    for objection, subject in rows:
        found.setdefault(objection, []).append(subject)
    if lineage := found.get("lineage"):
        raise DestinationFailure(
            f"version {version_id} cannot be traced to its sources: {_some(lineage)}; "
            "run the pipeline again to build what is missing",
            code="lineage_incomplete",
        )
    if partitions := found.get("rebase"):
        raise Busy(
            f"version {version_id} lacks what is published in a later revision: "
            f"{_some(partitions)}; run the pipeline again, it starts from what is published",
            code="rebase_needed",
        )
    if models := found.get("model"):
        require_allowed({}, models)
    if models := found.get("slot"):
        raise DestinationFailure(
            f"the idle slot does not show version {version_id} ({_some(models)}); "
            "run the same command again, it prepares the slot first",
            code="slot_not_prepared",
            transient=True,
        )


def _some(subjects: Sequence[str]) -> str:
    more = f" and {len(subjects) - _LISTED} more" if len(subjects) > _LISTED else ""
    return ", ".join(subjects[:_LISTED]) + more
