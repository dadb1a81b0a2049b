"""Going back to a version that was published before: the same flip, with a reason that is kept.

It is one row while that version is still in the other slot; otherwise the slot is prepared first.
"""

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.identity import VersionId
from orchestration.publication.flip import Publication, publish_version
from orchestration.publication.grace import Patience
from orchestration.publication.slots import prepare_slot
from orchestration.publication.versions import get_version, published_version
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease


def rollback(
    warehouse: Warehouse,
    pipeline: str,
    version_id: VersionId | None,
    *,
    reason: str,
    lease: Lease,
    owner: str,
    actor: str | None = None,
    patience: Patience | None = None,
) -> Publication:
    """Publishes an earlier version again; None means the one that the current version replaced.

    Rolling back twice without naming a version goes two versions back, never forward to the one
    that was left. Raises `ConfigurationError` (`reason_missing`, `nothing_published`,
    `nothing_to_roll_back`, `never_published`, `version_unknown`) and all that `prepare_slot` and
    `publish_version` raise.
    """
    if not reason.strip():
        raise ConfigurationError(
            "a rollback needs a reason, it is kept for ever; add: --reason '…'",
            code="reason_missing",
        )
    with warehouse.connect(Role.PUBLISHER, autocommit=True) as connection:
        current = published_version(connection, pipeline)
        if current is None:
            raise ConfigurationError(
                f"pipeline {pipeline} has published nothing yet; run it first",
                code="nothing_published",
            )
        target = version_id or _replaced_by(connection, pipeline, current)
        _require_published_before(connection, pipeline, target)
    if target != current:
        prepare_slot(
            warehouse, pipeline, target, lease=lease, patience=patience, allow_narrower=True
        )
    return publish_version(
        warehouse,
        pipeline,
        target,
        expected_current=current,
        lease=lease,
        run_id=None,
        owner=owner,
        kind="rollback",
        reason=reason.strip(),
        actor=actor,
    )


def _replaced_by(connection: psycopg.Connection, pipeline: str, current: VersionId) -> VersionId:
    row = connection.execute(
        "select previous_version_id from ops.publications where pipeline = %s and version_id = %s "
        "and kind = 'publish' order by publication_id desc limit 1",
        [pipeline, current],
    ).fetchone()
    if row is None or row[0] is None:
        raise ConfigurationError(
            f"no version of {pipeline} was published before {current}; name one of: "
            "sluice versions list",
            code="nothing_to_roll_back",
        )
    return VersionId(row[0])


def _require_published_before(
    connection: psycopg.Connection, pipeline: str, version_id: VersionId
) -> None:
    version = get_version(connection, version_id)
    if version.pipeline != pipeline or version.state not in {"published", "retired"}:
        raise ConfigurationError(
            f"version {version_id} was never published by {pipeline} (it is {version.state} in "
            f"{version.pipeline}); a rollback goes to one that was: sluice versions list",
            code="never_published",
        )
