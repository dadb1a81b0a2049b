"""After a message was kept, the dispatcher is started: soon, one at a time, and never waited for.

Nothing depends on it. What it does not start is started by the dispatcher that runs on a schedule.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from orchestration.logs import get_logger
from orchestration.triggers.starts import NotStarted

# So many messages that come at once are one start.
_TOGETHER_S = 0.2


@dataclass
class Nudge:
    """`begin` starts a dispatcher. Raises `NotStarted`."""

    begin: Callable[[], Awaitable[None]]
    _working: asyncio.Task[None] | None = None
    _again: bool = field(default=False)

    async def start(self) -> None:
        """Returns at once. What comes while a start is under way is followed by one more."""
        if self._working is not None and not self._working.done():
            self._again = True
            return
        self._working = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Starts nothing more."""
        if self._working is not None:
            self._working.cancel()
            with suppress(asyncio.CancelledError):
                await self._working

    async def _work(self) -> None:
        self._again = True
        while self._again:
            await asyncio.sleep(_TOGETHER_S)
            self._again = False
            try:
                await self.begin()
            except NotStarted as error:
                get_logger().warning("dispatcher not started", message=str(error))
