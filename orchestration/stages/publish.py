"""Publish: make a version that passed its gate the one that every published view shows.

A request whose result is already published changes nothing. A run that has published and was cut
off, or whose version an operator rolled back, does not publish it a second time; one that is asked
for again after other code was published does, since taking an edit back is an edit too.
"""

from collections.abc import Iterator, Sequence

from orchestration.errors import DestinationFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import RunId, VersionId, digest
from orchestration.model import StageName
from orchestration.pipelines.stages import OnLongReader
from orchestration.publication.flip import publish_version
from orchestration.publication.grace import Patience
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.slots import prepare_slot
from orchestration.publication.versions import published_version
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.warehouse.fence import build_lease


class PublishStage:
    """One unit: the version, the verdict on it, and the version that it is to replace."""

    name = StageName.PUBLISH

    def units(self, context: StageContext) -> list[Unit]:
        version = context.memory["version_id"]
        own = context.connection.execute(
            "select version_id, previous_version_id from ops.publications "
            "where run_id = %s and kind = 'publish' order by publication_id desc limit 1",
            [context.run.run_id],
        ).fetchone()
        predecessor = published_version(context.connection, context.pipeline.name)
        if own and own[0] == version and not _asked_for_anew(context, version):
            predecessor = own[1]
        context.memory["predecessor"] = predecessor
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=digest([version, context.memory["gate_key"], predecessor]),
                lease_name=build_lease(context.pipeline.name),
                input_ref=version,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        """A publication happened or it did not; later ones and rollbacks do not undo the fact."""
        return set(checkpoints)

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [claim] = claims
        version = VersionId(claim.unit.input_ref)
        policy = context.pipeline.stages.publish
        current = published_version(context.connection, context.pipeline.name)
        if current != version:
            reach(FaultPoint.PUBLISH_BEFORE_PREPARE)
            context.progress.update(self.name, "preparing the idle slot")
            prepare_slot(
                context.warehouse,
                context.pipeline.name,
                version,
                lease=claim.lease,
                allowed=Allowed(context.pipeline.shape_changes),
                patience=Patience(
                    wait_s=min(policy.grace_seconds, context.budget.remaining_s),
                    check=context.check_leases,
                    end_readers=policy.on_long_reader is OnLongReader.TERMINATE,
                ),
            )
            context.check_leases()
        reach(FaultPoint.PUBLISH_AFTER_PREPARE)
        context.progress.update(self.name, "turning the pointer")
        publication = publish_version(
            context.warehouse,
            context.pipeline.name,
            version,
            expected_current=current,
            lease=claim.lease,
            run_id=RunId(context.run.run_id),
            owner=context.pipeline.owner_of(self.name).email,
            tell=context.pipeline.alerts.published,
            before_commit=lambda: reach(FaultPoint.PUBLISH_INSIDE_FLIP),
        )
        reach(FaultPoint.PUBLISH_AFTER_FLIP)
        if published_version(context.connection, context.pipeline.name) != version:
            raise DestinationFailure(
                f"the pointer does not name version {version} after its publication; "
                "run the same command again",
                code="not_published",
                transient=True,
            )
        yield UnitDone(
            claim.unit,
            output_ref=f"publication/{publication.publication_id}",
            result={"by_this_run": publication.run_id == context.run.run_id},
        )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        return Conclusion(checkpoint.output_ref or "")


def _asked_for_anew(context: StageContext, version: VersionId) -> bool:
    """Whether this run had ended well and another version was published since, by no rollback."""
    row = context.connection.execute(
        "select version_id, kind from ops.publications where pipeline = %s "
        "order by publication_id desc limit 1",
        [context.pipeline.name],
    ).fetchone()
    return (
        context.run.status == "finished"
        and row is not None
        and (row[0] != version and row[1] == "publish")
    )
