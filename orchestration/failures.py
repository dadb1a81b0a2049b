"""The one place that turns any exception into a kind of failure: transient or permanent, and whose.

Table-driven by SQLSTATE and by the error classes of `ingestion`. What nobody knows is permanent and
internal. Messages are rebuilt, so that no row value (Postgres DETAIL) passes through.
"""

import psycopg

from ingestion.errors import IngestionConfigurationError, IngestionError, LoadError
from orchestration.errors import (
    ConfigurationError,
    DestinationFailure,
    FailureKind,
    InternalError,
    SluiceError,
    SourceFailure,
)

# Classes and codes of SQLSTATE after which the same statement may succeed untouched.
TRANSIENT_SQLSTATES = ("08", "40", "53", "55P03", "57P01", "57P02", "57P03", "57014", "25P03")
_ADVICE = "if it stays away, look at the server's log and run: sluice check"


def is_transient_sqlstate(sqlstate: str | None) -> bool:
    """Connection lost, conflict, resources short, lock not available, server shutting down."""
    return sqlstate is not None and sqlstate.startswith(TRANSIENT_SQLSTATES)


def classify(error: BaseException) -> SluiceError:  # noqa: PLR0911 - one line for each kind
    """The failure that this exception is; a `SluiceError` is its own answer."""
    match error:
        case SluiceError():
            return error
        case IngestionConfigurationError():
            return ConfigurationError(error.message, code=error.code)
        case LoadError():
            return DestinationFailure(error.message, code=error.code, transient=error.transient)
        case IngestionError():
            return SourceFailure(error.message, code=error.code, transient=error.transient)
        case psycopg.Error():
            return classify_database(error)
        case OSError():
            return DestinationFailure(
                f"the operating system refused: {error.strerror or type(error).__name__}; "
                "check disk space and permissions, then run the same command again",
                code="os_error",
            )
        case _:
            return InternalError(
                f"an unexpected {type(error).__name__} stopped the stage; the log names the place. "
                "Report it, and run the same command again once it is understood",
                code="unexpected_" + FailureKind.INTERNAL,
            )


def classify_database(error: psycopg.Error) -> DestinationFailure:
    """A failure of the warehouse, by SQLSTATE; an error without one is a lost connection."""
    sqlstate = error.sqlstate
    if sqlstate is None and isinstance(error, psycopg.OperationalError):
        return DestinationFailure(
            f"the warehouse is out of reach; {_ADVICE}",
            code="warehouse_unreachable",
            transient=True,
        )
    primary = error.diag.message_primary or type(error).__name__
    return DestinationFailure(
        f"the warehouse refused ({sqlstate}): {primary}; {_ADVICE}",
        code=f"sqlstate_{sqlstate}",
        transient=is_transient_sqlstate(sqlstate),
    )
