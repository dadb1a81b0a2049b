"""Who executes accepted runs: the workflow platform where there is one, else processes of this machine."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from orchestration.identity import RunId
from orchestration.settings import Settings
from orchestration.triggers.starts import NotStarted, Starter

_PROGRAM = "import sys; sys.argv[0] = 'sluice'; from orchestration.cli import main; main()"
_LOOK_S = 0.2
# It did its work; what became of the runs is told to their owners.
_HAS_DISPATCHED = {0, 10, 11, 12, 75}
HERE = "here"
"""The reference of a run that the dispatcher executes itself."""


@dataclass(frozen=True)
class PlatformStarter:
    """`start_task(workflow, task, inputs, idempotency key)` is the adapter's."""

    workflow: str
    start_task: Callable[[str, str, list[Any], str | None], str]

    def start_run(self, run_id: RunId) -> str:
        return self.start_task(self.workflow, "execute", [run_id], run_id)

    async def start_dispatch(self) -> None:
        await asyncio.to_thread(self.start_task, self.workflow, "dispatch", [], None)


@dataclass(frozen=True)
class LocalStarter:
    """Runs stay with the dispatcher; a dispatcher is `sluice dispatch` as a process of its own."""

    def start_run(self, run_id: RunId) -> str:
        return HERE

    async def start_dispatch(self) -> None:
        """Waits until it has ended, so that one of them works at a time. It outlives who waits."""
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "dispatch", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        # A subprocess of asyncio's own would be killed together with the loop.
        while process.poll() is None:
            await asyncio.sleep(_LOOK_S)
        if process.returncode not in _HAS_DISPATCHED:
            raise NotStarted(f"sluice dispatch ended with {process.returncode}")


def choose_starter(settings: Settings) -> Starter:
    """The platform's, when SLUICE_WORKFLOW names a workflow there."""
    if settings.workflow is None:
        return LocalStarter()
    # By name: only who uses the platform imports its library, and only its adapter knows it.
    adapter = import_module("orchestration.workflow")
    return PlatformStarter(settings.workflow, adapter.start_task)
