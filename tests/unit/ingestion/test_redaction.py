import hashlib
import hmac

import pytest

from ingestion.errors import IngestionConfigurationError
from ingestion.redaction import Redactor, read_key
from ingestion.sources import get_resource

FLIGHTS = get_resource("flights.flights").contract
WEATHER = get_resource("flights.weather").contract


def test_a_pseudonym_is_the_keyed_hash_of_the_value() -> None:
    record = {"crew_email": "ada@crew.example", "flight": 1}
    assert Redactor(FLIGHTS, b"secret").redact(record) is None
    expected = hmac.new(b"secret", b"ada@crew.example", hashlib.sha256).hexdigest()[:32]
    assert record == {"flight": 1, "crew_pseudonym": expected}


def test_another_key_gives_another_pseudonym_and_the_same_key_the_same() -> None:
    one, two = Redactor(FLIGHTS, b"one"), Redactor(FLIGHTS, b"two")
    assert one.pseudonym("a") == Redactor(FLIGHTS, b"one").pseudonym("a") != two.pseudonym("a")


@pytest.mark.parametrize("value", [None, 1, ["a@b"], {"a": "a@b"}, True])
def test_a_sensitive_value_of_another_type_is_removed_too(value: object) -> None:
    record = {"crew_email": value}
    problem = Redactor(FLIGHTS, b"k").redact(record)
    assert problem is not None
    assert (problem[0].name, problem[1]) == ("crew_email", "string_type")
    assert record == {}


def test_a_missing_key_is_a_configuration_error_that_says_what_to_set() -> None:
    for environ in ({}, {"SLUICE_PSEUDONYM_KEY": ""}):
        with pytest.raises(IngestionConfigurationError, match="SLUICE_PSEUDONYM_KEY") as caught:
            read_key(FLIGHTS, environ)
        assert caught.value.code == "pseudonym_key_missing"


def test_a_contract_without_pseudonyms_needs_no_key() -> None:
    assert read_key(WEATHER, {}) == b""
