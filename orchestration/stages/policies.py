"""What a pipeline says of suites that fail on a version, and what a gate does about it."""

from collections.abc import Iterable

import psycopg

from orchestration.identity import digest
from orchestration.model import StageName
from orchestration.notifications.outbox import write_message
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.stages import OnFailure
from orchestration.stages.base import StageContext
from orchestration.stages.suites import meaning
from orchestration.warehouse.fence import Lease, assert_fence


def accepted_verdicts(pipeline: PipelineSpec, suite: str) -> frozenset[str]:
    """The verdicts of this suite that let a version pass."""
    accepted = {"waived", *(item.value for item in pipeline.stages.gate.acceptance.verdicts)}
    if pipeline.policy_of(suite) is OnFailure.WARN:
        accepted |= {"warned", "failed"}
    return frozenset(accepted)


def gate_rules(context: StageContext) -> str:
    """Digest (64 hex) of what the pipeline's gate asks and what it does about the answer."""
    pipeline = context.pipeline
    gate = pipeline.stages.gate
    return digest(
        [
            meaning(context.settings.suites_dir, pipeline.suites),
            context.code.dbt,
            gate.acceptance.model_dump(mode="json"),
            gate.on_failure,
            {name: pipeline.policy_of(name) for name in pipeline.suites},
        ]
    )


def leave_out(
    connection: psycopg.Connection, lease: Lease, version_id: str, rules: str
) -> list[str]:
    """Sets aside what was new in the version and broke its rules; returns these partitions.

    None when nothing can be left out: what broke them is not new, or nothing else is there. In the
    caller's transaction (the runner's), after `record_breaches`. Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    row = connection.execute("select ops.leave_out(%s, %s)", [version_id, rules]).fetchone()
    return list(row[0] or ()) if row else []


def tell_warned(context: StageContext, version_id: str, suites: Iterable[str]) -> None:
    """A message for the gate's owner, once for a version: these failed, and it is published.

    In the caller's transaction, which is fenced.
    """
    pipeline, run = context.pipeline, context.run
    failed = ", ".join(sorted(suites))
    payload = {
        "version_id": version_id,
        "reason": f"{failed} failed, which by its policy only warns",
        "look": f"sluice gates show {run.run_id}",
    }
    owner = pipeline.owner_of(StageName.GATE).email
    write_message(context.connection, run, "warned", version_id, owner, payload)
