"""Runs `sluice` commands in forks of one process that has the heavy libraries imported already.

Each command is a process of its own with its own environment, working directory and output, exactly
as `sluice` has them; only the ten seconds of CPU that the imports cost are paid once. For tests that
run many whole pipelines. The commands are those of the checkout: an edited copy of the project needs
a process that imports it, `Sluice.call`.
"""

import json
import os
import subprocess
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Self

from harness import CHECKOUT, Sluice
from sabotage import Sabotage

_HEAVY = (
    "adbc_driver_postgresql", "dbt.adapters.postgres", "dbt.cli.main", "dlt", "great_expectations",
    "sqlalchemy.dialects.postgresql.psycopg2", "expectations.gate", "ingestion.load",
    "orchestration.cli.app", "orchestration.runs.runner",
)  # fmt: skip


class WarmProcess:
    """The process that commands are forked from, while the context lasts."""

    def __enter__(self) -> Self:
        path = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "tests")])
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": path, "GX_ANALYTICS_ENABLED": "false"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(timeout=30)
        self._pipe(self._process.stdout).close()

    def run(
        self,
        arguments: tuple[str, ...],
        environment: dict[str, str],
        folder: Path,
        sabotage: Sabotage | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end; one at a time. `sabotage` strikes inside it."""
        with TemporaryDirectory() as outputs:
            order = {
                "arguments": ["sluice", *arguments],
                "environment": environment,
                "folder": str(folder),
                "outputs": outputs,
                "sabotage": sabotage and sabotage.order(),
            }
            self._pipe(self._process.stdin).write(json.dumps(order) + "\n")
            self._pipe(self._process.stdin).flush()
            code = int(self._pipe(self._process.stdout).readline())
            out, err = (Path(outputs, name).read_text("utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(["sluice", *arguments], code, out, err)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@dataclass(kw_only=True)
class WarmSluice(Sluice):
    """A Sluice of the checkout whose commands are forks of `process`."""

    process: WarmProcess
    sabotage: Sabotage | None = None

    def call(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """The pytest timeout ends a command that hangs; `timeout` is not looked at."""
        assert self.project == CHECKOUT, "a copy of the project must be imported anew: use Sluice"
        return self.process.run(arguments, self.environment, self.home, self.sabotage)


def serve() -> None:
    """Forks a child for each order on standard input and answers with its exit code."""
    for module in _HEAVY:
        import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(order: dict[str, Any]) -> None:
    """Turns this child into the command; never returns."""
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(order["outputs"], name), os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv = order["arguments"]
        if order["sabotage"]:
            Sabotage(**order["sabotage"]).prepare()
        from orchestration.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the child must not go on as the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
