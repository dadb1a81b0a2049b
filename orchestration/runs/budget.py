"""The time that a stage may use: it stops taking new work early enough to save its state."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_RESERVE_SHARE = 0.1
_stop_requested = threading.Event()


class Budget:
    """A stage's seconds, counted from now; SIGTERM uses them up at once."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds * (1 - _RESERVE_SHARE)

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    @property
    def is_low(self) -> bool:
        """Whether no new partition should be taken on."""
        return _stop_requested.is_set() or self.remaining_s <= 0


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """While inside, SIGTERM makes every budget run low instead of ending the process."""

    def request_stop(_signal: int, _frame: FrameType | None) -> None:
        _stop_requested.set()

    previous = signal.signal(signal.SIGTERM, request_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
        _stop_requested.clear()
