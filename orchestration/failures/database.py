"""Failures of the database: by SQLSTATE, or by libpq's words where a connection was not made.

`author` is whose statement it was: DESTINATION stands for Sluice itself, TRANSFORM for a model,
CONFIGURATION for a suite.
"""

import re

import psycopg
from psycopg import errors as conditions

from orchestration.errors import FailureKind, LeaseLost, SluiceError
from orchestration.failures.kinds import make_failure
from orchestration.failures.logins import read_refusal
from orchestration.failures.sqlstates import AUTHOR_ADVICE, LEASE_LOST, ruling, sqlstate_code
from orchestration.failures.wording import speak

_LOGIN_ADVICE = "correct SLUICE_WAREHOUSE_URL or the server, then run the same command again"
_LEASE = re.compile(r"lease (\S+) is no longer held")


def classify_database(
    error: psycopg.Error, author: FailureKind = FailureKind.DESTINATION
) -> SluiceError:
    """The failure that an error of psycopg is."""
    if error.sqlstate is not None:
        return classify_sqlstate(error.sqlstate, error.diag.message_primary, author)
    if isinstance(error, psycopg.OperationalError):
        return classify_lost_connection(str(error))
    return make_failure(
        FailureKind.INTERNAL,
        f"the database client refused what it was given ({type(error).__name__}); the log names "
        "the place. Report it",
        code="database_client",
        transient=False,
    )


def classify_sqlstate(
    sqlstate: str, primary: str | None, author: FailureKind = FailureKind.DESTINATION
) -> SluiceError:
    """The failure that a SQLSTATE is; `primary` is the server's primary message."""
    if sqlstate == LEASE_LOST:
        found = _LEASE.search(primary or "")
        return LeaseLost(found.group(1) if found else "unknown")
    rule = ruling(sqlstate)
    told = speak(sqlstate, primary, condition(sqlstate))
    advice = rule.advice or AUTHOR_ADVICE[author]
    return make_failure(
        rule.kind or author,
        f"the warehouse refused ({sqlstate}): {told}; {advice}",
        code=sqlstate_code(sqlstate),
        transient=rule.transient,
    )


def classify_lost_connection(text: str) -> SluiceError:
    """The failure behind a connection that was not made, or lost before the server spoke."""
    sqlstate, words = read_refusal(text)
    rule = ruling(sqlstate)
    return make_failure(
        rule.kind or FailureKind.CONFIGURATION,
        f"{words}; {rule.advice or _LOGIN_ADVICE}",
        code=sqlstate_code(sqlstate),
        transient=rule.transient,
    )


def condition(sqlstate: str) -> str:
    """psycopg's name of a SQLSTATE, such as UniqueViolation."""
    try:
        return conditions.lookup(sqlstate).__name__
    except KeyError:
        return "an unknown error"
