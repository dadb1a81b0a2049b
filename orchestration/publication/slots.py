"""Has a version ready in the slot that nobody reads, one short transaction for each view.

Readers see no difference, but for a change of shape that the pipeline file allows. Whatever stops it,
and wherever, doing it again continues from what is there; a slot that has become active meanwhile is
never touched.
"""

import time
from dataclasses import dataclass

from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId
from orchestration.publication.casts import require_castable
from orchestration.publication.grace import Patience, await_grace
from orchestration.publication.plan import (
    PointSlotView,
    ReshapeModel,
    ShowModel,
    SlotPlan,
    WithdrawModel,
    plan_slot,
)
from orchestration.publication.preparation import Preparation
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.state import read_state
from orchestration.publication.views import PUBLISHED_SCHEMA, Slot
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease


@dataclass(frozen=True)
class PreparedSlot:
    """What was done: slot views replaced, published views made, models whose shape changed or that
    were withdrawn, and the time waited for readers."""

    slot: Slot
    replaced: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    waited_s: float = 0.0


def prepare_slot(
    warehouse: Warehouse,
    pipeline: str,
    version_id: VersionId,
    *,
    lease: Lease,
    patience: Patience | None = None,
    allowed: Allowed | None = None,
    allow_narrower: bool = False,
) -> PreparedSlot:
    """Points the idle slot's views at the version and makes or widens published views.

    Only what `allowed` says is taken from readers. Raises `ConfigurationError` (`shape_change`,
    `shape_in_use`, `model_taken`, `version_unknown`, `statistics_hidden`), `DestinationFailure`
    (`lineage_incomplete`; `long_reader`, transient, naming who stood in the way), `Busy`
    (`version_moved`) and `LeaseLost`.
    """
    patience = patience or Patience()
    deadline = time.monotonic() + patience.wait_s
    with warehouse.connect(Role.PUBLISHER, autocommit=True) as connection:
        state = read_state(connection, pipeline, version_id)
        plan = plan_slot(state, allowed, allow_narrower=allow_narrower)
        require_castable(connection, plan)
        started = time.monotonic()
        if plan.needs_grace and state.pointer and patience.honour_grace:
            await_grace(connection, state.pointer.flipped_by, patience, deadline)
        waited_s = time.monotonic() - started
        preparation = Preparation(connection, state, lease, patience, deadline)
        for step in plan.steps:
            preparation.take(step)
            reach(FaultPoint.PUBLISH_AFTER_STEP)
        preparation.clean_up(plan.leftovers)
    return _report(plan, waited_s)


def _report(plan: SlotPlan, waited_s: float) -> PreparedSlot:
    shown = [step for step in plan.steps if isinstance(step, ShowModel) and step.is_new]
    pointed = [
        step.model
        for step in plan.steps
        if isinstance(step, PointSlotView) and step.slot == plan.slot
    ]
    return PreparedSlot(
        plan.slot,
        replaced=tuple(pointed),
        created=tuple(step.model for step in shown if step.schema == PUBLISHED_SCHEMA),
        reshaped=tuple(s.model for s in plan.steps if isinstance(s, ReshapeModel)),
        withdrawn=tuple(s.model for s in plan.steps if isinstance(s, WithdrawModel)),
        waited_s=waited_s,
    )
