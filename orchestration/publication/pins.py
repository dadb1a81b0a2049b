"""Pinning a version: retention keeps it, and people read it in its own schema, until it is unpinned.

The pin comes first and the schema second, so what dies between them is kept already, and pinning again
completes it.
"""

from dataclasses import dataclass

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId
from orchestration.publication.retention.transactions import (
    IN_USE,
    brief_transaction,
    why_in_use,
)
from orchestration.publication.versions import Version, version_models
from orchestration.publication.views import PUBLISHED_SCHEMA, READERS
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.pins import show_pinned_version


@dataclass(frozen=True)
class Pin:
    """What pinning or unpinning came to; `left` says why a schema is still there, if it is."""

    version_id: VersionId
    changed: bool
    left: str | None = None


def pin_version(
    warehouse: Warehouse, version: Version, *, reason: str, actor: str, lease: Lease
) -> Pin:
    """Under the build lease of the version's pipeline; a version that is pinned keeps its reason.

    Raises `LeaseLost`, `ConfigurationError` (`reason_missing`) and what `show_pinned_version` raises.
    """
    if not reason.strip():
        raise ConfigurationError(
            "a pin needs a reason, so that somebody knows later when it may go; add: --reason '…'",
            code="reason_missing",
        )
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        with connection.transaction():
            assert_fence(connection, lease)
            changed = connection.execute(
                "insert into ops.version_pins (version_id, reason, actor) values (%s, %s, %s) "
                "on conflict do nothing",
                [version.version_id, reason.strip(), actor],
            ).rowcount
            if changed:
                _record(connection, "pin", version, reason.strip(), actor)
        reach(FaultPoint.PIN_AFTER_ROW)
        models = {
            model.model: model.relation_name
            for model in version_models(connection, version.version_id)
            if model.published
        }
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        show_pinned_version(
            transformer, version.version_id, models, READERS[PUBLISHED_SCHEMA], lease
        )
    reach(FaultPoint.PIN_AFTER_VIEWS)
    return Pin(version.version_id, bool(changed))


def unpin_version(
    warehouse: Warehouse, version: Version, *, reason: str, actor: str, lease: Lease
) -> Pin:
    """Under the build lease; a schema that somebody uses is left to the next prune.

    Raises `LeaseLost`.
    """
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        with connection.transaction():
            assert_fence(connection, lease)
            changed = connection.execute(
                "delete from ops.version_pins where version_id = %s", [version.version_id]
            ).rowcount
            if changed:
                _record(connection, "unpin", version, reason, actor)
        reach(FaultPoint.PIN_AFTER_UNPIN)
        try:
            with brief_transaction(connection):
                connection.execute(
                    "select ops.drop_unused_version_schema(%s, %s, %s)",
                    [lease.name, lease.fence, version.version_id],
                )
        except IN_USE as error:
            return Pin(version.version_id, bool(changed), why_in_use(error))
    return Pin(version.version_id, bool(changed))


def _record(
    connection: psycopg.Connection, action: str, version: Version, reason: str, actor: str
) -> None:
    connection.execute(
        "insert into ops.operator_actions (action, target, reason, actor) values (%s, %s, %s, %s)",
        [action, version.version_id, reason, actor],
    )
