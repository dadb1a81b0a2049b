"""Extract: fetch and redact each partition (or compose a retry), load many together, adopt each one.

Every partition has its own lease and two checkpoints: what was fetched (kept on this machine's disk,
redacted) and what was loaded and adopted. A partition that fails does not keep the others back.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import psycopg

from ingestion.client import SourceClient
from ingestion.errors import IngestionError
from ingestion.fetch import fetch_partition
from ingestion.load import LoadItem, load_spooled_partitions
from ingestion.partitions import Partition
from ingestion.sources import get_resource, get_source
from ingestion.spool import Fetched, load_spooled, sweep_spool
from orchestration.errors import ConfigurationError, SourceFailure
from orchestration.failures import classify
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import ArtifactId, digest
from orchestration.model import StageName
from orchestration.stages.arrivals import (
    Arrived,
    close_arrival,
    compose_retry,
    keep_out,
    meet_corrections,
    spool_dir,
)
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitFailed,
    UnitResult,
)
from orchestration.warehouse.artifacts import (
    adopt_artifact,
    find_adopted,
    find_artifacts,
    intact_artifacts,
    register_loading,
    sweep_orphans,
)
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import partition_lease
from orchestration.warehouse.quarantine import read_retries

# What a killed process had fetched is of use to the run that resumes soon, not for ever.
_SPOOL_AGE = timedelta(days=2)


class ExtractStage:
    """One unit for each partition of the run."""

    name = StageName.EXTRACT

    def units(self, context: StageContext) -> list[Unit]:
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=str(item.partition),
                lease_name=partition_lease(
                    context.pipeline.name, item.partition.resource, item.partition.window
                ),
                input_ref=str(item.partition),
            )
            for item in context.partitions
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        by_artifact = {found.output_ref: unit for unit, found in checkpoints.items()}
        artifacts = find_artifacts(context.connection, [ref for ref in by_artifact if ref])
        intact = intact_artifacts(
            context.sessions.get(Role.EXTRACTOR),
            [found for found in artifacts.values() if found.state == "adopted"],
        )
        return {by_artifact[artifact_id] for artifact_id in intact}

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        connection = context.sessions.get(Role.EXTRACTOR)
        sweep_orphans(connection, context.pipeline.name)
        sweep_spool(spool_dir(context), _SPOOL_AGE)
        reach(FaultPoint.EXTRACT_AFTER_SWEEP)
        to_fetch, to_compose = [], []
        retries = read_retries(
            connection, context.pipeline.name, [claim.unit.source_partition for claim in claims]
        )
        for claim in claims:
            if done := self._already_adopted(context, connection, claim):
                yield done
            elif plan := retries.get(claim.unit.source_partition):
                to_compose.append((claim, plan))
            else:
                to_fetch.append(claim)
        if to_fetch:
            context.prepare()
        arrived: list[Arrived] = []
        composed = (compose_retry(context, connection, *item) for item in to_compose)
        for result in chain(composed, self._fetch_all(context, to_fetch)):
            if isinstance(result, Arrived):
                arrived.append(result)
            else:
                yield result
        yield from self._load_all(context, connection, arrived)

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        artifacts = sorted(found.output_ref or "" for found in finished.values())
        return Conclusion(f"artifacts/{digest(artifacts)[:16]}")

    def _already_adopted(
        self, context: StageContext, connection: psycopg.Connection, claim: Claim
    ) -> UnitDone | None:
        """An attempt that died after its adoption is finished here, not done again."""
        partition = claim.unit.source_partition
        found = find_adopted(connection, context.pipeline.name, [partition]).get(partition)
        if found is None or not intact_artifacts(connection, [found]):
            return None
        return UnitDone(claim.unit, output_ref=found.artifact_id, checksum=found.checksum)

    def _fetch_all(
        self, context: StageContext, claims: Sequence[Claim]
    ) -> Iterator[UnitResult | Arrived]:
        policy = context.pipeline.stages.extract
        spool = spool_dir(context)
        clients = _Clients()
        steps = _fetch_checkpoints(context, claims)
        with clients, ThreadPoolExecutor(policy.concurrency) as pool:
            waiting: dict[Future[Fetched], Claim] = {}
            for claim in claims:
                step = steps.get(claim.unit)
                kept = step and load_spooled(spool, step.output_ref or "", step.checksum or "")
                if kept:
                    yield Arrived(claim, Partition.parse(claim.unit.source_partition), kept)
                else:
                    waiting[pool.submit(_fetch_one, context, claim, spool, clients)] = claim
            for number, future in enumerate(as_completed(waiting), start=1):
                claim = waiting[future]
                context.check_leases()
                context.progress.update(
                    self.name, f"fetched {claim.unit.source_partition}", number, len(waiting)
                )
                try:
                    fetched = future.result()
                except IngestionError as error:
                    yield UnitFailed(claim.unit, classify(error))
                    continue
                reach(FaultPoint.EXTRACT_AFTER_SPOOL)
                yield UnitDone(
                    replace(claim.unit, step="fetch"),
                    output_ref=fetched.ref,
                    checksum=fetched.checksum,
                    result={"fetched": fetched.fetched, "rejected": fetched.rejected},
                )
                yield Arrived(claim, Partition.parse(claim.unit.source_partition), fetched)

    def _load_all(
        self, context: StageContext, connection: psycopg.Connection, arrived: list[Arrived]
    ) -> Iterator[UnitResult]:
        if not arrived:
            return
        arrived = meet_corrections(context, connection, arrived)
        context.progress.update(self.name, f"loading {len(arrived)} partitions")
        named = [(ArtifactId("a_" + secrets.token_hex(12)), item) for item in arrived]
        reach(FaultPoint.EXTRACT_BEFORE_REGISTER)
        register_loading(
            connection,
            context.pipeline.name,
            context.run.run_id,
            [(artifact_id, item.partition, item.claim.lease) for artifact_id, item in named],
        )
        reach(FaultPoint.EXTRACT_AFTER_REGISTER)
        spool = spool_dir(context)
        items = [
            LoadItem(artifact_id, item.partition, context.run.run_id, item.fetched, spool)
            for artifact_id, item in named
        ]
        with TemporaryDirectory(dir=context.work_dir) as work:
            load_spooled_partitions(
                context.warehouse.bulk_url(Role.EXTRACTOR), items, work_dir=Path(work)
            )
        reach(FaultPoint.EXTRACT_AFTER_LOAD)
        schema_versions = context.pipeline.stages.extract.acceptance.schema_versions
        for artifact_id, item in named:
            context.check_leases()
            if item.fetched.schema_version not in schema_versions:
                yield UnitFailed(item.claim.unit, _refused_version(item, schema_versions))
                continue
            yield self._adopt(context, connection, artifact_id, item)

    def _adopt(
        self,
        context: StageContext,
        connection: psycopg.Connection,
        artifact_id: ArtifactId,
        item: Arrived,
    ) -> UnitResult:
        try:
            adopted, checksum = adopt_artifact(
                connection,
                artifact_id,
                get_resource(item.partition.resource),
                item.fetched,
                item.claim.lease,
                keep_rejected=lambda: keep_out(context, connection, artifact_id, item),
            )
        except ConfigurationError as error:
            return UnitFailed(item.claim.unit, error)
        reach(FaultPoint.EXTRACT_AFTER_ADOPTION)
        close_arrival(context, item)
        return UnitDone(
            item.claim.unit,
            output_ref=adopted,
            checksum=checksum,
            result={
                "fetched": item.fetched.fetched,
                "loaded": item.fetched.accepted,
                "quarantined": item.fetched.rejected,
            },
        )


class _Clients:
    """One HTTP client for each source, shared by the threads of one fetch."""

    def __init__(self) -> None:
        names: dict[str, SourceClient] = {}
        self._clients = names

    def of(self, resource: str) -> SourceClient:
        source = resource.partition(".")[0]
        if source not in self._clients:
            self._clients[source] = SourceClient(get_source(source), os.environ)
        return self._clients[source]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()


def _fetch_one(context: StageContext, claim: Claim, spool: Path, clients: _Clients) -> Fetched:
    partition = Partition.parse(claim.unit.source_partition)
    return fetch_partition(
        get_resource(partition.resource),
        partition,
        environ=os.environ,
        run_id=context.run.run_id,
        spool_dir=spool,
        stop=lambda: context.budget.is_low or context.is_cancelled(),
        client=clients.of(partition.resource),
    )


def _fetch_checkpoints(context: StageContext, claims: Sequence[Claim]) -> dict[Unit, Checkpoint]:
    steps = {replace(claim.unit, step="fetch"): claim.unit for claim in claims}
    found = context.read_checkpoints(list(steps))
    return {steps[step]: checkpoint for step, checkpoint in found.items() if checkpoint.succeeded}


def _refused_version(item: Arrived, accepted: Sequence[str]) -> SourceFailure:
    return SourceFailure(
        f"{item.partition} came with schema version {item.fetched.schema_version}, and the pipeline "
        f"accepts {', '.join(accepted)}; compare the source's change log with the contract, then add "
        "the version to the contract and to stages.extract.acceptance.schema_versions",
        code="source_schema_unsupported",
    )
