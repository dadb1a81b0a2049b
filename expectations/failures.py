"""Tells a database that cannot answer from data that is bad, in words that hold no data.

The message is built from the SQLSTATE; Postgres' own words are kept only in the classes whose
words are about names. DETAIL, statements, parameters and connection strings are never read.
"""

from typing import Any

from psycopg import errors

from expectations.verdict import EvaluationError


class EvaluationFailedError(Exception):
    """The evaluation broke off; `error` says why."""

    def __init__(self, error: EvaluationError) -> None:
        self.error = error
        super().__init__(error.message)


# 25006 is missing: sessions are read-only here, so a suite tried to write.
_TRANSIENT = ("08", "25P03", "25P04", "40", "53", "55006", "55P03", "57", "72")
# Constraint at commit, disk full, limit of the settings, database dropped: nothing that passes.
_PERMANENT = frozenset({"40002", "53100", "53400", "57P04"})
_NAMES_ONLY_CLASSES = ("3D", "3F", "42")

# libpq reports a refused login without an SQLSTATE.
_REFUSED = (
    "authentication failed",
    "certificate verify failed",
    "configuration parameter",
    "does not exist",
    "does not support SSL",
    "for parameter",
    "no password supplied",
    "not permitted to log in",
    "permission denied",
    "pg_hba.conf",
    "root certificate file",
    "server certificate for",
)


def describe_database_error(error: BaseException) -> EvaluationError:
    """Classify a psycopg2 error, bare or at the bottom of what other libraries raised from it."""
    original: Any = _innermost(error)
    code: str | None = getattr(original, "pgcode", None)
    if code is None:
        return _without_code(original)
    if code.startswith(_NAMES_ONLY_CLASSES):
        message = f"{original.diag.message_primary}; correct the suite or the model"
    else:
        message = f"the database answered {_condition(code)}"
        message += "; try again" if _is_transient(code) else "; see the server's log"
    return EvaluationError(code, f"{message} [{code}]", _is_transient(code))


def _innermost(error: BaseException) -> BaseException:
    while True:
        cause = getattr(error, "orig", None) or error.__cause__ or error.__context__
        if cause is None or hasattr(error, "pgcode"):
            return error
        error = cause


def _without_code(original: Any) -> EvaluationError:
    text = str(original)
    kinds = {kind.__name__ for kind in type(original).__mro__}
    if "OperationalError" in kinds and any(word in text for word in _REFUSED):
        message = "the database refused the login; check the role, the database and the secret"
        return EvaluationError("connection", message, transient=False)
    if kinds & {"OperationalError", "InterfaceError"} or (
        "DatabaseError" in kinds and "connection" in text
    ):
        message = "the connection to the database was lost or could not be made; try again"
        return EvaluationError("connection", message, transient=True)
    message = f"the database client failed ({type(original).__name__}); check the connection URL"
    return EvaluationError("evaluation", message, transient=False)


def _is_transient(code: str) -> bool:
    return code.startswith(_TRANSIENT) and code not in _PERMANENT


def _condition(code: str) -> str:
    try:
        return errors.lookup(code).__name__
    except KeyError:
        return "an error"
