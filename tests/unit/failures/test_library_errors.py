"""Exceptions of libraries that reach the classifier as they are."""

import warnings
from importlib import import_module

import adbc_driver_postgresql.dbapi
import psycopg2
import pytest
import sqlalchemy
from failure_words import in_words

from orchestration.errors import Busy
from orchestration.failures import classify
from orchestration.failures.libraries import TABLE, WRAPPERS, library_names

CLOSED = "postgresql://x:y@127.0.0.1:9/x"
MODULES = {
    "httpx": ["httpx"],
    "dlt": ["dlt.common.exceptions", "dlt.destinations.exceptions"],
    "dbt": ["dbt.adapters.exceptions"],
    "dbt_common": ["dbt_common.exceptions"],
    "adbc_driver_manager": ["adbc_driver_manager"],
    "great_expectations": ["great_expectations.exceptions"],
}


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Great Expectations uses deprecated modules while it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("great_expectations")


@pytest.mark.parametrize("name", TABLE)
def test_every_class_of_the_table_exists_under_that_name(name: str) -> None:
    package, _, short = name.partition(".")
    found = [getattr(import_module(module), short, None) for module in MODULES[package]]
    [kind] = [known for known in found if known is not None]
    assert library_names(kind.__new__(kind))[0] == name


def test_every_wrapper_can_be_imported() -> None:
    for package in WRAPPERS:
        assert import_module(package)


def test_a_wrapped_refusal_is_found_wherever_it_is() -> None:
    unreachable = "destination warehouse_unreachable transient 13"
    engine = sqlalchemy.create_engine(CLOSED.replace("postgresql:", "postgresql+psycopg2:"))
    with pytest.raises(sqlalchemy.exc.OperationalError) as by_sqlalchemy:
        engine.connect()
    assert in_words(classify(by_sqlalchemy.value)) == unreachable
    with pytest.raises(psycopg2.OperationalError) as by_psycopg2:
        psycopg2.connect(CLOSED)
    assert in_words(classify(by_psycopg2.value)) == unreachable


def test_adbc_without_a_connection_is_transient() -> None:
    with pytest.raises(Exception, match="refused") as caught:
        adbc_driver_postgresql.dbapi.connect(CLOSED)
    assert classify(caught.value).transient


def test_dbt_and_great_expectations_as_they_raise() -> None:
    from dbt_common.exceptions import CompilationError, DbtDatabaseError
    from great_expectations.exceptions import MetricResolutionError

    texts = {
        CompilationError("eve@example.org"): "configuration dbt_project permanent 78",
        DbtDatabaseError("eve@example.org"): "transform model_failed permanent 12",
        MetricResolutionError("eve@example.org", ()): "configuration suite_error permanent 78",
    }
    for error, expected in texts.items():
        failure = classify(error)
        assert in_words(failure) == expected
        assert "eve" not in failure.message


def test_an_error_that_only_happened_during_another_is_not_taken_for_it() -> None:
    try:
        try:
            psycopg2.connect(CLOSED)
        except psycopg2.OperationalError:
            raise KeyError("eve@example.org")  # noqa: B904 - that is the case
    except KeyError as error:
        failure = classify(error)
    assert in_words(failure) == "internal unexpected_internal permanent 70"
    assert "eve" not in failure.message


def test_an_error_of_sluice_is_its_own_answer() -> None:
    busy = Busy("somebody works on it; wait")
    assert classify(busy) is busy
