"""Which kind of failure a database error is, and what of it may be told.

The table decides from SQLSTATE alone; what it does not know is a permanent failure of the
transformation. Messages carry no row values: Postgres puts them into DETAIL, and into the primary
message of data exceptions.
"""

import re
from dataclasses import dataclass

from orchestration.errors import (
    ConfigurationError,
    DestinationFailure,
    FailureKind,
    SluiceError,
    TransformFailure,
)

CONNECTION_LOST = "08006"

# The longest matching prefix decides: (kind, transient, what to do).
_CLASSES: dict[str, tuple[FailureKind, bool, str]] = {
    "08": (FailureKind.DESTINATION, True, "run the same command again once the warehouse answers"),
    "25006": (
        FailureKind.DESTINATION,
        True,
        "the warehouse is read-only: run again after its failover",
    ),
    "25P03": (FailureKind.TRANSFORM, True, "run the same command again"),
    "28": (FailureKind.CONFIGURATION, False, "check SLUICE_WAREHOUSE_URL and SLUICE_ROLES_SECRET"),
    "3D": (FailureKind.CONFIGURATION, False, "check the database in SLUICE_WAREHOUSE_URL"),
    "40": (FailureKind.TRANSFORM, True, "run the same command again"),
    "53": (FailureKind.DESTINATION, True, "give the warehouse more of it, or run again later"),
    "53100": (FailureKind.DESTINATION, False, "free disk space on the warehouse and run again"),
    "55006": (FailureKind.TRANSFORM, True, "run the same command again"),
    "55P03": (FailureKind.TRANSFORM, True, "run again once the other session has let go"),
    "57014": (FailureKind.TRANSFORM, True, "run again, or raise the time the model may take"),
    "57P": (FailureKind.DESTINATION, True, "run the same command again once the warehouse answers"),
    "58": (FailureKind.DESTINATION, False, "look into the log of the Postgres server"),
    "XX": (FailureKind.DESTINATION, False, "look into the log of the Postgres server"),
}
_UNKNOWN = (FailureKind.TRANSFORM, False, "correct the model and run again")

# Classes whose primary message names objects, never values.
_SPEAKING = (
    "08",
    "0A",
    "21",
    "23",
    "25",
    "28",
    "2B",
    "3D",
    "3F",
    "40",
    "42",
    "53",
    "54",
    "55",
    "57",
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


@dataclass(frozen=True)
class DatabaseTrouble:
    """One error of the warehouse, fit to be shown: SQLSTATE and a message without row values."""

    sqlstate: str
    message: str


def classify_sqlstate(sqlstate: str) -> tuple[FailureKind, bool]:
    """(kind, transient) of a SQLSTATE; unknown ones are permanent transformation failures."""
    kind, transient, _ = _entry(sqlstate)
    return kind, transient


def describe_trouble(
    sqlstate: str | None, primary: str | None, *, name: str, extra: str = ""
) -> DatabaseTrouble:
    """What may be told of an error whose condition is called `name` (psycopg's class name).

    `sqlstate` None means that the connection was lost before the server could say anything.
    """
    if sqlstate is None:
        return DatabaseTrouble(CONNECTION_LOST, "the connection to the warehouse was lost")
    text = " ".join((primary or "").split())
    if sqlstate.startswith("22"):
        text = _QUOTED.sub("…", text).partition(":")[0]
    elif not sqlstate.startswith(_SPEAKING):
        text = ""
    told = text or f"the warehouse reported {name}"
    if extra and sqlstate.startswith("42"):
        told = f"{told}\n{extra}"
    return DatabaseTrouble(sqlstate, told)


def failure_of(trouble: DatabaseTrouble, subject: str) -> SluiceError:
    """The error to raise for `trouble`; `subject` says what was being built."""
    kind, transient, advice = _entry(trouble.sqlstate)
    message = f"{subject}: {trouble.message} (SQLSTATE {trouble.sqlstate}); {advice}"
    code = f"sqlstate_{trouble.sqlstate.lower()}"
    match kind:
        case FailureKind.DESTINATION:
            return DestinationFailure(message, code=code, transient=transient)
        case FailureKind.CONFIGURATION:
            return ConfigurationError(message, code=code)
        case _:
            return TransformFailure(message, code=code, transient=transient)


def _entry(sqlstate: str) -> tuple[FailureKind, bool, str]:
    for length in (5, 3, 2):
        if (entry := _CLASSES.get(sqlstate[:length])) is not None:
            return entry
    return _UNKNOWN
