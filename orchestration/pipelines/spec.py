"""What a pipeline is: resources, dbt selection, suites, published models, people and policies.

Values are checked without looking anywhere else; whether the named resources, suites and models
exist is `sluice check`'s question.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from orchestration.model import StageName
from orchestration.pipelines.acceptance import (
    AcceptanceOverride,
    ArtifactAcceptance,
    Declared,
    Verdict,
)
from orchestration.pipelines.alerts import AlertPolicy
from orchestration.pipelines.cron import check_cron
from orchestration.pipelines.shape_changes import AllowedShapeChange
from orchestration.pipelines.stages import OnFailure, Owner, Policy, Stages
from orchestration.pipelines.tasks import TaskPolicy, check_timeouts
from orchestration.pipelines.webhook import WebhookPolicy

# Models become relations with a suffix, and Postgres cuts names at 63 bytes.
ModelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
ResourceName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,29}\.[a-z][a-z0-9_]{0,29}$")]
SuiteName = Annotated[str, Field(pattern=r"^[a-z0-9_]+(/[a-z0-9_]+)*$")]
_SHAPE_SUFFIX = re.compile(r"__shape[0-9]+p?$")
PipelineName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class OnRejected(StrEnum):
    """What becomes of the run when a partition of the resource is not acceptable."""

    HOLD = "hold"
    LEAVE_OUT = "leave_out"


def _check_time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is not a time zone; write one like America/New_York") from error
    return name


def _refuse_repeats(names: Sequence[str]) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"named more than once: {', '.join(repeated)}; keep one of each")


def _check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    _refuse_repeats(names)
    return names


def _check_published(names: tuple[str, ...]) -> tuple[str, ...]:
    if taken := [name for name in names if _SHAPE_SUFFIX.search(name)]:
        raise ValueError(
            f"{', '.join(taken)} ends like the views of a change of shape; choose another name"
        )
    return _check_unique(names)


class Schedule(Declared):
    """What a scheduled run asks for: the last closed days, and a new revision of every snapshot."""

    cron: Annotated[str, AfterValidator(check_cron)]
    """Five fields, read in the time zone below."""
    time_zone: Annotated[str, AfterValidator(_check_time_zone)] = "UTC"
    """IANA name; the zone of the cron expression and of the days."""
    days: Annotated[int, Field(ge=1, le=366)] = 1
    """How many closed days a scheduled run asks for, the last one being yesterday."""


class ResourceSpec(Declared):
    name: ResourceName
    """source.resource, as `sluice sources list` shows it."""
    suite: SuiteName | None = None
    """Suite evaluated on the rows of new partitions: a path below expectations/suites, no .yml."""
    volume_suite: SuiteName | None = None
    """Suite evaluated on one row (_partition, row_count) for each new partition."""
    on_rejected: OnRejected = OnRejected.HOLD
    """hold: the run is held. leave_out: the last good content of the partition stays in use."""
    acceptance: AcceptanceOverride = AcceptanceOverride()
    """The words of stages.validate.acceptance that this resource says differently."""
    owner: Owner | None = None
    """Who is told about this resource; without it the stage's or the pipeline's owner."""


def check_policies(
    policies: Mapping[str, Policy],
    resources: Sequence[ResourceSpec],
    suites: Sequence[str],
    stages: Stages,
) -> None:
    """Raises `ValueError` for a policy that could never do what it says."""
    of_resources = {name for item in resources for name in (item.suite, item.volume_suite) if name}
    for name, policy in policies.items():
        if name not in of_resources and name not in suites:
            raise ValueError(
                f"{name} is no suite of this pipeline; take it out, or name one that it uses"
            )
        stage, accepts, fails = (
            ("gate", stages.gate.acceptance.verdicts, stages.gate.on_failure)
            if name in suites
            else ("validate", (), stages.validation.on_failure)
        )
        if fails is OnFailure.FAIL and policy is not Policy.WARN:
            raise ValueError(
                f"{name} cannot {policy.value} while stages.{stage}.on_failure is fail, which ends "
                "the run; write what the other suites do in its place"
            )
        if Verdict.FAILED in accepts:
            raise ValueError(
                f"{name} cannot {policy.value} while stages.{stage}.acceptance accepts failed; "
                "take failed out of its verdicts"
            )


class Retention(Declared):
    """What `sluice prune` keeps beside what is needed: the rest goes."""

    previous_versions: Annotated[int, Field(ge=0, le=1000)] = 7
    """Versions kept to roll back to, beside the published one."""
    candidate_days: Annotated[int, Field(ge=0, le=3650)] = 14
    """Days for versions that were never published, unless somebody has to decide about them."""
    run_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """Days for what is known of ended runs; a failed one can be resumed for as long."""
    quarantine_days: Annotated[int, Field(ge=0, le=3650)] = 90
    """Days until what a decided record held is erased. The decision stays, and so does what is held."""
    log_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days for log files on the machine that prunes."""


class DbtSelection(Declared):
    select: Annotated[tuple[str, ...], Field(min_length=1)]
    """dbt node selection: what a version consists of. +model includes all that the model needs."""


class PipelineSpec(Declared):
    name: PipelineName
    """The same as the name of the file."""
    description: Annotated[str, Field(min_length=1)]
    owner: Owner
    """Who is told when a run fails or is held."""
    reviewer: Owner
    """Who decides about held versions and quarantine."""
    schedule: Schedule | None = None
    """When the pipeline runs by itself; without it only when asked."""
    webhook: WebhookPolicy | None = None
    """Which messages start runs; without it none does."""
    resources: Annotated[tuple[ResourceSpec, ...], Field(min_length=1)]
    dbt: DbtSelection
    publishes: Annotated[
        tuple[ModelName, ...], Field(min_length=1), AfterValidator(_check_published)
    ]
    """Models that appear in schema analytics. A model belongs to one pipeline."""
    shape_changes: tuple[AllowedShapeChange, ...] = ()
    """What the next version may take from readers: columns dropped, renamed or retyped, models
    withdrawn. Nothing else is. An entry that is published has no effect; take it out."""
    suites: Annotated[tuple[SuiteName, ...], AfterValidator(_check_unique)] = ()
    """Suites evaluated on every version, as paths under expectations/suites without .yml."""
    stages: Annotated[Stages, AfterValidator(check_timeouts)]
    tasks: TaskPolicy = TaskPolicy()
    """How runs become tasks of the workflow platform; of no effect elsewhere."""
    alerts: AlertPolicy = AlertPolicy()
    """What owners are told besides failures."""
    policies: dict[SuiteName, Policy] = Field(default_factory=dict)
    """What a failed suite does, where stages.gate.on_failure (suites of versions) or on_rejected
    (suites of a resource) says something else. hold: nothing is published until somebody decides.
    leave_out: the partition keeps its last good content, the rest is published. warn: it is
    published, and the owner is told."""
    retention: Retention = Retention()
    """How long versions, runs, quarantine and logs are kept."""

    @field_validator("resources")
    @classmethod
    def _resources_are_unique(cls, value: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
        _refuse_repeats([resource.name for resource in value])
        return value

    @field_validator("policies")
    @classmethod
    def _policies_mean_something(
        cls, value: dict[str, Policy], info: ValidationInfo
    ) -> dict[str, Policy]:
        known = info.data
        if {"resources", "suites", "stages"} <= known.keys():
            check_policies(value, known["resources"], known["suites"], known["stages"])
        return value

    @model_validator(mode="after")
    def _changes_of_shape_fit(self) -> Self:
        for change in self.shape_changes:
            if change.withdraw in self.publishes:
                raise ValueError(f"{change.withdraw} is withdrawn and published; take one out")
            if change.withdraw is None and change.model not in self.publishes:
                raise ValueError(
                    f"shape_changes names {change.model}, which is not published here; take it out"
                )
        return self

    @property
    def resource_names(self) -> tuple[str, ...]:
        return tuple(resource.name for resource in self.resources)

    def resource(self, name: str) -> ResourceSpec:
        """Raises `KeyError` for a resource of another pipeline."""
        for resource in self.resources:
            if resource.name == name:
                return resource
        raise KeyError(name)

    def acceptance_of(self, resource: str) -> ArtifactAcceptance:
        """What a partition of this resource must fulfil."""
        return self.resource(resource).acceptance.over(self.stages.validation.acceptance)

    def owner_of(self, stage: StageName | None = None, resource: str | None = None) -> Owner:
        """Who is told: the resource's owner, else the stage's, else the pipeline's."""
        if resource is not None and (owner := self.resource(resource).owner) is not None:
            return owner
        if stage is not None and (owner := self.stages.policy(stage).owner) is not None:
            return owner
        return self.owner

    def policy_of(self, suite: str) -> OnFailure:
        """What a suite does that failed on a version; dbt's data tests do what the gate says."""
        return OnFailure(self.policies.get(suite, self.stages.gate.on_failure))

    def deciding_content(self) -> dict[str, Any]:
        """All that decides what a run produces, as JSON; not people, times, texts or effort."""
        content = self.model_dump(mode="json", include={"name", "dbt", "publishes", "suites"})
        if self.shape_changes:
            content["shape_changes"] = [
                change.model_dump(mode="json", exclude={"reason"}) for change in self.shape_changes
            ]
        if self.policies:
            content["policies"] = {name: policy.value for name, policy in self.policies.items()}
        content["resources"] = {
            resource.name: {
                "suite": resource.suite,
                "volume_suite": resource.volume_suite,
                "on_rejected": resource.on_rejected.value,
                "acceptance": self.acceptance_of(resource.name).model_dump(mode="json"),
            }
            for resource in self.resources
        }
        content["stages"] = {
            stage.value: self.stages.policy(stage).model_dump(
                mode="json", include={"acceptance", "on_failure"}
            )
            for stage in StageName
        }
        return content
