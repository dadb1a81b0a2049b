"""Keys and plans over graphs made by hand: what enters a key, what does not, what is refused."""

import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from orchestration.errors import ConfigurationError, FailureKind
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.failures import classify_sqlstate, describe_trouble, failure_of
from orchestration.warehouse.dbt.graph import ModelNode, OutsideModel, ProjectGraph
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.plan import BuildPlan, plan_build, relation_name

SOURCE = '"sluice"."source"."shop__orders"'


def node(name: str, code: str, *parents: str, **changes: Any) -> ModelNode:
    settings: dict[str, Any] = {"kind": "table", "materialized": "versioned", "resources": ()}
    return ModelNode(
        name=name,
        unique_id=f"model.shop.{name}",
        path=f"models/{name}.sql",
        parents=parents,
        compiled_code=code,
        **(settings | changes),
    )


STG = node(
    "stg",
    f"select a from {SOURCE}",
    kind="view",
    materialized="view",
    resources=("shop.orders",),
)
FCT = node("fct", 'select a from "sluice"."model"."stg"', "stg")
AGG = node("agg", 'select count(*) as n from "sluice"."model"."fct"', "fct")
RPT = node("rpt", 'select n from "sluice"."model"."agg"', "agg", kind="view", materialized="view")
GRAPH = ProjectGraph((STG, FCT, AGG, RPT))
DATA = {"shop.orders": "1" * 64}


def changed(model: ModelNode, **changes: Any) -> set[str]:
    """The models whose content key differs after the change of one."""
    edited = ProjectGraph(
        tuple(replace(m, **changes) if m.name == model.name else m for m in GRAPH.models)
    )
    before, after = compute_keys(GRAPH, DATA), compute_keys(edited, DATA)
    return {name for name in before if before[name].content_key != after[name].content_key}


def test_keys_are_64_hex_digits_and_the_same_everywhere() -> None:
    keys = compute_keys(GRAPH, DATA)
    assert keys == compute_keys(GRAPH, DATA)
    for key in keys.values():
        assert len(key.content_key) == len(key.definition_key) == 64
        int(key.content_key, 16)


@pytest.mark.parametrize(
    "changes",
    [
        {"compiled_code": 'select a + 1 as a from "sluice"."model"."stg"'},
        {"config": {"indexes": [{"columns": ["a"]}]}},
        {"contract": (["a", "bigint", False, []],)},
        {"build_macros": ("other",)},
        {"depends_on_moment": ("now",)},
    ],
)
def test_what_changes_stored_bytes_changes_the_key_of_all_that_follows(
    changes: Mapping[str, Any],
) -> None:
    assert changed(FCT, **changes) == {"fct", "agg", "rpt"}


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "other words"},
        {"path": "models/elsewhere/fct.sql"},
        {"group": "others"},
        {"config": {"tags": ["x"], "meta": {"owner": "y"}, "docs": {"show": False}}},
        {"config": {"grants": {"select": ["z"]}, "persist_docs": {"relation": True}}},
        {"compiled_code": 'SELECT a -- note\nFROM "sluice"."model"."stg"'},
        {"unique_id": "model.renamed_project.fct"},
        {"jinja": (("models/fct.sql", "select a from {{ ref('stg') }}"),)},
    ],
)
def test_words_places_and_layout_change_no_key(changes: Mapping[str, Any]) -> None:
    assert changed(FCT, **changes) == set()


def test_new_data_changes_every_content_key_and_no_definition() -> None:
    before, after = compute_keys(GRAPH, DATA), compute_keys(GRAPH, {"shop.orders": "2" * 64})
    for name in before:
        assert before[name].content_key != after[name].content_key
        assert before[name].definition_key == after[name].definition_key


def test_a_new_column_of_a_source_changes_what_reads_it() -> None:
    before, after = (compute_keys(GRAPH, DATA, {"shop.orders": shape}) for shape in ("1", "2"))
    assert before["stg"].definition_key != after["stg"].definition_key
    assert before["fct"].definition_key == after["fct"].definition_key
    assert before["fct"].content_key != after["fct"].content_key


def test_a_resource_without_a_checksum_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"shop\.orders"):
        compute_keys(GRAPH, {})


def test_a_model_of_another_pipeline_enters_by_its_published_key() -> None:
    reader = node("reader", 'select a from "sluice"."model"."theirs"', outside=("theirs",))
    keys = [
        compute_keys(ProjectGraph((reader,), {"theirs": OutsideModel("theirs__1", key)}), {})
        for key in ("1" * 64, "2" * 64)
    ]
    assert keys[0]["reader"].content_key != keys[1]["reader"].content_key


class Store:
    def __init__(self) -> None:
        self.adopted: dict[str, str] = {}

    def lookup(self, keys: Collection[str]) -> Mapping[str, str]:
        return {key: self.adopted[key] for key in keys if key in self.adopted}

    def build(self, graph: ProjectGraph, data: Mapping[str, str], attempt: str) -> BuildPlan:
        plan = plan_build(graph, compute_keys(graph, data), attempt, self.lookup)
        self.adopted |= {planned.store_key: planned.relation_name for planned in plan.build}
        return plan


def test_a_plan_builds_what_has_no_relation_and_reuses_the_rest() -> None:
    store = Store()
    first = store.build(GRAPH, DATA, "one")
    assert [planned.model for planned in first.build] == ["stg", "fct", "agg", "rpt"]
    second = store.build(GRAPH, DATA, "two")
    assert second.build == ()
    assert second.relations == first.relations
    third = store.build(GRAPH, {"shop.orders": "2" * 64}, "three")
    assert [planned.model for planned in third.build] == ["fct", "agg", "rpt"]
    assert [planned.model for planned in third.reuse] == ["stg"]
    assert store.build(GRAPH, DATA, "four").relations == first.relations


def test_two_attempts_never_share_a_name_and_every_name_fits() -> None:
    assert relation_name("m", "k", "one") != relation_name("m", "k", "two")
    assert len((relation_name("m" * 40, "k", "one") + "__dbt_tmp").encode()) <= 63


@pytest.mark.parametrize(
    ("code", "token"),
    [
        ("select now()", "now"),
        ("select pg_catalog.now ()", "now"),
        ("select CURRENT_DATE", "current_date"),
        ("select a from t where b > current_timestamp", "current_timestamp"),
        ("select gen_random_uuid()", "gen_random_uuid"),
        ("select random()", "random"),
        ("select age(b)", "age"),
        ("select 'now'::timestamptz", "now"),
        ("select date 'today'", "today"),
        ("select nextval('s')", "nextval"),
        ("select current_setting('x')", "current_setting"),
        ("select current_user", "current_user"),
        ('select * from "sluice"."model"."stg" tablesample system (1)', "tablesample"),
    ],
)
def test_what_depends_on_the_moment_is_refused_unless_it_is_declared(code: str, token: str) -> None:
    model = node("m", code.replace("from t", f"from {SOURCE}"))
    with pytest.raises(ConfigurationError, match=rf"m \(models/m.sql\).*'{token}'"):
        check_models(ProjectGraph((model,)))
    check_models(ProjectGraph((replace(model, depends_on_moment=(token,)),)))


@pytest.mark.parametrize(
    "text",
    [
        "{{ run_started_at }}",
        "{% if execute %}{{ run_query('x') }}{% endif %}",
        "{% call statement('x') %}select 1{% endcall %}",
        "{{ invocation_id }}",
        "{{ modules.datetime.datetime.now() }}",
    ],
)
def test_jinja_that_depends_on_the_moment_is_refused_where_it_stands(text: str) -> None:
    model = node("m", "select 1 as a", jinja=(("macros/clock.sql", text),))
    with pytest.raises(ConfigurationError, match=r"macros/clock\.sql"):
        check_models(ProjectGraph((model,)))


@pytest.mark.parametrize(
    "code",
    [
        "select known, random_seat, 'right now' as x, age(a, b) from {}",
        "with now_or_never as (select 1 as a) select a from now_or_never",
        "select g from generate_series(1, 3) as g",
        "select x.value from {} as t, jsonb_each(t.payload) as x",
        "select u from unnest(array[1, 2]) as u",
        "with recursive n as (select 1 as i union all select i + 1 from n) select i from n",
        "select a from {} as t cross join lateral (select t.a as b) as l",
        "select extract(day from a), trim(both ' ' from b), a is distinct from b from {}",
        "select a from (values (1), (2)) as v (a)",
    ],
)
def test_ordinary_sql_is_not_refused(code: str) -> None:
    check_models(ProjectGraph((node("m", code.format(SOURCE)),)))


@pytest.mark.parametrize(
    "code",
    [
        "select * from staging.shop__orders",
        "select * from analytics.fct_orders as f",
        "select a from {} join pg_catalog.pg_class as c on true",
        "select * from orders",
        'select (select max(a) from "other"."store"."x") as a',
        "with a as (select * from live.shop__orders) select * from a",
    ],
)
def test_a_table_read_by_name_is_refused(code: str) -> None:
    with pytest.raises(ConfigurationError, match="by name"):
        check_models(ProjectGraph((node("m", code.format(SOURCE)),)))


def test_a_published_view_that_reaches_live_is_refused_also_through_views() -> None:
    over_view = node(
        "top", 'select a from "sluice"."model"."stg"', "stg", kind="view", materialized="view"
    )
    graph = ProjectGraph((STG, FCT, AGG, RPT, over_view))
    check_models(graph, ["fct", "agg", "rpt"])
    for name in ("stg", "top"):
        with pytest.raises(ConfigurationError, match="bare view"):
            check_models(graph, [name])
    with pytest.raises(ConfigurationError, match="nobody"):
        check_models(graph, ["nobody"])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"materialized": "incremental"}, "incremental"),
        ({"materialized": "materialized_view"}, "materialized_view"),
        ({"config": {"pre-hook": [{"sql": "x"}]}}, "pre-hook"),
        ({"config": {"unlogged": True}}, "unlogged"),
        ({"config": {"sql_header": "set x = y"}}, "sql_header"),
        ({"config": {"indices": []}}, "indices"),
        ({"name": "m" * 41}, "40 bytes"),
    ],
)
def test_what_keeps_hidden_state_is_refused(changes: Mapping[str, Any], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        check_models(ProjectGraph((replace(node("m", "select 1 as a"), **changes),)))


@pytest.mark.parametrize(
    ("sqlstate", "kind", "transient"),
    [
        ("08006", FailureKind.DESTINATION, True),
        ("57P01", FailureKind.DESTINATION, True),
        ("53300", FailureKind.DESTINATION, True),
        ("53100", FailureKind.DESTINATION, False),
        ("40001", FailureKind.TRANSFORM, True),
        ("40P01", FailureKind.TRANSFORM, True),
        ("55P03", FailureKind.TRANSFORM, True),
        ("57014", FailureKind.TRANSFORM, True),
        ("28P01", FailureKind.CONFIGURATION, False),
        ("23505", FailureKind.TRANSFORM, False),
        ("42703", FailureKind.TRANSFORM, False),
        ("ZZ999", FailureKind.TRANSFORM, False),
    ],
)
def test_a_sqlstate_decides_kind_and_retry(
    sqlstate: str, kind: FailureKind, transient: bool
) -> None:
    assert classify_sqlstate(sqlstate) == (kind, transient)
    failure = failure_of(describe_trouble(sqlstate, "x", name="Y"), "m (models/m.sql)")
    assert (failure.kind, failure.transient) == (kind, transient)


@pytest.mark.parametrize(
    ("sqlstate", "primary"),
    [
        ("22P02", 'invalid input syntax for type integer: "eve@example.org"'),
        ("22008", 'date/time field value out of range: "eve@example.org"'),
        ("22003", 'value "eve@example.org" is out of range for type integer'),
        ("P0001", "eve@example.org is not welcome"),
        ("XX000", "unexpected eve@example.org"),
    ],
)
def test_no_row_value_is_told(sqlstate: str, primary: str) -> None:
    assert "eve" not in describe_trouble(sqlstate, primary, name="SomeError").message


def test_computing_keys_does_not_import_dbt() -> None:
    code = (
        "import sys, orchestration.warehouse.dbt.keys, orchestration.warehouse.store, "
        "orchestration.warehouse.dbt.project, orchestration.warehouse.dbt.data_tests; "
        "sys.exit(any(name in sys.modules for name in ('dbt', 'sqlglot', 'jinja2')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
