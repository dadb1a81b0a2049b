"""Runs the real command line in processes of its own, against one warehouse and one demo service."""

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Role, Warehouse

CHECKOUT = Path(__file__).resolve().parent.parent
_PROGRAM = "import sys; sys.argv[0] = 'sluice'; from orchestration.cli import main; main()"
# One folder for all tests of a worker: most of them run the same dbt project.
CACHE = "SLUICE_CACHE_DIR"
# Everything else at the top, like .git, .venv and tests, is no part of what runs.
_COPIED = ("orchestration", "ingestion", "expectations", "dbt_project", "docs", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "benchmarks", "target", "logs", "profiles.yml"
)


@dataclass(frozen=True)
class Moment:
    """A moment in a run: so many seconds after it logged `event` (of `stage`), or after its start."""

    delay_s: float
    stage: str | None = None
    event: str = "stage started"

    def is_reached_by(self, line: str) -> bool:
        try:
            found = json.loads(line)
        except ValueError:
            return False
        return (found.get("event"), found.get("stage")) == (self.event, self.stage)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Only the test suite of the checkout itself is left out, not dbt's tests."""
    left_out = set(_LEFT_OUT(folder, names))
    return left_out | {"tests"} if Path(folder) == CHECKOUT else left_out


@dataclass
class Sluice:
    """`sluice` as a user runs it. `project` is the checkout, or a copy that the test may edit."""

    warehouse: Warehouse
    home: Path
    demo: DemoServer
    project: Path = CHECKOUT
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name == CACHE or not name.startswith(("SLUICE_", "PG", "DBT_"))
        }
        return inherited | {
            "PYTHONPATH": str(self.project),
            "SLUICE_PROJECT_DIR": str(self.project),
            "SLUICE_WAREHOUSE_URL": self.warehouse.owner_url,
            "SLUICE_HOME": str(self.home),
            "SLUICE_FLIGHTS_API_URL": self.demo.url,
            "SLUICE_FLIGHTS_API_TOKEN": self.demo.token,
            "SLUICE_PSEUDONYM_KEY": "a key for tests",
            "SLUICE_RETRY_BASE_SECONDS": "0.05",
            **self.extra,
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", _PROGRAM, *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A process that the test may kill; its log lines come on standard error."""
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            cwd=self.home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=self.home,
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def kill_at(self, moment: Moment, *arguments: str, timeout: float = 240) -> bool:
        """Starts the command and SIGKILLs it at that moment; False if it ended before."""
        process = self.start(*arguments)
        assert process.stderr is not None
        assert process.stdout is not None
        reached = threading.Event()
        lines = process.stderr

        def watch() -> None:
            for line in lines:
                if moment.is_reached_by(line):
                    reached.set()
            reached.set()

        if moment.stage is None:
            reached.set()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            assert reached.wait(timeout), f"{moment} did not come"
            try:
                process.wait(moment.delay_s)
            except subprocess.TimeoutExpired:
                return True
            return False
        finally:
            process.kill()
            process.wait()
            watcher.join()
            process.stderr.close()
            process.stdout.close()

    def at(self, home: Path) -> "Sluice":
        """The same warehouse and project from another machine, whose disk holds nothing."""
        home.mkdir(parents=True, exist_ok=True)
        return replace(self, home=home, extra={**self.extra, CACHE: str(home / "cache")})

    def json(self, *arguments: str, code: int = 0, timeout: float = 240) -> Any:
        """The answer of a command with --json; fails the test unless it exits with `code`."""
        done = self.call(*arguments, "--json", timeout=timeout)
        assert done.returncode == code, (
            f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
        )
        return json.loads(done.stdout)

    def run(self, partitions: str, *options: str, pipeline: str = "flights", code: int = 0) -> Any:
        """`sluice run`; returns the object that it prints last."""
        return self.json(
            "run", "--pipeline", pipeline, "--partitions", partitions, *options, code=code
        )

    def query(self, statement: str, role: Role | None = None) -> list[tuple[Any, ...]]:
        with self.warehouse.connect(role) as connection:
            return connection.execute(statement.encode()).fetchall()

    def published(self, model: str = "fct_flights") -> list[tuple[Any, ...]]:
        """All rows of a published view, in one order."""
        return sorted(self.query(f"select t::text from analytics.{model} t"))

    def everything_published(self) -> dict[str, list[tuple[Any, ...]]]:
        models = self.query(
            "select relname from pg_class where relnamespace = 'analytics'::regnamespace "
            "and relkind = 'v' order by 1"
        )
        return {str(model): self.published(str(model)) for (model,) in models}

    def copy_project(self, target: Path) -> "Sluice":
        """The same, with a copy of the project that may be edited."""
        target.mkdir(parents=True)
        for name in _COPIED:
            if (CHECKOUT / name).is_dir():
                shutil.copytree(CHECKOUT / name, target / name, ignore=_LEFT_OUT)
            else:
                shutil.copy(CHECKOUT / name, target / name)
        return replace(self, project=target)
