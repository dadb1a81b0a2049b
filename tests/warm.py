"""Runs `sluice` commands in forks of one process that has imported the checkout and its libraries.

Each command is a process of its own with its own environment, working directory and output, exactly
as `sluice` has them; a copy of the project is imported anew. Only the ten seconds of CPU that the
imports cost are paid once. For tests that run many whole pipelines.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Self

from harness import Moment, Sluice
from sabotage import Sabotage

_SERVER = Path(__file__).with_name("warm_server.py")


class WarmProcess:
    """The process that commands are forked from, while the context lasts."""

    def __enter__(self) -> Self:
        self._order = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, _SERVER],
            env={**os.environ, "GX_ANALYTICS_ENABLED": "false"},
            stdin=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(timeout=30)

    def run(
        self, arguments: tuple[str, ...], sluice: Sluice, sabotage: tuple[Sabotage, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end, for each thread that asks. `sabotage` strikes inside it."""
        with TemporaryDirectory() as outputs:
            return self.run_in(outputs, arguments, sluice, sabotage)

    def run_in(
        self,
        outputs: str,
        arguments: tuple[str, ...],
        sluice: Sluice,
        sabotage: tuple[Sabotage, ...] = (),
        program: str = "sluice",
    ) -> subprocess.CompletedProcess[str]:
        """The same; meanwhile `pid`, `out` and `err` are files in the folder `outputs`."""
        told = Path(outputs, "code")
        os.mkfifo(told)
        for name in ("out", "err"):
            Path(outputs, name).touch(0o600)
        order = {
            "arguments": [program, *arguments],
            "environment": sluice.environment,
            "folder": str(sluice.home),
            "project": str(sluice.project),
            "outputs": outputs,
            "sabotage": [item.order() for item in sabotage],
        }
        with self._order:
            self._pipe(self._process.stdin).write(json.dumps(order) + "\n")
            self._pipe(self._process.stdin).flush()
        code = int(told.read_text("ascii"))
        out, err = (Path(outputs, name).read_text("utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess([program, *arguments], code, out, err)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@dataclass(kw_only=True)
class WarmSluice(Sluice):
    """A Sluice whose commands are forks of `process`; what `start` starts is a cold process."""

    process: WarmProcess
    sabotage: tuple[Sabotage, ...] = ()

    def call(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """The pytest timeout ends a command that hangs; `timeout` is not looked at."""
        return self.process.run(arguments, self, self.sabotage)

    def kill_at(self, moment: Moment, *arguments: str, timeout: float = 240) -> bool:
        """Starts the command and SIGKILLs it at that moment; False if it ended before."""
        with TemporaryDirectory() as outputs, ThreadPoolExecutor(1) as pool:
            command = pool.submit(self.process.run_in, outputs, arguments, self)
            pid, lines = Path(outputs, "pid"), Path(outputs, "err")
            deadline = time.monotonic() + timeout
            try:
                while not (pid.exists() and pid.read_text()) or not _is_reached(moment, lines):
                    assert time.monotonic() < deadline, f"{moment} did not come"
                    if command.done():
                        return False
                    time.sleep(0.01)
                wait([command], moment.delay_s)
            finally:
                if not command.done():
                    os.kill(int(pid.read_text()), signal.SIGKILL)
            return command.result().returncode == -signal.SIGKILL


def _is_reached(moment: Moment, log: Path) -> bool:
    if moment.stage is None:
        return True
    return any(moment.is_reached_by(line) for line in log.read_text("utf-8").splitlines())
