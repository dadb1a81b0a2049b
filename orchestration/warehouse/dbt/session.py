"""Running dbt inside this process: one invocation at a time, silent, in an environment of its own.

Nothing that dbt prints or writes carries row values: its database errors are rewritten where they
arise, before any log, artifact or exception can hold them. What `dbtRunner` swallows is raised.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestration.errors import ConfigurationError, SluiceError
from orchestration.warehouse.dbt.failures import (
    DatabaseTrouble,
    describe_refusal,
    describe_trouble,
    failure_of,
)
from orchestration.warehouse.dbt.profile import (
    PROFILE,
    TARGET,
    session_options,
    write_session_profile,
)

# dbtRunner keeps its flags, adapters and the environment in globals.
_ONE_AT_A_TIME = threading.Lock()
_KEPT_PREFIXES = ("DBT_ENV_",)
_QUIET = [
    *("--log-level", "none", "--log-level-file", "none", "--quiet", "--no-print"),
    *("--no-use-colors", "--no-partial-parse"),
    "--no-send-anonymous-usage-stats",
]


@dataclass(frozen=True)
class DbtSession:
    """One attempt's way into dbt.

    `url` is a libpq URL of the role that works; its `options` (time zone, `sluice.manifest`, …)
    reach every connection that dbt opens. `work_dir` belongs to the attempt alone; `cache_dir` may
    be shared, and without one nothing that dbt says is kept.
    """

    project_dir: Path
    work_dir: Path
    url: str
    threads: int = 4
    cache_dir: Path | None = None


@dataclass(frozen=True)
class Invocation:
    """What one dbt command came to: its result, and the database errors by connection name."""

    result: Any
    exception: BaseException | None
    troubles: Mapping[str, DatabaseTrouble] = field(default_factory=dict)

    def raise_if_broken(self, subject: str) -> None:
        """Raises when dbt itself failed, as opposed to one of its nodes."""
        if self.exception is None:
            return
        for trouble in self.troubles.values():
            raise failure_of(trouble, subject) from None
        raise broken_project(self.exception, subject) from None


def invoke(
    session: DbtSession,
    arguments: Sequence[str],
    manifest: Any = None,
    *,
    writes_json: bool = False,
) -> Invocation:
    """Runs one dbt command; `arguments` are the command and its own options.

    With `writes_json` dbt leaves its artifacts in `work_dir`/target.

    Raises whatever interrupted it (KeyboardInterrupt, SystemExit); never for a failed node.
    """
    from dbt.cli.main import dbtRunner

    write_session_profile(session.work_dir, session.url, session.threads)
    command = [
        *arguments,
        *("--project-dir", str(session.project_dir), "--profiles-dir", str(session.work_dir)),
        *("--profile", PROFILE, "--target", TARGET),
        *("--target-path", str(session.work_dir / "target")),
        *("--log-path", str(session.work_dir / "logs")),
        *_QUIET,
        "--write-json" if writes_json else "--no-write-json",
    ]
    with (
        _ONE_AT_A_TIME,
        _environment(session.url),
        _value_free_errors() as troubles,
        _closed_pools(),
        _unsearched_flags(),
    ):
        outcome = dbtRunner(manifest=manifest).invoke(command)
    if outcome.exception is not None and not isinstance(outcome.exception, Exception):
        raise outcome.exception
    return Invocation(outcome.result, outcome.exception, troubles)


def broken_project(error: BaseException, subject: str) -> SluiceError:
    """The error for a dbt that refused the project; its own message names the file."""
    text = "\n".join(line.strip() for line in str(error).strip().splitlines() if line.strip())
    return ConfigurationError(
        f"{subject}: {text[:2000]}; correct the dbt project and run again", code="dbt_project"
    )


def visible_environment(url: str) -> dict[str, str]:
    """The variables that dbt and a project's `env_var` see in a session with this URL."""
    seen = {name: value for name, value in os.environ.items() if not _is_hidden(name)}
    return seen | _own_environment(url)


def _own_environment(url: str) -> dict[str, str]:
    return {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "PGOPTIONS": session_options(url)}


def _is_hidden(name: str) -> bool:
    return (name.startswith("DBT_") and not name.startswith(_KEPT_PREFIXES)) or name == "PGOPTIONS"


@contextmanager
def _environment(url: str) -> Iterator[None]:
    """The environment of one invocation: no DBT_ variable of the user changes what is built."""
    hidden = {name: value for name, value in os.environ.items() if _is_hidden(name)}
    for name in hidden:
        del os.environ[name]
    own = _own_environment(url)
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)
        os.environ.update(hidden)


@contextmanager
def _value_free_errors() -> Iterator[dict[str, DatabaseTrouble]]:
    """Rewrites dbt's database errors while it runs; keeps them by connection name (a node's id)."""
    from dbt.adapters.exceptions import FailedToConnectError
    from dbt.adapters.postgres.connections import (
        PostgresConnectionManager as Manager,
    )
    from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

    troubles: dict[str, DatabaseTrouble] = {}
    original_handler, original_open = Manager.exception_handler, Manager.open

    @contextmanager
    def exception_handler(self: Any, sql: Any) -> Iterator[None]:
        try:
            with original_handler(self, sql):
                yield
        except (DbtDatabaseError, DbtRuntimeError) as error:
            cause = error.__cause__
            # Every error of psycopg2 carries its diagnostics, also when the server said nothing.
            if not hasattr(cause, "diag"):
                raise
            trouble = _describe(cause)
            connection = self.get_if_exists()
            troubles[str(connection.name if connection else "")] = trouble
            raise DbtDatabaseError(trouble.message) from None

    def open_connection(cls: Any, connection: Any) -> Any:
        try:
            return original_open.__func__(cls, connection)
        except FailedToConnectError as error:
            troubles[str(connection.name or "")] = describe_refusal(str(error))
            raise

    Manager.exception_handler = exception_handler
    Manager.open = classmethod(open_connection)
    try:
        yield troubles
    finally:
        Manager.exception_handler, Manager.open = original_handler, original_open


@contextmanager
def _closed_pools() -> Iterator[None]:
    """Ends the thread pools that dbt forgets when a node stops it early."""
    from dbt.task import runnable

    original = runnable.DbtThreadPool
    pools: list[Any] = []

    def make_pool(*arguments: Any, **options: Any) -> Any:
        pools.append(original(*arguments, **options))
        return pools[-1]

    runnable.DbtThreadPool = make_pool
    try:
        yield
    finally:
        runnable.DbtThreadPool = original
        for pool in pools:
            pool.terminate()


@contextmanager
def _unsearched_flags() -> Iterator[None]:
    """Tells dbt who declares its behaviour flags: it reads the source of every caller to find out.

    That is for an event that nobody sees here, and costs as much as running a small model.
    """
    from dbt_common.behavior_flags import BehaviorFlagRendered as Flag

    original = Flag.__dict__["_default_source"]
    Flag._default_source = staticmethod(lambda: "dbt")  # noqa: SLF001 - nothing public says it
    try:
        yield
    finally:
        Flag._default_source = original  # noqa: SLF001


def _describe(error: Any) -> DatabaseTrouble:
    lines = [line for line in str(error).splitlines() if line.startswith("LINE ")]
    hint = error.diag.message_hint
    return describe_trouble(
        error.pgcode,
        error.diag.message_primary,
        name=type(error).__name__,
        extra="\n".join([*lines, *([f"HINT: {hint}"] if hint else [])]),
    )
