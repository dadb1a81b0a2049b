import hashlib
import hmac

import pytest

from ingestion.errors import IngestionConfigurationError
from ingestion.redaction import Redactor, read_key
from ingestion.sources import get_resource

FLIGHTS = get_resource("flights.flights").contract
WEATHER = get_resource("flights.weather").contract


@pytest.mark.parametrize("key", [b"k", b"k" * 64, b"k" * 65, b"\xff\x00" * 300])
def test_a_pseudonym_is_the_keyed_hash_of_the_value(key: bytes) -> None:
    record = {"crew_email": "ada@crew.example", "flight": 1}
    assert Redactor(FLIGHTS, key).redact([record]) == {}
    expected = hmac.new(key, b"ada@crew.example", hashlib.sha256).hexdigest()[:32]
    assert record == {"flight": 1, "crew_pseudonym": expected}


def test_another_key_gives_another_pseudonym_and_the_same_key_the_same() -> None:
    records = [{"crew_email": "ada@crew.example"} for _ in range(3)]
    for record, key in zip(records, (b"one", b"one", b"two"), strict=True):
        Redactor(FLIGHTS, key).redact([record])
    assert records[0] == records[1] != records[2]


@pytest.mark.parametrize("value", [None, 1, ["a@b"], {"a": "a@b"}, True])
def test_a_sensitive_value_of_another_type_is_removed_too(value: object) -> None:
    record = {"crew_email": value}
    (problem,) = Redactor(FLIGHTS, b"k").redact(["x", record]).items()
    assert (problem[0], problem[1][0].name, problem[1][1]) == (1, "crew_email", "string_type")
    assert record == {}


def test_a_missing_key_is_a_configuration_error_that_says_what_to_set() -> None:
    for environ in ({}, {"SLUICE_PSEUDONYM_KEY": ""}):
        with pytest.raises(IngestionConfigurationError, match="SLUICE_PSEUDONYM_KEY") as caught:
            read_key(FLIGHTS, environ)
        assert caught.value.code == "pseudonym_key_missing"


def test_a_contract_without_pseudonyms_needs_no_key() -> None:
    assert read_key(WEATHER, {}) == b""
