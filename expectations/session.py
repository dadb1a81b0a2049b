"""One Great Expectations context per process and read-only sessions on the warehouse.

Nothing is written, sent or shown: transactions are read-only, no temporary tables, no telemetry,
no progress bars, and neither library may log statements, which would carry values.
"""

import logging
import os
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from psycopg import sql

from expectations.deferred import deferred_imports
from expectations.failures import EvaluationFailedError, describe_database_error
from expectations.verdict import EvaluationError

_MALFORMED_URL = EvaluationError(
    "connection",
    "the connection URL is malformed; write postgresql://user@host/database",
    transient=False,
)
_LOADING = threading.Lock()
_NO_ROWS = sql.SQL("select * from ({}) as no_rows limit 0")
# The second sets a level of its own, which the first would not overrule.
_LOGGERS = ("great_expectations", "great_expectations.data_context.types.base", "sqlalchemy")


def load_great_expectations() -> Any:
    """Import Great Expectations (seconds) with telemetry off and give its one context."""
    with _LOADING:
        return _load()


def begin_loading() -> None:
    """Does that in a thread, while this one waits for something else.

    What goes wrong there goes wrong again, and is told, where the context is needed.
    """

    def load() -> None:
        with suppress(Exception):
            load_great_expectations()

    # No daemon: frozen in the middle of an import, it would keep others from importing at exit.
    threading.Thread(target=load, name="loading").start()


@cache
def _load() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # Not ours to repair. The filter stays: taking it back would undo those of other threads.
    warnings.filterwarnings("ignore", "module 'sre_", DeprecationWarning)
    with deferred_imports():
        import great_expectations as gx
    with _silent():
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
    return context


@dataclass(slots=True)
class Session:
    """A datasource of the context and its engine, with every database error that it met."""

    context: Any
    datasource: Any
    engine: Any
    errors: list[EvaluationError] = field(default_factory=list)
    row_queries: list[str] = field(default_factory=list)

    def query(self, statement: sql.Composable) -> list[tuple[Any, ...]]:
        """Rows of one statement, outside of Great Expectations."""
        from sqlalchemy import text

        with self.engine.connect() as connection:
            rows = connection.execute(text(statement.as_string(None)))
            return [tuple(row) for row in rows]

    def columns(self, source: sql.Composable) -> list[str]:
        """Column names of what stands after `from`; reads no row."""
        from sqlalchemy import text

        statement = sql.SQL("select * from {} limit 0").format(source).as_string(None)
        with self.engine.connect() as connection:
            return list(connection.execute(text(statement)).keys())


@contextmanager
def open_session(
    connection_url: str,
    *,
    search_path: str,
    settings: Mapping[str, str],
    statement_timeout_s: float,
) -> Iterator[Session]:
    """Connect; on leaving, the connection is closed and the datasource forgotten.

    Raises EvaluationFailedError when no connection can be made.
    """
    context = load_great_expectations()
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.datasource.fluent.interfaces import TestConnectionError
    from sqlalchemy import event

    url, options = _split_options(connection_url)
    wanted = {
        "search_path": f'"{search_path}"',
        "statement_timeout": str(int(statement_timeout_s * 1000)),
        **settings,
        "default_transaction_read_only": "on",
    }
    if "application_name=" not in options:
        wanted["application_name"] = "sluice-gate"
    arguments = {
        "connect_timeout": 10,
        "options": " ".join([options, *(_option(*item) for item in wanted.items())]).strip(),
    }
    name = f"warehouse-{uuid.uuid4().hex}"
    with _silent():
        try:
            datasource = context.data_sources.add_postgres(
                name,
                connection_string=url,
                create_temp_table=False,
                kwargs={"connect_args": arguments, "pool_size": 1, "max_overflow": 0},
            )
        except ValidationError:
            raise EvaluationFailedError(_MALFORMED_URL) from None
        except TestConnectionError as error:
            raise EvaluationFailedError(describe_database_error(error)) from None
        session = Session(context, datasource, datasource.get_execution_engine().engine)
        event.listen(session.engine, "handle_error", _recorder(session))
        event.listen(session.engine, "before_cursor_execute", _row_keeper(session), retval=True)
        try:
            yield session
        finally:
            session.engine.dispose()
            datasource.get_engine().dispose()
            context.data_sources.delete(name)


def _split_options(connection_url: str) -> tuple[str, str]:
    """The URL as Great Expectations accepts it, and libpq's `options` taken out of it.

    It insists on a host and takes a bare `$` for a template; SQLAlchemy writes `$` as %24.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(connection_url).set(drivername="postgresql+psycopg2")
    except ArgumentError:
        raise EvaluationFailedError(_MALFORMED_URL) from None
    options = url.query.get("options", "")
    url = url.difference_update_query(["options"])
    if not url.host:
        url = url.set(host="localhost")
    found = options if isinstance(options, str) else " ".join(options)
    return url.render_as_string(hide_password=False), found


def _option(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"-c {name}={escaped}"


def _recorder(session: Session) -> Any:
    def record(failure: Any) -> None:
        session.errors.append(describe_database_error(failure.original_exception))

    return record


def _row_keeper(session: Session) -> Any:
    """Great Expectations reads whole results to learn columns or to show rows; keep them there."""

    def cut(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        plain = statement.replace("%%", "%").lstrip()
        if any(plain.startswith(start) for start in session.row_queries):
            statement = _NO_ROWS.format(sql.SQL(statement)).as_string(None)
        return statement, parameters

    return cut


@contextmanager
def _silent() -> Iterator[None]:
    """Mute both libraries: they log statements with their parameters and whole tracebacks."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
