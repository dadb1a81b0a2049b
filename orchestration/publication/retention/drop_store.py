"""Drops relations of the store that nothing needs, one transaction each, under every build lease.

A relation and its row go together or not at all. Nobody waits for us and we wait for nobody: what a
session or somebody's view uses stays until the next prune, and is named with whoever uses it.
"""

import time
from collections.abc import Iterator, Sequence

import psycopg
from psycopg.rows import class_row

from orchestration.faultpoints import FaultPoint, reach
from orchestration.publication.grace import Occupant
from orchestration.publication.retention.facts import RelationFact
from orchestration.publication.retention.plan import StorePlan
from orchestration.publication.retention.report import Pruned, readers_of
from orchestration.publication.retention.transactions import (
    IN_USE,
    batches,
    brief_transaction,
    why_in_use,
)
from orchestration.publication.views import STORE_SCHEMA
from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, fenced

_TRIES = 3
_PAUSE_S = 0.2


class StoreDrop:
    """Carries out plans. `runner` is in autocommit; `observer` may see who holds a lock.

    `steps` yields after each transaction. Raises `LeaseLost`.
    """

    def __init__(
        self,
        runner: psycopg.Connection,
        observer: psycopg.Connection,
        leases: Sequence[Lease],
        done: Pruned,
    ) -> None:
        self._runner = runner
        self._observer = observer
        self._leases = leases
        self._done = done

    def steps(self, plan: StorePlan) -> Iterator[None]:
        for relation in plan.in_use:
            self._done.leave(f"store.{relation.name}", readers_of(relation))
        for schema in plan.schemas:
            if not self._done.has_left(f"schema {schema}"):
                self._drop_schema(schema)
                reach(FaultPoint.PRUNE_AFTER_SCHEMA)
                yield
        for relation in plan.relations:
            # What was in use a moment ago is not asked for again and again.
            if self._done.has_left(f"store.{relation.name}"):
                continue
            self._drop_relation(relation)
            reach(FaultPoint.PRUNE_AFTER_RELATION)
            yield
        for batch in batches(plan.forgotten_relations):
            self._runner.execute("select ops.forget_relations(%s)", [batch])
            yield

    def _drop_schema(self, schema: str) -> None:
        lease = self._leases[0]
        try:
            with fenced(lease), brief_transaction(self._runner):
                self._runner.execute(
                    "select ops.drop_unused_version_schema(%s, %s, %s)",
                    [lease.name, lease.fence, schema],
                )
        except IN_USE as error:
            self._done.leave(f"schema {schema}", why_in_use(error))
        else:
            self._done.schemas.append(schema)

    def _drop_relation(self, relation: RelationFact) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                if self._try_drop(relation.name):
                    self._done.add_relation(relation)
            except psycopg.errors.LockNotAvailable as error:
                if tries_left:
                    time.sleep(_PAUSE_S)
                    continue
                self._done.leave(f"store.{relation.name}", self._holders(relation.name, error))
            except IN_USE as error:
                self._done.leave(f"store.{relation.name}", why_in_use(error))
            return

    def _try_drop(self, name: str) -> bool:
        leases = [[lease.name for lease in self._leases], [lease.fence for lease in self._leases]]
        with fenced(self._leases[0]), brief_transaction(self._runner):
            row = self._runner.execute(
                "select ops.drop_relation(%s, %s, %s)", [*leases, name]
            ).fetchone()
            reach(FaultPoint.PRUNE_INSIDE_RELATION)
        return bool(row and row[0])

    def _holders(self, name: str, error: psycopg.Error) -> str:
        with self._observer.cursor(row_factory=class_row(Occupant)) as cursor:
            holders = cursor.execute(
                query("publication_lock_holders"), {"views": [f"{STORE_SCHEMA}.{name}"]}
            ).fetchall()
        return "; ".join(str(holder) for holder in holders) or why_in_use(error)
