"""Which kind of failure a database error of a model is, and what of it may be told.

SQLSTATE alone decides, by the table that everything shares; what it does not know is a permanent
failure of the transformation. Messages carry no row values.
"""

from dataclasses import dataclass

from orchestration.errors import FailureKind, SluiceError
from orchestration.failures.kinds import make_failure
from orchestration.failures.logins import read_refusal
from orchestration.failures.sqlstates import AUTHOR_ADVICE, CONNECTION_LOST, ruling, sqlstate_code
from orchestration.failures.wording import speak


@dataclass(frozen=True)
class DatabaseTrouble:
    """One error of the warehouse, fit to be shown: SQLSTATE and a message without row values."""

    sqlstate: str
    message: str


def classify_sqlstate(sqlstate: str) -> tuple[FailureKind, bool]:
    """(kind, transient) of a SQLSTATE; unknown ones are permanent transformation failures."""
    rule = ruling(sqlstate)
    return rule.kind or FailureKind.TRANSFORM, rule.transient


def describe_trouble(
    sqlstate: str | None, primary: str | None, *, name: str, extra: str = ""
) -> DatabaseTrouble:
    """What may be told of an error whose condition is called `name` (psycopg's class name).

    `sqlstate` None means that the connection was lost before the server could say anything.
    """
    if sqlstate is None:
        return DatabaseTrouble(CONNECTION_LOST, "the connection to the warehouse was lost")
    told = speak(sqlstate, primary, name)
    if extra and sqlstate.startswith("42"):
        told = f"{told}\n{extra}"
    return DatabaseTrouble(sqlstate, told)


def describe_refusal(text: str) -> DatabaseTrouble:
    """What libpq's message for a connection that was not made comes to."""
    sqlstate, words = read_refusal(text)
    return DatabaseTrouble(sqlstate, words)


def failure_of(trouble: DatabaseTrouble, subject: str) -> SluiceError:
    """The error to raise for `trouble`; `subject` says what was being built."""
    rule = ruling(trouble.sqlstate)
    kind = rule.kind or FailureKind.TRANSFORM
    advice = rule.advice or AUTHOR_ADVICE[FailureKind.TRANSFORM]
    code = sqlstate_code(trouble.sqlstate)
    message = f"{subject}: {trouble.message} (SQLSTATE {trouble.sqlstate}); {advice}"
    return make_failure(kind, message, code=code, transient=rule.transient)
