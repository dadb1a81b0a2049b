"""What a library's exception means that carries neither SQLSTATE nor errno, by its class.

Classes are known by name, so that nothing heavy is imported to classify. The texts of these
exceptions may quote rows or secrets and are never told.
"""

from dataclasses import dataclass

from orchestration.errors import FailureKind, SluiceError
from orchestration.failures.kinds import make_failure


@dataclass(frozen=True, slots=True)
class LibraryRuling:
    """The verdict on a class and what derives from it."""

    kind: FailureKind
    transient: bool
    code: str
    advice: str


_SOURCE_AWAY = "run the same command again once the source answers"
_URL = "correct the address and the token of the source in the environment"
_WAREHOUSE = "run the same command again once the warehouse answers"
_REPORT = "the log names the place; report it"

# `package.Class`, the most special one first.
TABLE: dict[str, LibraryRuling] = {
    "httpx.TimeoutException": LibraryRuling(
        FailureKind.SOURCE, True, "source_timeout", _SOURCE_AWAY
    ),
    "httpx.UnsupportedProtocol": LibraryRuling(
        FailureKind.CONFIGURATION, False, "source_not_configured", _URL
    ),
    "httpx.LocalProtocolError": LibraryRuling(
        FailureKind.CONFIGURATION, False, "source_not_configured", _URL
    ),
    "httpx.InvalidURL": LibraryRuling(
        FailureKind.CONFIGURATION, False, "source_not_configured", _URL
    ),
    "httpx.TooManyRedirects": LibraryRuling(FailureKind.SOURCE, False, "source_redirects", _URL),
    "httpx.TransportError": LibraryRuling(
        FailureKind.SOURCE, True, "source_unavailable", _SOURCE_AWAY
    ),
    "httpx.DecodingError": LibraryRuling(
        FailureKind.SOURCE, True, "source_truncated", _SOURCE_AWAY
    ),
    "dlt.DestinationConnectionError": LibraryRuling(
        FailureKind.DESTINATION, True, "load_unavailable", _WAREHOUSE
    ),
    "dlt.DltException": LibraryRuling(FailureKind.DESTINATION, False, "load_failed", _REPORT),
    "adbc_driver_manager.Error": LibraryRuling(
        FailureKind.DESTINATION, False, "load_failed", _REPORT
    ),
    "dbt.FailedToConnectError": LibraryRuling(
        FailureKind.DESTINATION, True, "warehouse_unreachable", _WAREHOUSE
    ),
    "dbt_common.DbtDatabaseError": LibraryRuling(
        FailureKind.TRANSFORM, False, "model_failed", "correct the model and run again"
    ),
    "dbt_common.DbtBaseException": LibraryRuling(
        FailureKind.CONFIGURATION, False, "dbt_project", "run: sluice check"
    ),
    "great_expectations.GreatExpectationsError": LibraryRuling(
        FailureKind.CONFIGURATION, False, "suite_error", "run: sluice check"
    ),
}

# Their exceptions wrap the database's own, which decides where it can be found.
WRAPPERS = frozenset(
    {"adbc_driver_manager", "dbt", "dbt_common", "dlt", "great_expectations", "psycopg2"}
    | {"sqlalchemy"}
)


def library_names(error: BaseException) -> list[str]:
    """`package.Class` of the exception and of what it derives from, most special first."""
    return [f"{_package(kind)}.{kind.__name__}" for kind in type(error).__mro__]


def is_wrapper(error: BaseException) -> bool:
    """Whether it comes from a library that wraps errors of the database."""
    return _package(type(error)) in WRAPPERS


def classify_library(error: BaseException) -> SluiceError | None:
    """The failure that a known class means; None for an unknown one."""
    found = next((TABLE[name] for name in library_names(error) if name in TABLE), None)
    if found is None:
        return None
    message = f"{library_names(error)[0]} stopped the stage; {found.advice}"
    return make_failure(found.kind, message, code=found.code, transient=found.transient)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]
