"""Publishing a version that a run built and judged, but was not asked to publish.

The same preparation and the same flip as in a run; what an operator adds is a reason, and the answer
to whether the code that built it may be published at all.
"""

from dataclasses import dataclass

import psycopg

from orchestration.code import MainBranch
from orchestration.errors import ConfigurationError, QualityFailure
from orchestration.identity import VersionId
from orchestration.publication.flip import Publication, publish_version
from orchestration.publication.grace import Patience
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.slots import prepare_slot
from orchestration.publication.versions import Version, get_version, published_version
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease


@dataclass(frozen=True)
class BuiltBy:
    """The code of a run that came to the version, and where that was checked out."""

    code_id: str
    commit: str | None
    dirty: bool | None


@dataclass(frozen=True)
class Origin:
    """Where the code of a version came from; `branch` is the main branch that contains its commit."""

    commit: str | None
    dirty: bool | None
    branch: MainBranch | None = None

    @property
    def objection(self) -> str | None:
        """Why the code is not the team's yet, or None."""
        if self.commit is None:
            return "nobody knows what commit its code was"
        if self.dirty is not False:
            return f"its code differed from commit {self.commit[:10]}"
        if self.branch is None:
            return f"its commit {self.commit[:10]} is not merged into main, as far as this checkout knows"
        return None


def builders_of(connection: psycopg.Connection, version_id: VersionId) -> list[BuiltBy]:
    """Whoever came to this version, the one that recorded it first: other code may mean the same."""
    rows = connection.execute(query("publication_builders"), [version_id, version_id]).fetchall()
    return [BuiltBy(*row) for row in rows]


def publish_candidate(
    warehouse: Warehouse,
    version_id: VersionId,
    origin: Origin,
    *,
    lease: Lease,
    owner: str,
    actor: str,
    reason: str | None,
    overrule: bool = False,
    patience: Patience,
    allowed: Allowed,
) -> Publication:
    """Under the build lease of the version's pipeline; the published version is left as it is.

    `overrule` publishes code that is not merged, for a reason. Raises `QualityFailure` (`not_passed`),
    `ConfigurationError` (`published_before`, `unmerged`) and all that `prepare_slot` and
    `publish_version` raise.
    """
    with warehouse.connect(Role.PUBLISHER, autocommit=True) as connection:
        version = get_version(connection, version_id)
        current = published_version(connection, version.pipeline)
        if current != version_id:
            _require_passed(version)
            if not overrule:
                _require_merged(version, origin)
    if current != version_id:
        prepare_slot(
            warehouse,
            version.pipeline,
            version_id,
            lease=lease,
            patience=patience,
            allowed=allowed,
        )
    return publish_version(
        warehouse,
        version.pipeline,
        version_id,
        expected_current=current,
        lease=lease,
        run_id=None,
        owner=owner,
        reason=_reason(origin, reason),
        actor=actor,
    )


def _require_passed(version: Version) -> None:
    run = version.run_id
    match version.state:
        case "passed":
            return
        case "retired":
            raise ConfigurationError(
                f"version {version.version_id} was published before; to go back to it: "
                f"sluice rollback {version.version_id} --reason '…'",
                code="published_before",
            )
        case "held":
            why = f"it waits for a decision, since its gate did not pass; see: sluice gates show {run}"
        case "rejected":
            why = f"it was rejected; see: sluice gates show {run}, correct what is wrong and run again"
        case _:
            why = f"its gate has not come to an end; go on with its run: sluice replay {run}"
    raise QualityFailure(
        f"version {version.version_id} cannot be published: {why}", code="not_passed"
    )


def _require_merged(version: Version, origin: Origin) -> None:
    if origin.objection is not None:
        raise ConfigurationError(
            f"version {version.version_id} cannot be published: {origin.objection}. Merge it, check "
            "main out and repeat the command, or overrule this with: --allow-unmerged --reason '…'",
            code="unmerged",
        )


def _reason(origin: Origin, reason: str | None) -> str:
    if origin.objection is None:
        merged = f"commit {(origin.commit or '')[:10]} is in {origin.branch}"
        return f"{reason} ({merged})" if reason else merged
    return f"{reason} (unmerged: {origin.objection})"
