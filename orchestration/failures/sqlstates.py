"""What each SQLSTATE means: whose failure it is, whether it may pass by itself, and what helps.

A code of five characters decides before its class of two; what the table does not know is a
permanent failure of whoever wrote the statement.
"""

from dataclasses import dataclass

from orchestration.errors import FailureKind

CONNECTION_LOST = "08006"
CANNOT_CONNECT = "08001"
LEASE_LOST = "SL001"

_AGAIN = "run the same command again"
_ONCE_BACK = "run the same command again once the warehouse answers"
_LOG = "look into the log of the Postgres server"
_LOGIN = "check SLUICE_WAREHOUSE_URL and SLUICE_ROLES_SECRET, then run: sluice init"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on one SQLSTATE.

    `kind` None: the failure belongs to the author of the statement, be it a model, a suite or
    Sluice itself. `advice` "" leaves it to the author's kind.
    """

    kind: FailureKind | None
    transient: bool
    advice: str = ""


UNKNOWN = Ruling(None, transient=False)

_AUTHOR_AGAIN = Ruling(None, transient=True, advice=_AGAIN)
_WAREHOUSE_BACK = Ruling(FailureKind.DESTINATION, transient=True, advice=_ONCE_BACK)
_WAREHOUSE_BROKEN = Ruling(FailureKind.DESTINATION, transient=False, advice=_LOG)
_LOGIN_REFUSED = Ruling(FailureKind.CONFIGURATION, transient=False, advice=_LOGIN)

TABLE: dict[str, Ruling] = {
    # Poolers report their own time-outs as a protocol violation, so all of class 08 may pass.
    "08": _WAREHOUSE_BACK,
    "25006": Ruling(
        FailureKind.DESTINATION,
        transient=True,
        advice="the warehouse is read-only; run the same command again after its failover",
    ),
    "25P03": _AUTHOR_AGAIN,
    "25P04": _AUTHOR_AGAIN,
    "28": _LOGIN_REFUSED,
    "3D": Ruling(
        FailureKind.CONFIGURATION,
        transient=False,
        advice="correct the database in SLUICE_WAREHOUSE_URL, or create it",
    ),
    "40": _AUTHOR_AGAIN,
    "40002": UNKNOWN,
    "42501": Ruling(
        None,
        transient=False,
        advice="grant the right (sluice init does, for what Sluice made), or stop asking for it",
    ),
    "53": Ruling(
        FailureKind.DESTINATION,
        transient=True,
        advice="give the warehouse more of it, or run the same command again later",
    ),
    "53100": Ruling(
        FailureKind.DESTINATION,
        transient=False,
        advice="free disk space on the warehouse, then run the same command again",
    ),
    "53400": Ruling(
        FailureKind.DESTINATION,
        transient=False,
        advice="raise the limit that the warehouse's settings or the role have (temp_file_limit, …)",
    ),
    "55006": _AUTHOR_AGAIN,
    "55P03": Ruling(
        None,
        transient=True,
        advice="run the same command again once the other session has let go",
    ),
    "57": _WAREHOUSE_BACK,
    "57014": Ruling(
        None, transient=True, advice="run the same command again, or raise the time it may take"
    ),
    "57P04": Ruling(
        FailureKind.CONFIGURATION,
        transient=False,
        advice="somebody dropped the database; correct SLUICE_WAREHOUSE_URL, or create it",
    ),
    "58": _WAREHOUSE_BROKEN,
    "72": _AUTHOR_AGAIN,
    "F0": _WAREHOUSE_BROKEN,
    "XX": _WAREHOUSE_BROKEN,
}

AUTHOR_ADVICE: dict[FailureKind, str] = {
    FailureKind.TRANSFORM: "correct the model and run again",
    FailureKind.CONFIGURATION: "correct the suite or the model it judges, then run the same "
    "command again",
    FailureKind.DESTINATION: "look into the log of the Postgres server and run: sluice check",
}


def ruling(sqlstate: str) -> Ruling:
    """The entry of the code, of its class, or `UNKNOWN`."""
    return TABLE.get(sqlstate) or TABLE.get(sqlstate[:2]) or UNKNOWN


def is_transient_sqlstate(sqlstate: str | None) -> bool:
    """Whether the same statement may succeed untouched; no SQLSTATE says nothing, so false."""
    return sqlstate is not None and ruling(sqlstate).transient


def sqlstate_code(sqlstate: str) -> str:
    """The error code of a SQLSTATE; a connection that is not there has a word for it."""
    if sqlstate in (CANNOT_CONNECT, CONNECTION_LOST):
        return "warehouse_unreachable"
    return f"sqlstate_{sqlstate.lower()}"
