"""Takes the steps of a plan: one short transaction each, under the fence and a standing pointer.

Views that people may hold are asked for only while nobody has held them for long, and given up before
the server would look for deadlocks among the readers that queue behind.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import psycopg
from psycopg.rows import class_row

from orchestration.errors import Busy
from orchestration.faultpoints import FaultPoint, reach
from orchestration.publication.grace import Occupant, Patience, at_the_end
from orchestration.publication.plan import (
    DropSlotView,
    PointSlotView,
    RegisterModel,
    ReshapeModel,
    ShowModel,
    Step,
    WithdrawModel,
)
from orchestration.publication.reshape import (
    FORMER_SCHEMA,
    ViewName,
    drop_former_view,
    drop_slot_view,
    readers_views,
    register_model,
    reshape_model,
    withdraw_model,
)
from orchestration.publication.state import Pointer, PublicationState, read_pointer
from orchestration.publication.views import (
    grant_to_readers,
    published_view,
    slot_schema,
    slot_view,
    slot_view_name,
)
from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, assert_fence

# Readers that wait behind a view must be let go before the server looks for deadlocks among them.
_SHARE_OF_DEADLOCK_TIMEOUT = 0.8
_HELD = (psycopg.errors.LockNotAvailable, psycopg.errors.DependentObjectsStillExist)


class Preparation:
    """What one call of `prepare_slot` does to the warehouse; the connection is in autocommit."""

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
        """Takes the step, or raises and leaves everything as it was before it."""
        match step:
            case RegisterModel():
                self._in_transaction(lambda: self._register(step))
            case DropSlotView():
                self._when_free([_slot_view(step)], lambda: self._drop(step))
            case PointSlotView():
                self._when_free([_slot_view(step)], lambda: self._point(step))
            case ShowModel():
                self._when_free([(step.schema, step.model)], lambda: self._show(step))
            case ReshapeModel():
                self._when_free(self._readers_views(step.model), lambda: self._reshape(step))
            case WithdrawModel():
                views = self._readers_views(step.model)
                self._when_free(views, lambda: withdraw_model(self._connection, step))
            case _:
                assert_never(step)

    def clean_up(self, leftovers: Iterable[DropSlotView]) -> None:
        """Drops what nobody reads any more; what is held at this moment is left to the next time."""
        for step in leftovers:
            self._try_once([_slot_view(step)], partial(self._drop, step))
        models = list(self._state.registered)
        unread = self._connection.execute(query("publication_unread"), {"models": models})
        for (name,) in unread.fetchall():
            drop = partial(drop_former_view, self._connection, name)
            self._try_once([(FORMER_SCHEMA, name)], drop)

    def _readers_views(self, model: str) -> list[ViewName]:
        return readers_views(self._connection, model)

    def _register(self, step: RegisterModel) -> None:
        register_model(self._connection, self._state.pipeline, step.model, step.shape)

    def _drop(self, step: DropSlotView) -> None:
        drop_slot_view(self._connection, step.slot, step.model, step.shape)

    def _reshape(self, step: ReshapeModel) -> None:
        reshape_model(self._connection, self._state.pipeline, step)

    def _point(self, step: PointSlotView) -> None:
        self._connection.execute(
            slot_view(
                step.slot,
                slot_view_name(step.model, step.shape.number),
                step.relation,
                step.source,
                step.columns,
                step.shape.renamed,
            )
        )
        self._connection.execute(
            query("publication_record_slot_view"),
            {
                "pipeline": self._state.pipeline,
                "slot": step.slot,
                "model": step.model,
                "shape": step.shape.number,
                "version_id": self._state.version_id,
                "relation_name": step.relation,
            },
        )

    def _show(self, step: ShowModel) -> None:
        self._connection.execute(
            published_view(
                self._state.pipeline,
                step.model,
                step.columns,
                step.options,
                schema=step.schema,
                shape=step.shape.number,
            )
        )
        if step.is_new:
            self._connection.execute(grant_to_readers(step.schema, step.model))

    def _when_free(self, views: Sequence[ViewName], act: Callable[[], None]) -> None:
        """Asks only while nobody has held a view for long, because readers queue behind us."""
        timeout_ms = min(float(self._patience.lock_timeout_ms), self._longest_ms)
        while True:
            holders = self._holders(views)
            if not holders or holders[0].age_s * 1000 < timeout_ms:
                try:
                    # Whoever waits for the first view waits for the others too.
                    self._in_transaction(act, timeout_ms / max(1, len(views)))
                except psycopg.errors.LockNotAvailable:
                    pass
                else:
                    return
            if time.monotonic() >= self._deadline:
                standing = self._holders(views) or holders
                self._patience, self._deadline = at_the_end(
                    self._connection, standing, self._patience
                )
            self._patience.check()
            timeout_ms = min(timeout_ms * 1.5, self._longest_ms)
            time.sleep(self._patience.poll_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter

    def _try_once(self, views: Sequence[ViewName], act: Callable[[], None]) -> None:
        if not self._holders(views):
            with suppress(*_HELD):
                self._in_transaction(act, float(self._patience.lock_timeout_ms))

    def _holders(self, views: Sequence[ViewName]) -> list[Occupant]:
        names = [f"{schema}.{name}" for schema, name in views]
        with self._connection.cursor(row_factory=class_row(Occupant)) as cursor:
            return cursor.execute(query("publication_lock_holders"), {"views": names}).fetchall()

    def _in_transaction(self, act: Callable[[], None], timeout_ms: float | None = None) -> None:
        with self._connection.transaction():
            if timeout_ms is not None:
                self._connection.execute(
                    "select set_config('lock_timeout', %s, true)", [f"{int(timeout_ms)}ms"]
                )
            self._require_same_pointer()
            assert_fence(self._connection, self._lease)
            act()
            reach(FaultPoint.PUBLISH_INSIDE_STEP)

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


def _slot_view(step: PointSlotView | DropSlotView) -> ViewName:
    shape = step.shape if isinstance(step, DropSlotView) else step.shape.number
    return slot_schema(step.slot), slot_view_name(step.model, shape)
