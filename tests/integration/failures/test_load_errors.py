"""Loads that fail in dlt and ADBC, made to happen through ingestion, and what they are taken for."""

from collections.abc import Callable

import pytest
from failure_words import in_words

from ingestion import load as loading
from ingestion.errors import LoadError
from orchestration.failures import classify
from orchestration.warehouse.connections import Role, Warehouse

Load = Callable[..., None]

DIE = """
create function public.die() returns trigger language plpgsql as $$
begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5); return null; end $$;
create trigger die before insert on staging.flights__airlines execute function public.die()
"""
CALL_NOTHING = """
create function public.call() returns trigger language plpgsql as $$
begin perform no_such_function(); return null; end $$;
create trigger call before insert on staging.flights__airlines execute function public.call()
"""
CONFLICT = """
create function public.conflict() returns trigger language plpgsql as $$
begin raise exception 'no' using errcode = 'serialization_failure'; end $$;
create trigger conflict before insert on staging.flights__airlines
execute function public.conflict()
"""
AIRLINES = "staging.flights__airlines"
REVOKE = f"revoke insert on {AIRLINES} from sluice_extractor"
DROP = f"drop table {AIRLINES} cascade"
DROP_COLUMN = f"alter table {AIRLINES} drop column name cascade"
CHECK = f"alter table {AIRLINES} add check (carrier = '')"

# what was done to the warehouse → kind, code, transient, exit code
CASES: list[tuple[str, str, str]] = [
    ("right revoked", REVOKE, "destination load_refused permanent 13"),
    ("table dropped", DROP, "destination load_refused permanent 13"),
    ("column dropped", DROP_COLUMN, "destination load_refused permanent 13"),
    ("check added", CHECK, "destination load_refused permanent 13"),
    ("backend terminated", DIE, "destination load_unavailable transient 13"),
    ("conflict", CONFLICT, "destination load_conflict transient 13"),
]  # fmt: skip

# where it was loaded to → kind, code, transient, exit code
PLACES: list[tuple[str, str]] = [
    ("postgresql://x:y@127.0.0.1:9/nowhere", "destination load_unavailable transient 13"),
    ("postgresql://x:y@nowhere.invalid/nowhere", "destination load_unavailable transient 13"),
]


@pytest.mark.parametrize(("spoil", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_load_that_fails_is_classified_and_quotes_no_row(
    warehouse: Warehouse, load: Load, spoil: str, expected: str
) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(spoil)
    with pytest.raises(LoadError) as caught:
        load()
    failure = classify(caught.value)
    assert in_words(failure) == expected
    for value in ("Endeavor", "Failing row", "DETAIL", "COPY"):
        assert value not in failure.message


@pytest.mark.parametrize(("place", "expected"), PLACES)
def test_a_warehouse_that_is_not_there_may_come_back(load: Load, place: str, expected: str) -> None:
    with pytest.raises(LoadError) as caught:
        load(place)
    assert in_words(classify(caught.value)) == expected


@pytest.mark.parametrize(
    ("login", "place"), [("nobody", None), ("sluice_store", None), (None, "nowhere")]
)
def test_a_refused_login_is_a_matter_of_configuration(
    warehouse: Warehouse, load: Load, login: str | None, place: str | None
) -> None:
    url = warehouse.bulk_url(Role.EXTRACTOR)
    url = url.replace("sluice_extractor", login or "sluice_extractor")
    url = url.replace(warehouse.database, place or warehouse.database)
    with pytest.raises(LoadError) as caught:
        load(url)
    assert in_words(classify(caught.value)) == "configuration load_refused permanent 78"


def test_a_full_disk_of_this_machine_is_permanent_and_says_so(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> int:
        with open("/dev/full", "wb", buffering=0) as file:  # noqa: PTH123
            return file.write(b"x") or 0

    monkeypatch.setattr(loading, "_write_parquet", write)
    with pytest.raises(LoadError) as caught:
        load()
    assert in_words(classify(caught.value)) == "destination load_disk_full permanent 13"


def test_dlt_is_not_believed_when_it_calls_a_permanent_error_transient(
    warehouse: Warehouse, load: Load
) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(CALL_NOTHING)
    with pytest.raises(LoadError) as caught:
        load()
    assert (caught.value.sqlstate, caught.value.transient) == ("42883", False)
