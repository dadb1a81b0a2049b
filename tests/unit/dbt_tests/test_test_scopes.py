"""How much a data test looks at, by what it is and by what it says of itself."""

import shutil
from pathlib import Path

import pytest

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.data_tests import chosen_tests
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.test_reads import TestNode as Node
from orchestration.warehouse.dbt.test_reads import TestScope as Scope
from orchestration.warehouse.dbt.test_reads import read_test

PROJECT = Path(__file__).parents[3] / "dbt_project"
URL = "postgresql://nobody@localhost/nothing"
SELECT = (
    "+fct_flights",
    "+fct_weather_hourly",
    "+agg_carrier_daily",
    "+dim_carrier",
    "+dim_airport",
)

# In front of the columns of the first model, which is fct_flights.
MORE = """
    data_tests:
      - unique:
          name: few_may_be_twice
          arguments: {column_name: flight_key}
          config: {error_if: '> 10'}
      - unique:
          name: some_are_unique
          arguments: {column_name: flight_key}
          config: {where: not is_cancelled}
      - unique:
          name: an_expression_is_unique
          arguments: {column_name: lower(flight_key)}
      - relationships:
          name: refers_to_itself
          arguments: {column_name: flight_key, to: ref('fct_flights'), field: flight_key}
      - relationships:
          name: refers_to_a_source
          arguments: {column_name: carrier_code, to: "source('flights', 'airlines')", field: carrier}
      - relationships:
          name: refers_to_weather
          arguments: {column_name: carrier_code, to: ref('fct_weather_hourly'), field: origin_airport_code}
      - accepted_values:
          name: only_the_first_failures
          arguments: {column_name: origin_airport_code, values: [EWR]}
          config: {limit: 5}
    columns:
"""
SINGULAR = {
    "says_nothing": "select 1 from {{ ref('fct_flights') }} where false",
    "speaks_of_now": "{{ config(meta={'scope': 'changed'}) }}\n"
    "select 1 from {{ ref('fct_flights') }} where flight_date > now()",
    "asks_the_warehouse": "{{ config(meta={'scope': 'changed'}) }}\n"
    "select 1 from {{ ref('fct_flights') }} where {{ run_query('select 1') }} is null",
    "reads_by_name": "{{ config(meta={'scope': 'changed'}) }}\n"
    "select 1 from {{ ref('fct_flights') }} join live.flights__planes on false",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> ProjectGraph:
    folder = tmp_path_factory.mktemp("dbt")
    generated = shutil.ignore_patterns("target", "logs", "profiles.yml")
    shutil.copytree(PROJECT, folder / "project", ignore=generated)
    models = folder / "project/models/marts/flights/_flights__models.yml"
    models.write_text(models.read_text().replace("\n    columns:\n", MORE, 1))
    for name, text in SINGULAR.items():
        (folder / "project/tests" / f"{name}.sql").write_text(text)
    return load_graph(DbtSession(folder / "project", folder / "work", URL), SELECT)


@pytest.fixture(scope="module")
def tests(graph: ProjectGraph) -> dict[str, Node]:
    """All tests of the graph by name."""
    chosen = chosen_tests(graph, {model.name: model.name for model in graph.models})
    return {graph.manifest.nodes[one].name: read_test(graph, one) for one in chosen}


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("not_null_fct_flights_flight_key", Scope.CHANGED),
        ("flights_leave_from_new_york", Scope.CHANGED),
        ("flights_have_a_known_carrier", Scope.CHANGED),
        ("source_whole_number_flights_flights_dep_delay", Scope.CHANGED),
        ("carrier_days_account_for_every_flight", Scope.CHANGED),
        ("staged_flights_have_one_row_per_flight", Scope.CHANGED),
        ("unique_fct_flights_flight_key", Scope.KEYS),
        ("some_are_unique", Scope.KEYS),
        ("weather_has_one_row_per_origin_and_hour", Scope.KEYS),
        ("unique_dim_airport_airport_code", Scope.ALL),
        ("few_may_be_twice", Scope.ALL),
        ("an_expression_is_unique", Scope.ALL),
        ("refers_to_itself", Scope.ALL),
        ("refers_to_a_source", Scope.CHANGED),
        ("refers_to_weather", Scope.CHANGED),
        ("only_the_first_failures", Scope.ALL),
        ("says_nothing", Scope.ALL),
        ("asks_the_warehouse", Scope.ALL),
    ],
)
def test_a_test_looks_at_everything_unless_it_is_known_to_need_less(
    tests: dict[str, Node], name: str, scope: Scope
) -> None:
    assert tests[name].scope is scope


@pytest.mark.parametrize(
    ("name", "entire"),
    [
        ("flights_have_a_known_carrier", {"dim_carrier"}),
        ("refers_to_weather", {"fct_weather_hourly"}),
        ("refers_to_a_source", {"flights.airlines"}),
        ("carrier_days_account_for_every_flight", set()),
    ],
)
def test_what_a_foreign_key_refers_to_is_read_as_a_whole(
    tests: dict[str, Node], name: str, entire: set[str]
) -> None:
    assert tests[name].entire == entire


def test_what_no_digest_can_see_is_tested_every_time(graph: ProjectGraph) -> None:
    by_name = {node.name: one for one, node in graph.manifest.nodes.items()}
    code = {
        "speaks_of_now": 'select 1 from "sluice"."model"."fct_flights" where flight_date > now()',
        "reads_by_name": 'select 1 from "sluice"."model"."fct_flights" '
        "join live.flights__planes on false",
    }
    for name, hidden in (("speaks_of_now", "now"), ("reads_by_name", "live.flights__planes")):
        compiled = read_test(graph, by_name[name]).with_code(code[name])
        assert (compiled.scope, compiled.hidden) == (Scope.ALL, (hidden,))
    assert read_test(graph, by_name["asks_the_warehouse"]).hidden == ("run_query",)


def test_a_scope_that_nobody_knows_is_refused(graph: ProjectGraph) -> None:
    [unknown] = [one for one, node in graph.manifest.nodes.items() if node.name == "says_nothing"]
    manifest = graph.manifest.deepcopy()
    manifest.nodes[unknown].config.meta = {"scope": "tonight"}
    with pytest.raises(ConfigurationError, match="write one of changed, keys, all"):
        read_test(ProjectGraph(graph.models, {}, manifest), unknown)
