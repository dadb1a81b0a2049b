"""Has a version ready in the slot that nobody reads, one short transaction for each view.

Readers see no difference. Whatever stops it, and wherever, doing it again continues from what is
there; a slot that has become active meanwhile is never touched.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from orchestration.errors import Busy, ConfigurationError
from orchestration.identity import VersionId
from orchestration.publication.grace import Occupant, Patience, await_grace, long_reader
from orchestration.publication.plan import (
    PointSlotView,
    RegisterModel,
    ShowModel,
    SlotPlan,
    Step,
    plan_slot,
)
from orchestration.publication.shapes import columns_to_json
from orchestration.publication.state import Pointer, PublicationState, read_pointer, read_state
from orchestration.publication.views import (
    PUBLISHED_SCHEMA,
    Slot,
    grant_to_readers,
    published_view,
    slot_schema,
    slot_view,
)
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence

# Readers that wait behind a view must be let go before the server looks for deadlocks among them.
_SHARE_OF_DEADLOCK_TIMEOUT = 0.8


@dataclass(frozen=True)
class PreparedSlot:
    """What was done: slot views replaced, published views made, and the time waited for readers."""

    slot: Slot
    replaced: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    waited_s: float = 0.0


def prepare_slot(
    warehouse: Warehouse,
    pipeline: str,
    version_id: VersionId,
    *,
    lease: Lease,
    patience: Patience | None = None,
    allow_narrower: bool = False,
) -> PreparedSlot:
    """Points the idle slot's views at the version and makes or widens published views.

    Raises `ConfigurationError` (`shape_change`, `model_taken`, `version_unknown`,
    `statistics_hidden`), `DestinationFailure` (`lineage_incomplete`; `long_reader`, transient,
    naming who stood in the way), `Busy` (`version_moved`) and `LeaseLost`.
    """
    patience = patience or Patience()
    deadline = time.monotonic() + patience.wait_s
    with warehouse.connect(Role.PUBLISHER, autocommit=True) as connection:
        state = read_state(connection, pipeline, version_id)
        plan = plan_slot(state, allow_narrower=allow_narrower)
        started = time.monotonic()
        if plan.needs_grace and state.pointer and patience.honour_grace:
            await_grace(connection, state.pointer.flipped_by, patience, deadline)
        waited_s = time.monotonic() - started
        preparation = _Preparation(connection, state, lease, patience, deadline)
        for step in plan.steps:
            preparation.take(step)
    return _report(plan, waited_s)


def _report(plan: SlotPlan, waited_s: float) -> PreparedSlot:
    shown = [step for step in plan.steps if isinstance(step, ShowModel) and step.is_new]
    pointed = [
        step.model
        for step in plan.steps
        if isinstance(step, PointSlotView) and step.slot == plan.slot
    ]
    return PreparedSlot(plan.slot, tuple(pointed), tuple(step.model for step in shown), waited_s)


class _Preparation:
    """Takes the steps of one plan, each under the fence and only while the pointer stands still."""

    def __init__(
        self,
        connection: psycopg.Connection,
        state: PublicationState,
        lease: Lease,
        patience: Patience,
        deadline: float,
    ) -> None:
        self._connection = connection
        self._state = state
        self._lease = lease
        self._patience = patience
        self._deadline = deadline
        row = connection.execute(
            "select setting::float8 from pg_settings where name = 'deadlock_timeout'"
        ).fetchone()
        self._longest_ms = float(row[0] if row else 1000) * _SHARE_OF_DEADLOCK_TIMEOUT

    def take(self, step: Step) -> None:
        match step:
            case RegisterModel():
                self._in_transaction(lambda: self._register(step))
            case PointSlotView():
                self._when_free(slot_schema(step.slot), step.model, lambda: self._point(step))
            case ShowModel():
                self._when_free(PUBLISHED_SCHEMA, step.model, lambda: self._show(step))
            case _:
                assert_never(step)

    def _register(self, step: RegisterModel) -> None:
        claimed = self._connection.execute(
            query("publication_register_model"),
            {
                "model": step.model,
                "pipeline": self._state.pipeline,
                "columns": Jsonb(columns_to_json(step.columns)),
            },
        ).fetchone()
        if claimed is None:
            raise ConfigurationError(
                f"another pipeline publishes {step.model} since a moment ago; "
                "take it out of one of the two",
                code="model_taken",
            )

    def _point(self, step: PointSlotView) -> None:
        self._connection.execute(
            slot_view(step.slot, step.model, step.relation, step.source, step.columns)
        )
        self._connection.execute(
            query("publication_record_slot_view"),
            {
                "pipeline": self._state.pipeline,
                "slot": step.slot,
                "model": step.model,
                "version_id": self._state.version_id,
                "relation_name": step.relation,
            },
        )

    def _show(self, step: ShowModel) -> None:
        self._connection.execute(
            published_view(self._state.pipeline, step.model, step.columns, step.options)
        )
        if step.is_new:
            self._connection.execute(grant_to_readers(step.model))

    def _when_free(self, schema: str, view: str, act: Callable[[], None]) -> None:
        """Asks only while nobody has held the view for long, because readers queue behind us."""
        timeout_ms = min(float(self._patience.lock_timeout_ms), self._longest_ms)
        while True:
            holders = self._holders(schema, view)
            if not holders or holders[0].age_s * 1000 < timeout_ms:
                try:
                    self._in_transaction(act, timeout_ms)
                except psycopg.errors.LockNotAvailable:
                    pass
                else:
                    return
            if time.monotonic() >= self._deadline:
                raise long_reader(self._holders(schema, view) or holders, self._patience)
            self._patience.check()
            timeout_ms = min(timeout_ms * 1.5, self._longest_ms)
            time.sleep(self._patience.poll_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter

    def _holders(self, schema: str, view: str) -> list[Occupant]:
        with self._connection.cursor(row_factory=class_row(Occupant)) as cursor:
            return cursor.execute(
                query("publication_lock_holders"), {"schema": schema, "view": view}
            ).fetchall()

    def _in_transaction(self, act: Callable[[], None], timeout_ms: float | None = None) -> None:
        with self._connection.transaction():
            if timeout_ms is not None:
                self._connection.execute(
                    "select set_config('lock_timeout', %s, true)", [f"{int(timeout_ms)}ms"]
                )
            self._require_same_pointer()
            assert_fence(self._connection, self._lease)
            act()

    def _require_same_pointer(self) -> None:
        pointer = read_pointer(self._connection, self._state.pipeline, lock=True)
        if _identity(pointer) != _identity(self._state.pointer):
            raise Busy(
                f"another version of {self._state.pipeline} was published while this one was being "
                "prepared; run the same command again",
                code="version_moved",
            )


def _identity(pointer: Pointer | None) -> tuple[int, int] | None:
    return (pointer.publication_id, pointer.flipped_by) if pointer else None
