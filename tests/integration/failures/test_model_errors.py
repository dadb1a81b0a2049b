"""Models that dbt cannot build, made to happen, and what they are taken for."""

from collections.abc import Callable, Sequence

import pytest
from failure_words import in_words

from orchestration.errors import SluiceError
from orchestration.failures import classify
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.plan import BuildPlan

Build = Callable[..., BuildPlan]


def read(source: str, what: str = "*") -> dict[str, str]:
    """One model that reads a source."""
    return {"m": f"select {what} from {{{{ source('shop', '{source}') }}}}"}


BROKEN = {"m": "select from from"}
NO_REF = {"m": "select * from {{ ref('nobody') }}"}
RAISES = {"m": "{{ exceptions.raise_compiler_error('no') if execute }}"}

# the models → kind, code, transient, exit code
CASES: list[tuple[str, dict[str, str], str]] = [
    ("syntax error", BROKEN, "transform sqlstate_42601 permanent 12"),
    ("missing relation", read("nothing"), "transform sqlstate_42p01 permanent 12"),
    ("missing column", read("secret", "c"), "transform sqlstate_42703 permanent 12"),
    ("missing right", read("locked"), "transform sqlstate_42501 permanent 12"),
    ("missing function", read("secret", "f(a)"), "transform sqlstate_42883 permanent 12"),
    ("division by zero", {"m": "select 1 / 0 as a"}, "transform sqlstate_22012 permanent 12"),
    ("no number", read("secret", "a::int"), "transform sqlstate_22p02 permanent 12"),
    ("killed backend", read("die"), "destination warehouse_unreachable transient 13"),
    ("unknown ref", NO_REF, "configuration dbt_project permanent 78"),
    ("macro raises", RAISES, "configuration dbt_project permanent 78"),
    ("one of each", read("die") | {"n": "select 1 / 0 as a"}, "transform sqlstate_22012 permanent 12"),
]  # fmt: skip


@pytest.mark.parametrize(("models", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_model_that_fails_is_classified_and_tells_no_value(
    build: Build, models: dict[str, str], expected: str
) -> None:
    with pytest.raises(SluiceError) as caught:
        build(models)
    assert in_words(classify(caught.value)) == expected
    assert "eve@" not in caught.value.message


def test_a_statement_that_takes_too_long_is_transient(build: Build) -> None:
    with pytest.raises(SluiceError) as caught:
        build(read("sleep"), statement_timeout="300ms")
    assert in_words(caught.value) == "transform sqlstate_57014 transient 12"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("sluice_transformer", "nobody"), "configuration sqlstate_28000 permanent 78"),
        (("/test_", "/nowhere_"), "configuration sqlstate_3d000 permanent 78"),
        (("host=", "host=/nowhere&x="), "destination warehouse_unreachable transient 13"),
    ],
)
def test_dbt_without_a_connection_is_told_apart(
    warehouse: Warehouse, build: Build, change: tuple[str, str], expected: str
) -> None:
    url = warehouse.url(Role.TRANSFORMER).replace(*change)
    if "x=" in url:
        url = url.partition("?")[0] + "?host=/nowhere"
    with pytest.raises(SluiceError) as caught:
        build({"m": "select 1 as a"}, url)
    assert in_words(caught.value) == expected


def test_only_the_models_that_failed_are_built_again(warehouse: Warehouse, build: Build) -> None:
    tables: list[set[tuple[str, int]]] = []
    codes: list[list[str]] = []

    def built() -> set[tuple[str, int]]:
        with warehouse.connect() as owner:
            rows = owner.execute(
                "select relname, oid::int from pg_class where relnamespace = 'store'::regnamespace "
                "and relkind = 'r'"
            ).fetchall()
        return {(row[0].partition("__")[0], row[1]) for row in rows}

    def repair(tries: int, failures: Sequence[SluiceError]) -> bool:
        tables.append(built())
        codes.append([failure.code for failure in failures])
        with warehouse.connect() as owner:
            owner.execute(
                "create or replace view live.shop__die as select 'x'::text as a, ''::text as b"
            )
        return tries == 1

    plan = build(
        read("die") | {"n": "select 1 as a", "after": "select a from {{ ref('m') }}"}, again=repair
    )
    assert {planned.model for planned in plan.build} == {"m", "n", "after"}
    assert codes == [["warehouse_unreachable"]]
    assert [name for name, _ in tables[0]] == ["n"]
    assert tables[0] < built()
    assert {name for name, _ in built()} == {"m", "n", "after"}


def test_nothing_is_built_again_while_something_permanent_is_wrong(build: Build) -> None:
    asked: list[int] = []

    def ask(tries: int, _failures: Sequence[SluiceError]) -> bool:
        asked.append(tries)
        return True

    with pytest.raises(SluiceError):
        build(read("die") | {"n": "select 1 / 0 as a"}, again=ask)
    assert asked == []
