"""How a run ended, and what each stage of one pass came to: values for people and machines."""

from dataclasses import dataclass

from orchestration.errors import Busy, SluiceError
from orchestration.identity import VersionId
from orchestration.model import Outcome, StageName, StageStatus
from orchestration.runs.messages import failure_of


@dataclass(frozen=True)
class Ended:
    """How a run ended; `version_id` is the version it came to, published or not."""

    outcome: Outcome
    version_id: VersionId | None = None
    failure: SluiceError | None = None
    stage: StageName | None = None


@dataclass
class StageLine:
    """One stage of this pass, as people and machines see it."""

    stage: StageName
    status: StageStatus
    attempts: int = 0
    duration_s: float = 0.0
    input_ref: str | None = None
    output_ref: str | None = None


def failure_as_json(ended: Ended) -> dict[str, object] | None:
    """The `failure` of a run, as it is stored and printed."""
    return failure_of(ended.failure, ended.stage) if ended.failure else None


def out_of_time(stage: StageName, remaining: int) -> Busy:
    """The failure of a stage that stopped early; what it finished is kept."""
    return Busy(
        f"the time budget of {stage} ran out with {remaining} partitions to go; what was finished is "
        "kept, so run the same command again",
        code="budget_exhausted",
    )
