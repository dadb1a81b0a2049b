"""What a failed load means: whether it may pass by itself, and a sentence without any row value.

Decided from the SQLSTATE, wherever in the chain of exceptions it is; dlt's own classes call
undefined functions transient and its messages quote rows, so neither is used. Unknown is permanent.
"""

from collections.abc import Iterator

from ingestion.errors import LoadError

_TRANSIENT_CLASSES = {
    "08": "the connection to the warehouse was lost",
    "53": "the warehouse is out of resources",
    "57": "the warehouse ended the session",
    "40": "the warehouse rolled the load back",
    "55": "a table was locked for too long",
}
_PERMANENT_STATES = {
    "42501": "the loading role lacks a right; prepare the warehouse again (sluice init)",
    "42P01": "a staging table is missing; prepare the warehouse again (sluice init)",
    "42703": "a staging column is missing; prepare the warehouse again (sluice init)",
    "28P01": "the warehouse refused the loading role's password; set the right one",
    "28000": "the warehouse refused the loading role's login; set the right one",
    "3D000": "the warehouse's database does not exist; set the right address",
    "53100": "the warehouse's disk is full; make room",
}
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
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, LoadError):
            return link
    state = next(filter(None, map(_sqlstate, chain)), None)
    if state:
        return _from_sqlstate(state)
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if names.intersection(_CONTRACT):
        return LoadError(
            "rows do not fit the declared staging schema; compare the contract with staging",
            code="load_contract",
        )
    if names.intersection(_UNREACHABLE):
        return LoadError(
            "the warehouse cannot be reached; see whether it runs, then run again",
            code="load_unavailable",
            transient=True,
        )
    innermost = type(chain[-1]).__name__
    return LoadError(
        f"the load failed inside the loader ({innermost}); report this as a defect",
        code="load_failed",
    )


def _from_sqlstate(state: str) -> LoadError:
    if words := _PERMANENT_STATES.get(state):
        return LoadError(f"{words} (SQLSTATE {state})", code="load_refused", sqlstate=state)
    if words := _TRANSIENT_CLASSES.get(state[:2]):
        code = "load_conflict" if state[:2] in ("40", "55") else "load_unavailable"
        return LoadError(
            f"{words} (SQLSTATE {state}); run again", code=code, transient=True, sqlstate=state
        )
    return LoadError(
        f"the warehouse refused the rows (SQLSTATE {state}); look the code up and compare the "
        "contract with the staging table",
        code="load_refused",
        sqlstate=state,
    )


def _sqlstate(error: BaseException) -> str | None:
    for name in ("sqlstate", "pgcode"):
        state = getattr(error, name, None)
        if isinstance(state, str) and len(state.strip("\0")) == 5:
            return state
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
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
            link.__cause__,
            link.__context__,
        )
        waiting += [inner for inner in wrapped if isinstance(inner, BaseException)]
