"""What a failed load means: whether it may pass by itself, and a sentence without any row value.

Decided from the SQLSTATE, wherever in the chain of exceptions it is, or from the errno; dlt's own
classes call undefined functions transient and its messages quote rows, so neither is used. Unknown
is permanent.
"""

import errno
import re
from collections.abc import Iterator

from ingestion.errors import LoadError

_TRANSIENT = {
    "08": "the connection to the warehouse was lost",
    "25006": "the warehouse is read-only for now",
    "25P03": "the warehouse ended a session that was idle",
    "25P04": "the warehouse ended a transaction that took too long",
    "40": "the warehouse rolled the load back",
    "53": "the warehouse is out of resources",
    "55006": "a table was in use",
    "55P03": "a table was locked for too long",
    "57": "the warehouse ended the session",
    "72": "the warehouse's snapshot was too old",
}
_CONFLICTS = ("40", "55")
_PERMANENT = {
    "28000": "the warehouse refused the loading role's login; set the right one",
    "28P01": "the warehouse refused the loading role's password; set the right one",
    "3D000": "the warehouse's database does not exist; set the right address",
    "40002": "a constraint refused the load at its end; compare the contract with staging",
    "42501": "the loading role lacks a right; prepare the warehouse again (sluice init)",
    "42703": "a staging column is missing; prepare the warehouse again (sluice init)",
    "42P01": "a staging table is missing; prepare the warehouse again (sluice init)",
    "53100": "the warehouse's disk is full; make room",
    "53400": "a limit of the warehouse's settings was reached; raise it (temp_file_limit, …)",
    "57P04": "somebody dropped the warehouse's database; set the right address",
}
# What libpq says when it is refused; drivers give no SQLSTATE then.
_REFUSALS = (
    ("password authentication failed|no password supplied", "28P01"),
    ("pg_hba.conf|authentication failed|not permitted to log in|role .* does not exist", "28000"),
    ("certificate verify failed|server certificate for|root certificate file", "28000"),
    ("does not support SSL", "28000"),
    ("database .* does not exist", "3D000"),
    ("permission denied for database", "42501"),
    ("(set|configuration|for) parameter", "42704"),
)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNREACHABLE = ("OperationalError", "DestinationConnectionError", "InterfaceError")
_CONTRACT = ("DataValidationError", "SchemaFrozenException", "SchemaException")


def driver_missing() -> LoadError:
    """The ADBC driver is not installed."""
    return LoadError(
        "the package adbc-driver-postgresql is missing or broken; install the locked requirements",
        code="load_driver_missing",
    )


def as_load_error(error: BaseException) -> LoadError:
    """The `LoadError` that any exception of dlt, ADBC or psycopg2 means."""
    chain = list(chain_of(error))
    for link in chain:
        if isinstance(link, LoadError):
            return link
    state = next(filter(None, map(sqlstate_of, chain)), None)
    if state:
        return _from_sqlstate(state)
    if any(isinstance(link, OSError) and link.errno in _DISK_FULL for link in chain):
        return LoadError(
            "this machine's disk is full; free space below SLUICE_HOME and run again",
            code="load_disk_full",
        )
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if names.intersection(_CONTRACT):
        return LoadError(
            "rows do not fit the declared staging schema; compare the contract with staging",
            code="load_contract",
        )
    if names.intersection(_UNREACHABLE):
        return _without_sqlstate(" ".join(map(str, chain)))
    innermost = type(chain[-1]).__name__
    return LoadError(
        f"the load failed inside the loader ({innermost}); report this as a defect",
        code="load_failed",
    )


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it wraps, outermost first."""
    waiting, seen = [error], set()
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        wrapped = (
            getattr(link, "exception", None),
            getattr(link, "client_exception", None),
            getattr(link, "dbapi_exception", None),
            getattr(link, "orig", None),
            link.__cause__,
            link.__context__,
        )
        waiting += [inner for inner in wrapped if isinstance(inner, BaseException)]


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE that an exception of psycopg, psycopg2 or ADBC carries."""
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state.strip("\0")) == 5:
            return state
    return None


def _from_sqlstate(state: str) -> LoadError:
    if words := _PERMANENT.get(state):
        return LoadError(f"{words} (SQLSTATE {state})", code="load_refused", sqlstate=state)
    if words := _TRANSIENT.get(state) or _TRANSIENT.get(state[:2]):
        code = "load_conflict" if state.startswith(_CONFLICTS) else "load_unavailable"
        return LoadError(
            f"{words} (SQLSTATE {state}); run again", code=code, transient=True, sqlstate=state
        )
    return LoadError(
        f"the warehouse refused the rows (SQLSTATE {state}); look the code up and compare the "
        "contract with the staging table",
        code="load_refused",
        sqlstate=state,
    )


def _without_sqlstate(text: str) -> LoadError:
    for pattern, state in _REFUSALS:
        if re.search(pattern, text):
            return _from_sqlstate(state)
    return LoadError(
        "the warehouse cannot be reached; see whether it runs, then run again",
        code="load_unavailable",
        transient=True,
    )
