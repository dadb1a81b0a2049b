"""Named moments before and after each durable effect, at which a test may make a process fail.

`reach` does nothing unless a test has armed a point in this very process; nothing in the environment
or the configuration can.
"""

from collections.abc import Callable
from enum import StrEnum


class FaultPoint(StrEnum):
    """`stage.moment`, in the order in which a run reaches them; the last ones are of retention."""

    RUN_BEFORE_START = "run.before_start"
    RUN_AFTER_START = "run.after_start"
    STAGE_BEFORE_ATTEMPT = "stage.before_attempt"
    STAGE_AFTER_ATTEMPT = "stage.after_attempt"
    STAGE_BEFORE_SUCCESS = "stage.before_success"
    STAGE_AFTER_SUCCESS = "stage.after_success"
    EXTRACT_AFTER_SWEEP = "extract.after_sweep"
    EXTRACT_AFTER_SPOOL = "extract.after_spool"
    EXTRACT_BEFORE_REGISTER = "extract.before_register"
    EXTRACT_AFTER_REGISTER = "extract.after_register"
    EXTRACT_AFTER_LOAD = "extract.after_load"
    EXTRACT_INSIDE_ADOPTION = "extract.inside_adoption"
    EXTRACT_AFTER_ADOPTION = "extract.after_adoption"
    VALIDATE_AFTER_SUITES = "validate.after_suites"
    VALIDATE_AFTER_VERDICTS = "validate.after_verdicts"
    VALIDATE_AFTER_ACCEPTANCE = "validate.after_acceptance"
    TRANSFORM_AFTER_MANIFEST = "transform.after_manifest"
    TRANSFORM_AFTER_REGISTER = "transform.after_register"
    TRANSFORM_AFTER_MERGE = "transform.after_merge"
    TRANSFORM_AFTER_BUILD = "transform.after_build"
    TRANSFORM_AFTER_ADOPTION = "transform.after_adoption"
    TRANSFORM_AFTER_VERSION = "transform.after_version"
    GATE_AFTER_VIEWS = "gate.after_views"
    GATE_AFTER_SUITES = "gate.after_suites"
    GATE_AFTER_TESTS = "gate.after_tests"
    GATE_AFTER_VERDICTS = "gate.after_verdicts"
    PUBLISH_BEFORE_PREPARE = "publish.before_prepare"
    PUBLISH_INSIDE_STEP = "publish.inside_step"
    PUBLISH_AFTER_STEP = "publish.after_step"
    PUBLISH_AFTER_PREPARE = "publish.after_prepare"
    PUBLISH_INSIDE_FLIP = "publish.inside_flip"
    PUBLISH_AFTER_FLIP = "publish.after_flip"
    NOTIFY_BEFORE_DELIVERY = "notify.before_delivery"
    NOTIFY_AFTER_DELIVERY = "notify.after_delivery"
    RUN_BEFORE_FINISH = "run.before_finish"
    RUN_AFTER_FINISH = "run.after_finish"
    PRUNE_AFTER_LEASE = "prune.after_lease"
    PRUNE_AFTER_VERSION = "prune.after_version"
    PRUNE_AFTER_SCHEMA = "prune.after_schema"
    PRUNE_AFTER_MANIFESTS = "prune.after_manifests"
    PRUNE_AFTER_MARK = "prune.after_mark"
    PRUNE_AFTER_ROWS = "prune.after_rows"
    PRUNE_AFTER_RUNS = "prune.after_runs"
    PRUNE_AFTER_CHECKPOINTS = "prune.after_checkpoints"
    PRUNE_AFTER_QUARANTINE = "prune.after_quarantine"
    PRUNE_AFTER_FORGETTING = "prune.after_forgetting"
    PRUNE_INSIDE_RELATION = "prune.inside_relation"
    PRUNE_AFTER_RELATION = "prune.after_relation"
    PRUNE_AFTER_RECORD = "prune.after_record"
    PIN_AFTER_ROW = "pin.after_row"
    PIN_AFTER_VIEWS = "pin.after_views"
    PIN_AFTER_UNPIN = "pin.after_unpin"
    # What brings messages to runs.
    DISPATCH_INSIDE_ACCEPTANCE = "dispatch.inside_acceptance"
    DISPATCH_AFTER_ACCEPTANCE = "dispatch.after_acceptance"
    DISPATCH_AFTER_CLAIM = "dispatch.after_claim"
    DISPATCH_AFTER_START = "dispatch.after_start"
    # What a reviewer's command reaches, and a run only when it does what a reviewer decided.
    QUARANTINE_AFTER_REQUEST = "quarantine.after_request"
    QUARANTINE_AFTER_COMPOSITION = "quarantine.after_composition"
    QUARANTINE_AFTER_DECISION = "quarantine.after_decision"


_armed: dict[tuple[FaultPoint, str], Callable[[], None]] = {}


def arm(point: FaultPoint, act: Callable[[], None], *, stage: str = "") -> None:
    """Makes the next arrival at `point` (of `stage`, for a point that all stages share) call `act`."""
    _armed[point, stage] = act


def reach(point: FaultPoint, stage: str = "") -> None:
    """Called where the code reaches the point."""
    if _armed and (act := _armed.pop((point, stage), None)) is not None:
        act()
