"""Holds a run up in the middle of a stage, for as long as a test wants to do something about it."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from harness import Sluice

# Where each stage writes in the middle of what it does: (table, operation, condition).
MIDDLES = {
    "initialize": ("ops.checkpoints", "insert", "new.stage = 'initialize'"),
    "extract": ("ops.artifacts", "update", "new.state = 'adopted'"),
    "validate": ("ops.verdicts", "insert", "new.stage = 'validate'"),
    "transform": ("ops.relations", "update", "new.state = 'adopted'"),
    "gate": ("ops.verdicts", "insert", "new.stage = 'gate'"),
    "publish": ("ops.publications", "insert", "true"),
    "notify": ("ops.outbox", "update", "true"),
}
# Whose statements read staging in a stage, and which library makes them.
READERS = {
    "extract": "sluice_extractor",
    "validate": "sluice_gate",
    "transform": "sluice_transformer",
    "gate": "sluice_gate",
}
_SET_UP = """
create table public.held (at text);
create function public.hold_up() returns trigger language plpgsql security definer as $$
begin
    while exists (select from public.held where at = tg_argv[0]) loop
        perform pg_sleep(0.05);
    end loop;
    return new;
end $$
"""
_TRIGGER = (
    "create trigger hold_{0} before {2} on {1} for each row when ({3}) "
    "execute function public.hold_up('{0}')"
)
# A busy machine is no failure.
_PATIENCE_S = 600


def held_in_the_middle(sluice: Sluice, *stages: str) -> AbstractContextManager[None]:
    """The run will stop inside the statement of each stage's middle, until `let_go` or the end."""
    return _held(sluice, {stage: MIDDLES[stage] for stage in stages})


def held_at_the_start(sluice: Sluice, *stages: str) -> AbstractContextManager[None]:
    """The run will stop inside the statement that marks each of the stages running."""
    return _held(
        sluice,
        {
            stage: ("ops.run_stages", "insert", f"new.stage = '{stage}' and new.status = 'running'")
            for stage in stages
        },
    )


@contextmanager
def _held(sluice: Sluice, places: dict[str, tuple[str, str, str]]) -> Iterator[None]:
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute(_SET_UP)
        for name, place in places.items():
            owner.execute(_TRIGGER.format(name, *place).encode())
            owner.execute("insert into public.held values (%s)", [name])
    try:
        yield
    finally:
        with sluice.warehouse.connect(autocommit=True) as owner:
            owner.execute("delete from public.held")


def let_go(sluice: Sluice, stage: str) -> None:
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute("delete from public.held where at = %s", [stage])


def wait_until_held(sluice: Sluice, stage: str) -> None:
    """Until the run stands in this stage, inside a statement."""
    wait_for(
        sluice,
        "select 1 from pg_stat_activity where wait_event = 'PgSleep' "
        "and datname = current_database() and exists "
        f"(select from public.held where at = '{stage}')",
    )


@contextmanager
def locked_staging(sluice: Sluice) -> Iterator[None]:
    """Nobody reads or loads weather meanwhile; statements that try to wait."""
    owner = sluice.warehouse.connect()
    try:
        owner.execute("lock table staging.flights__weather in access exclusive mode")
        yield
    finally:
        # The server may have been restarted meanwhile; then the lock is gone already.
        owner.close()


def wait_until_waiting(sluice: Sluice, role: str) -> None:
    """Until a session of the role waits for a lock."""
    wait_for(
        sluice,
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' "
        f"and datname = current_database() and usename = '{role}'",
    )


def wait_for(sluice: Sluice, statement: str) -> None:
    """Until the statement has a row."""
    deadline = time.monotonic() + _PATIENCE_S
    while not sluice.query(statement):
        if time.monotonic() > deadline:
            pytest.fail(f"did not come: {statement}")
        time.sleep(0.05)
