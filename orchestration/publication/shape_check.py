"""Finds a break of shape, or a model of somebody else, before a gate spends time on a version."""

import psycopg

from orchestration.identity import VersionId
from orchestration.publication.casts import require_castable
from orchestration.publication.plan import plan_slot
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.state import read_state


def check_version_shapes(
    connection: psycopg.Connection,
    pipeline: str,
    version_id: VersionId,
    allowed: Allowed | None = None,
) -> None:
    """Passes if the version could be published as far as its columns and models go.

    Any role that may read `ops` and `store` will do. Raises `ConfigurationError` (`shape_change`,
    `shape_in_use`, `model_taken`, `version_unknown`) or `DestinationFailure`
    (`lineage_incomplete`).
    """
    plan = plan_slot(read_state(connection, pipeline, version_id), allowed)
    require_castable(connection, plan)
