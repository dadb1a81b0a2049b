"""Extract: fetch and redact each partition, load many together, adopt each one by itself.

Every partition has its own lease and two checkpoints: what was fetched (kept on this machine's disk,
redacted) and what was loaded and adopted. A partition that fails does not keep the others back.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import psycopg

from ingestion.client import SourceClient
from ingestion.errors import IngestionError
from ingestion.fetch import fetch_partition
from ingestion.load import LoadItem, load_spooled_partitions
from ingestion.partitions import Partition
from ingestion.quarantine import insert_rejected
from ingestion.sources import get_resource, get_source
from ingestion.spool import Fetched, discard_spooled, load_spooled, read_rejected, sweep_spool
from orchestration.errors import SourceFailure
from orchestration.failures import classify
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import ArtifactId, digest
from orchestration.model import StageName
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

# What a killed process had fetched is of use to the run that resumes soon, not for ever.
_SPOOL_AGE = timedelta(days=2)


@dataclass(frozen=True)
class _Arrived:
    """A claimed partition whose records lie on this machine's disk, ready to be loaded."""

    claim: Claim
    partition: Partition
    fetched: Fetched


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
        sweep_spool(_spool_dir(context), _SPOOL_AGE)
        reach(FaultPoint.EXTRACT_AFTER_SWEEP)
        open_claims = []
        for claim in claims:
            if done := self._already_adopted(context, connection, claim):
                yield done
            else:
                open_claims.append(claim)
        if open_claims:
            context.prepare()
        arrived: list[_Arrived] = []
        for result in self._fetch_all(context, open_claims):
            if isinstance(result, _Arrived):
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
    ) -> Iterator[UnitResult | _Arrived]:
        policy = context.pipeline.stages.extract
        spool = _spool_dir(context)
        clients = _Clients()
        steps = _fetch_checkpoints(context, claims)
        with clients, ThreadPoolExecutor(policy.concurrency) as pool:
            waiting: dict[Future[Fetched], Claim] = {}
            for claim in claims:
                step = steps.get(claim.unit)
                kept = step and load_spooled(spool, step.output_ref or "", step.checksum or "")
                if kept:
                    yield _Arrived(claim, Partition.parse(claim.unit.source_partition), kept)
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
                yield _Arrived(claim, Partition.parse(claim.unit.source_partition), fetched)

    def _load_all(
        self, context: StageContext, connection: psycopg.Connection, arrived: list[_Arrived]
    ) -> Iterator[UnitResult]:
        if not arrived:
            return
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
        spool = _spool_dir(context)
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
        item: _Arrived,
    ) -> UnitDone:
        spool = _spool_dir(context)
        adopted, checksum = adopt_artifact(
            connection,
            artifact_id,
            get_resource(item.partition.resource),
            item.fetched,
            item.claim.lease,
            keep_rejected=lambda: insert_rejected(
                connection,
                read_rejected(spool, item.fetched.ref),
                pipeline=context.pipeline.name,
                partition=item.partition,
                artifact_id=artifact_id,
                run_id=context.run.run_id,
                contract_version=item.fetched.contract_version,
            ),
        )
        reach(FaultPoint.EXTRACT_AFTER_ADOPTION)
        discard_spooled(spool, item.fetched.ref)
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


def _spool_dir(context: StageContext) -> Path:
    folder = context.settings.home_dir / "spool"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _refused_version(item: _Arrived, accepted: Sequence[str]) -> SourceFailure:
    return SourceFailure(
        f"{item.partition} came with schema version {item.fetched.schema_version}, and the pipeline "
        f"accepts {', '.join(accepted)}; compare the source's change log with the contract, then add "
        "the version to the contract and to stages.extract.acceptance.schema_versions",
        code="source_schema_unsupported",
    )
