import pytest

from ingestion.errors import LoadError
from ingestion.load_errors import as_load_error


class StateError(Exception):
    def __init__(self, state: str) -> None:
        super().__init__("DETAIL: Failing row contains (ada@crew.example)")
        self.sqlstate = state


class WrapperError(Exception):
    def __init__(self, inner: BaseException) -> None:
        super().__init__(f"failed with {inner}")
        self.client_exception = inner


@pytest.mark.parametrize(
    ("state", "code", "transient"),
    [
        ("08006", "load_unavailable", True),
        ("53300", "load_unavailable", True),
        ("53100", "load_refused", False),
        ("57P01", "load_unavailable", True),
        ("40P01", "load_conflict", True),
        ("55P03", "load_conflict", True),
        ("42501", "load_refused", False),
        ("42P01", "load_refused", False),
        ("42601", "load_refused", False),
        ("42883", "load_refused", False),
        ("23502", "load_refused", False),
        ("22021", "load_refused", False),
    ],
)
def test_the_sqlstate_decides_wherever_it_is_in_the_chain(
    state: str, code: str, transient: bool
) -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = WrapperError(StateError(state))
    error = as_load_error(outer)
    assert (error.code, error.transient, error.sqlstate) == (code, transient, state)
    assert "crew.example" not in str(error)


def test_what_nobody_knows_is_permanent_and_quotes_nothing() -> None:
    error = as_load_error(ValueError("row (ada@crew.example)"))
    assert (error.code, error.transient) == ("load_failed", False)
    assert "crew.example" not in str(error)


def test_a_load_error_inside_is_taken_as_it_is() -> None:
    inner = LoadError("x", code="load_spool_missing", transient=True)
    assert as_load_error(WrapperError(inner)) is inner
