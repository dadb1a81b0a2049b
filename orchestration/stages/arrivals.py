"""Partitions that lie on this machine's disk, ready to be loaded: fetched from a source, or composed of
accepted rows and retried records. What a reviewer decided about their records is settled here, inside
the adoption of the artifact that it concerns.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from ingestion.corrections import Fate, Outcome, apply_corrections
from ingestion.errors import IngestionError
from ingestion.partitions import Partition
from ingestion.quarantine import insert_rejected
from ingestion.retries import Judged, compose_partition
from ingestion.sources import get_resource
from ingestion.spool import Fetched, discard_spooled, read_rejected
from orchestration.errors import DestinationFailure
from orchestration.failures import classify
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import ArtifactId
from orchestration.logs import get_logger
from orchestration.stages.base import Claim, StageContext, UnitFailed
from orchestration.warehouse.quarantine import (
    RetryPlan,
    corrections_in_force,
    retry_replaced,
    settle_corrections,
    settle_retry,
)


@dataclass(frozen=True)
class Arrived:
    """A claimed partition in the spool.

    `retry` says what it was composed of, `outcomes` what it means for corrections by hand; `draft`
    is the file that it was before those were applied.
    """

    claim: Claim
    partition: Partition
    fetched: Fetched
    retry: tuple[RetryPlan, Sequence[Judged]] | None = None
    outcomes: Sequence[Outcome] = ()
    draft: str | None = None


def spool_dir(context: StageContext) -> Path:
    """Where partitions wait on this machine's disk; nothing in it is needed to resume."""
    folder = context.settings.home_dir / "spool"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def compose_retry(
    context: StageContext, connection: psycopg.Connection, claim: Claim, plan: RetryPlan
) -> Arrived | UnitFailed:
    """Composes the revision that a reviewer asked for; the extractor's connection."""
    if plan.status in ("replaced", "obsolete"):
        return UnitFailed(claim.unit, retry_replaced())
    partition = Partition.parse(claim.unit.source_partition)
    if plan.base is None:
        return UnitFailed(claim.unit, _nothing_to_take_over(partition))
    try:
        composed = compose_partition(
            connection,
            get_resource(partition.resource),
            partition,
            plan.base,
            plan.records,
            run_id=context.run.run_id,
            spool_dir=spool_dir(context),
        )
    except IngestionError as error:
        return UnitFailed(claim.unit, classify(error))
    reach(FaultPoint.QUARANTINE_AFTER_COMPOSITION)
    return Arrived(claim, partition, composed.fetched, retry=(plan, composed.judged))


def _nothing_to_take_over(partition: Partition) -> DestinationFailure:
    return DestinationFailure(
        f"{partition} was to take over rows that retention has dropped since; fetch the partition again "
        "with --refresh",
        code="artifact_dropped",
    )


def meet_corrections(
    context: StageContext, connection: psycopg.Connection, arrived: Sequence[Arrived]
) -> list[Arrived]:
    """The same partitions, fetched ones with the corrections by hand that still apply to them."""
    fetched = [item.partition for item in arrived if item.retry is None]
    met = corrections_in_force(connection, context.pipeline.name, fetched) if fetched else {}
    result = []
    for item in arrived:
        if item.partition not in met or item.retry is not None:
            result.append(item)
            continue
        resource = get_resource(item.partition.resource)
        amended = apply_corrections(resource, item.fetched, met[item.partition], spool_dir(context))
        draft = item.fetched.ref if amended.fetched.ref != item.fetched.ref else None
        result.append(
            replace(item, fetched=amended.fetched, outcomes=amended.outcomes, draft=draft)
        )
    return result


def keep_out(
    context: StageContext, connection: psycopg.Connection, artifact_id: ArtifactId, item: Arrived
) -> int:
    """Puts what stays out into quarantine, in the caller's transaction; returns how many records."""
    contract = get_resource(item.partition.resource).contract
    if item.retry is not None:
        plan, judged = item.retry
        return settle_retry(connection, plan, artifact_id, judged, contract.version)
    kept = insert_rejected(
        connection,
        read_rejected(spool_dir(context), item.fetched.ref),
        pipeline=context.pipeline.name,
        partition=item.partition,
        artifact_id=artifact_id,
        run_id=context.run.run_id,
        contract_version=item.fetched.contract_version,
    )
    if item.outcomes:
        settle_corrections(connection, artifact_id, item.outcomes)
    return kept


def close_arrival(context: StageContext, item: Arrived) -> None:
    """After the adoption: removes the files and says what became of corrections."""
    for ref in (item.fetched.ref, item.draft):
        if ref is not None:
            with contextlib.suppress(FileNotFoundError):
                discard_spooled(spool_dir(context), ref)
    for outcome in item.outcomes:
        tell = get_logger().info if outcome.fate is Fate.APPLIED else get_logger().warning
        tell(
            "correction met",
            record=f"record-{outcome.record_id}",
            dataset=str(item.partition),
            fate=outcome.fate,
            message=outcome.message,
        )
