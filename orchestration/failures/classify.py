"""The failure that an exception is, whichever library raised it.

Messages are rebuilt from the tables: no row value, secret, path or statement passes through.
"""

from typing import Any

import psycopg

from ingestion.errors import IngestionConfigurationError, IngestionError, LoadError, SourceError
from ingestion.load_errors import chain_of, sqlstate_of
from orchestration.errors import (
    ConfigurationError,
    FailureKind,
    InternalError,
    SluiceError,
    SourceFailure,
)
from orchestration.failures.database import (
    classify_database,
    classify_lost_connection,
    classify_sqlstate,
)
from orchestration.failures.kinds import make_failure
from orchestration.failures.libraries import classify_library, is_wrapper
from orchestration.failures.sqlstates import ruling
from orchestration.failures.systems import classify_system

_NO_CONNECTION = ("OperationalError", "InterfaceError")


def classify(error: BaseException) -> SluiceError:
    """The failure that this exception is; a `SluiceError` is its own answer."""
    match error:
        case SluiceError():
            return error
        case IngestionError():
            return _classify_ingestion(error)
        case psycopg.Error():
            return classify_database(error)
        case OSError():
            return classify_system(error)
        case _:
            return _classify_wrapped(error) or classify_library(error) or _unknown(error)


def _classify_ingestion(error: IngestionError) -> SluiceError:
    match error:
        case IngestionConfigurationError():
            return ConfigurationError(error.message, code=error.code)
        case LoadError(sqlstate=state):
            owner = ruling(state).kind if state else None
            return make_failure(
                owner or FailureKind.DESTINATION,
                error.message,
                code=error.code,
                transient=error.transient,
            )
        case SourceError(retry_after=wait):
            return SourceFailure(
                error.message, code=error.code, transient=error.transient, retry_after=wait
            )
        case _:
            return SourceFailure(error.message, code=error.code, transient=error.transient)


def _classify_wrapped(error: BaseException) -> SluiceError | None:
    """The database's own error inside one of SQLAlchemy, dlt, dbt or Great Expectations."""
    if not is_wrapper(error):
        return None
    chain = list(chain_of(error))
    for link in chain:
        if state := sqlstate_of(link):
            diagnostics: Any = getattr(link, "diag", None)
            return classify_sqlstate(state, getattr(diagnostics, "message_primary", None))
    for link in reversed(chain):
        if type(link).__name__ in _NO_CONNECTION:
            return classify_lost_connection(str(link))
    return None


def _unknown(error: BaseException) -> InternalError:
    return InternalError(
        f"an unexpected {type(error).__name__} stopped the stage; the log names the place. "
        "Report it, and run the same command again once it is understood",
        code="unexpected_" + FailureKind.INTERNAL,
    )
