"""Progress for people: one live line on a terminal, nothing elsewhere (there the log tells)."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from orchestration.logs import get_logger

_QUIET_S = 2.0


class TerminalProgress:
    """A spinner with the stage, what it does and how far it is."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = Status("starting", console=self._console)
        self._stage = ""
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish_stage()
        self._status.stop()

    def update(
        self, stage: str, text: str, done: int | None = None, total: int | None = None
    ) -> None:
        if stage != self._stage:
            self._finish_stage()
            self._stage, self._began = stage, time.monotonic()
        count = f" [{done}/{total}]" if done is not None and total else ""
        self._status.update(f"{stage:<11}{count} {text}".replace("[", "\\["))

    def _finish_stage(self) -> None:
        if self._stage and self._stage != "wait":
            seconds = time.monotonic() - self._began
            self._console.print(f"  {self._stage:<11} {seconds:6.1f} s", markup=False)


class LoggedProgress:
    """A log line at most every two seconds; a patient one says nothing in the first two."""

    def __init__(self, *, patient: bool = False) -> None:
        self._last = time.monotonic() if patient else 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(
        self, stage: str, text: str, done: int | None = None, total: int | None = None
    ) -> None:
        now = time.monotonic()
        if text and now - self._last >= _QUIET_S:
            self._last = now
            get_logger().info("progress", activity=text, done=done, total=total)


def choose_progress(*, patient: bool = False) -> TerminalProgress | LoggedProgress:
    return TerminalProgress() if sys.stderr.isatty() else LoggedProgress(patient=patient)
