"""Drops what a plan of one pipeline names, in small transactions; each one looks again before it does.

What somebody uses, or needs after all, stays and is named. Killed anywhere, the next prune goes on:
every transaction leaves a state that it can plan from.
"""

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

import psycopg

from ingestion.artifacts import delete_artifact_rows
from ingestion.errors import IngestionError
from ingestion.sources import get_resource
from orchestration.faultpoints import FaultPoint, reach
from orchestration.publication.retention.facts import ArtifactFact
from orchestration.publication.retention.plan import PipelinePlan
from orchestration.publication.retention.report import Pruned
from orchestration.publication.retention.transactions import (
    IN_USE,
    batches,
    brief_transaction,
    why_in_use,
)
from orchestration.warehouse.fence import Lease, fenced


class PipelineDrop:
    """Carries out plans under the build lease of their pipeline.

    `runner` and `extractor` are connections in autocommit. `steps` yields after each transaction, so
    that the caller can look at the clock and at its lease. Raises `LeaseLost`.
    """

    def __init__(
        self, runner: psycopg.Connection, extractor: psycopg.Connection, lease: Lease, done: Pruned
    ) -> None:
        self._runner = runner
        self._extractor = extractor
        self._lease = lease
        self._done = done

    def steps(self, plan: PipelinePlan) -> Iterator[None]:
        yield from self._drop_versions(plan)
        yield from self._drop_manifests(plan)
        yield from self._drop_artifacts(plan)
        yield from self._drop_runs(plan)
        yield from self._drop_checkpoints(plan)
        yield from self._drop_quarantine(plan)
        yield from self._forget_artifacts(plan)

    def _drop_versions(self, plan: PipelinePlan) -> Iterator[None]:
        for version in plan.versions:
            name = version.version_id
            if any(self._fenced_call("ops.drop_version", f"version {name}", name)):
                self._done.add_version(version)
            reach(FaultPoint.PRUNE_AFTER_VERSION)
            yield
        for name in plan.schemas:
            if self._fenced_call("ops.drop_unused_version_schema", f"schema {name}", name):
                self._done.schemas.append(name)
            reach(FaultPoint.PRUNE_AFTER_SCHEMA)
            yield

    def _drop_manifests(self, plan: PipelinePlan) -> Iterator[None]:
        for batch in batches(plan.manifests):
            self._done.manifests += self._fenced_call(
                "ops.drop_manifests", f"manifest {batch[0]}", batch
            )
            reach(FaultPoint.PRUNE_AFTER_MANIFESTS)
            yield

    def _drop_artifacts(self, plan: PipelinePlan) -> Iterator[None]:
        """Marked first, so that no manifest and no checkpoint takes up what is being deleted."""
        for batch in batches(plan.artifacts, weigh=lambda item: item.rows):
            ids = [item.artifact_id for item in batch]
            gone = self._fenced_call("ops.drop_artifacts", f"artifact {ids[0]}", ids)
            reach(FaultPoint.PRUNE_AFTER_MARK)
            dropped = [item for item in batch if item.artifact_id in gone]
            self._done.add_artifacts(dropped)
            self._delete_rows(dropped)
            yield
        for batch in batches(plan.marked, weigh=lambda item: item.rows):
            self._done.add_artifacts(batch)
            self._delete_rows(batch)
            yield

    def _drop_runs(self, plan: PipelinePlan) -> Iterator[None]:
        for batch in batches(plan.runs):
            self._done.runs += self._fenced_call("ops.drop_runs", f"run {batch[0]}", batch)
            reach(FaultPoint.PRUNE_AFTER_RUNS)
            yield

    def _drop_checkpoints(self, plan: PipelinePlan) -> Iterator[None]:
        for batch in batches(plan.checkpoints):
            gone = self._fenced_call("ops.drop_checkpoints", f"checkpoint {batch[0]}", batch)
            self._done.counts["checkpoints"] += len(gone)
            reach(FaultPoint.PRUNE_AFTER_CHECKPOINTS)
            yield

    def _drop_quarantine(self, plan: PipelinePlan) -> Iterator[None]:
        for batch in batches(plan.quarantine):
            records, partitions = (
                [item.number for item in batch if item.kind == kind]
                for kind in ("record", "partition")
            )
            gone = self._call(
                "ops.drop_quarantine", f"{batch[0].kind} {batch[0].number}", records, partitions
            )
            self._done.counts["quarantine"] += sum(gone)
            reach(FaultPoint.PRUNE_AFTER_QUARANTINE)
            yield

    def _forget_artifacts(self, plan: PipelinePlan) -> Iterator[None]:
        for batch in batches(plan.forgotten_artifacts):
            # What a paused worker loaded after everybody had looked goes here at the latest.
            self._delete_rows(batch)
            ids = [item.artifact_id for item in batch]
            gone = self._call("ops.forget_artifacts", f"artifact {ids[0]}", ids)
            self._done.counts["artifacts_forgotten"] += len(gone)
            reach(FaultPoint.PRUNE_AFTER_FORGETTING)
            yield

    def _delete_rows(self, artifacts: Sequence[ArtifactFact]) -> None:
        for name in sorted({item.window[0] for item in artifacts}):
            ids = [item.artifact_id for item in artifacts if item.window[0] == name]
            try:
                resource = get_resource(name)
            except IngestionError:
                self._done.leave(
                    f"staged rows of {name}", "this checkout does not know the resource"
                )
                continue
            with brief_transaction(self._extractor):
                rows = delete_artifact_rows(self._extractor, resource, ids)
                self._extractor.execute(
                    "update ops.artifacts set emptied_at = clock_timestamp() "
                    "where artifact_id = any(%s)",
                    [ids],
                )
            self._done.counts["rows"] += rows
            reach(FaultPoint.PRUNE_AFTER_ROWS)

    def _fenced_call(self, function: LiteralString, what: str, argument: Any) -> list[Any]:
        with fenced(self._lease):
            return self._call(function, what, self._lease.name, self._lease.fence, argument)

    def _call(self, function: LiteralString, what: str, *arguments: Any) -> list[Any]:
        """What the function answers, in a transaction of its own; in use: no answer, but a note."""
        if self._done.has_left(what):
            return []
        places = ", ".join("%s" for _ in arguments)
        try:
            with brief_transaction(self._runner):
                rows = self._runner.execute(
                    f"select * from {function}({places})",  # noqa: S608 - names of this module
                    list(arguments),
                ).fetchall()
        except IN_USE as error:
            self._done.leave(what, why_in_use(error))
            return []
        return [row[0] for row in rows]
