"""The seven stages as a pipeline declares them: how long, how often, and what is accepted."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from orchestration.model import StageName
from orchestration.pipelines.acceptance import (
    ArtifactAcceptance,
    Declared,
    ExtractAcceptance,
    GateAcceptance,
    InitializeAcceptance,
    NotifyAcceptance,
    PublishAcceptance,
    TransformAcceptance,
)


class OnFailure(StrEnum):
    """What a run does when a stage's result is not accepted; each stage knows some of these."""

    FAIL = "fail"
    QUARANTINE = "quarantine"
    HOLD = "hold"
    LEAVE_OUT = "leave_out"
    WARN = "warn"


class Policy(StrEnum):
    """What a failed suite does to a version, or to the partition that it failed on."""

    HOLD = "hold"
    LEAVE_OUT = "leave_out"
    WARN = "warn"


class Owner(Declared):
    """Who is told, and who decides."""

    name: Annotated[str, Field(min_length=1)]
    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]


class Plan(StrEnum):
    """Sizes of a task of the workflow platform, the smallest first."""

    STARTER = "starter"
    STANDARD = "standard"
    PRO = "pro"


class StagePolicy(Declared):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)]
    """Seconds the stage may use. It takes no new work when they run low, and saves what it has."""
    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Attempts at the smallest unit that can be repeated, the first one included; on the workflow
    platform also at the stage's task."""
    plan: Plan = Plan.STANDARD
    """Size of the stage's task on the workflow platform: starter has half a CPU and 512 MB, standard
    1 and 2 GB, pro 2 and 4 GB."""
    owner: Owner | None = None
    """Who is told about this stage; without it the pipeline's owner."""


class InitializePolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 120
    acceptance: InitializeAcceptance = InitializeAcceptance()
    on_failure: Literal[OnFailure.FAIL] = OnFailure.FAIL
    """fail: the run fails."""


class ExtractPolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 1500
    concurrency: Annotated[int, Field(ge=1, le=32)] = 4
    """Partitions fetched at the same time."""
    partitions_per_load: Annotated[int, Field(ge=1, le=366)] = 31
    """Partitions loaded together; each keeps a checkpoint of its own."""
    acceptance: ExtractAcceptance
    on_failure: Literal[OnFailure.FAIL] = OnFailure.FAIL
    """fail: the run fails; partitions that did arrive are kept and reused."""


class ValidatePolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 900
    acceptance: ArtifactAcceptance = ArtifactAcceptance()
    """What each partition must fulfil; a resource may say single words differently."""
    on_failure: Literal[OnFailure.QUARANTINE, OnFailure.FAIL] = OnFailure.QUARANTINE
    """quarantine: it is set aside, and its resource's on_rejected decides. fail: the run fails."""


class TransformPolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 1500
    threads: Annotated[int, Field(ge=1, le=32)] = 4
    """Models that dbt builds at the same time."""
    acceptance: TransformAcceptance = TransformAcceptance()
    on_failure: Literal[OnFailure.FAIL] = OnFailure.FAIL
    """fail: the run fails; what is published stays."""


class GatePolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 900
    acceptance: GateAcceptance = GateAcceptance()
    on_failure: Literal[OnFailure.HOLD, OnFailure.LEAVE_OUT, OnFailure.WARN, OnFailure.FAIL] = (
        OnFailure.HOLD
    )
    """hold: the version is kept unpublished for a decision. leave_out: the partitions that broke
    rules keep their last good content and the rest is published, degraded; what cannot be left out
    holds. warn: it is published, and the owner is told. fail: the version is rejected."""


class OnLongReader(StrEnum):
    """What becomes of a reader that is still in the way when the grace seconds are over."""

    WAIT = "wait"
    TERMINATE = "terminate"


class PublishPolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 600
    grace_seconds: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Seconds to wait for readers who may still see the idle slot; then the next word decides."""
    on_long_reader: OnLongReader = OnLongReader.WAIT
    """wait: the publication stops, names the session, and may be repeated. terminate: the session is
    ended, which is kept among the operators' actions; never one of Sluice's own."""
    acceptance: PublishAcceptance = PublishAcceptance()
    on_failure: Literal[OnFailure.FAIL] = OnFailure.FAIL
    """fail: the run fails; what is published stays."""


class NotifyPolicy(StagePolicy):
    budget_seconds: Annotated[int, Field(ge=10, le=86_400)] = 120
    acceptance: NotifyAcceptance = NotifyAcceptance()
    on_failure: Literal[OnFailure.WARN] = OnFailure.WARN
    """warn: the outcome of the run stands, the log says that the message is missing."""


class Stages(Declared):
    initialize: InitializePolicy = InitializePolicy()
    extract: ExtractPolicy
    validation: Annotated[ValidatePolicy, Field(alias="validate")] = ValidatePolicy()
    transform: TransformPolicy = TransformPolicy()
    gate: GatePolicy = GatePolicy()
    publish: PublishPolicy = PublishPolicy()
    notify: NotifyPolicy = NotifyPolicy()

    def policy(self, stage: StageName) -> StagePolicy:
        """The policy of one stage, as the base that all share."""
        policies: dict[StageName, StagePolicy] = {
            StageName.INITIALIZE: self.initialize,
            StageName.EXTRACT: self.extract,
            StageName.VALIDATE: self.validation,
            StageName.TRANSFORM: self.transform,
            StageName.GATE: self.gate,
            StageName.PUBLISH: self.publish,
            StageName.NOTIFY: self.notify,
        }
        return policies[stage]
