"""From versions, partitions and models to where they came from and where readers see them."""

from typing import Any

import pytest
from segment_tables import Segment

from orchestration.errors import ConfigurationError
from orchestration.pipelines.shape_changes import AllowedShapeChange
from orchestration.publication.lineage import trace
from orchestration.publication.shape_rules import Allowed
from orchestration.warehouse.connections import Role, Warehouse

DAYS = [f"2013-01-0{day}" for day in range(1, 4)]
WEATHER = {f"flights.weather/{day}": 1 for day in DAYS}


def days(names: list[str], number: int) -> Segment:
    return Segment(
        f"select {number} as number, d as _partition from unnest(array{names}::text[]) d, "
        "generate_series(1, 2)",
        tuple(names),
    )


def lineage(warehouse: Warehouse, item: str) -> dict[str, Any]:
    """As the command asks: read-only, as the role of the gate."""
    with warehouse.connect(
        Role.GATE, autocommit=True, default_transaction_read_only="on"
    ) as connection:
        return trace(connection, item)


def refusal(warehouse: Warehouse, item: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        lineage(warehouse, item)
    return caught.value.code


def views(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["view"], item["partition"]) for item in found["published"]]


def test_a_version_is_traced_from_requests_to_views(flights: Any, warehouse: Warehouse) -> None:
    version = flights.build(
        {"fct": [days(DAYS[:2], 1), days(DAYS[2:], 1)], "dim": "select 1 as one"},
        {**WEATHER, "flights.airlines/snapshot": 4},
    )
    with warehouse.connect() as owner:
        owner.execute(
            "insert into staging.flights__weather (origin, _artifact_id, _partition, _run_id, "
            "_source_ref) select 'EWR', artifact_id, partition, run_id, '/v1/weather?day=1#7' "
            "from ops.artifacts where window_name = %s",
            [DAYS[0]],
        )
    [traced] = lineage(warehouse, version)["versions"]
    assert (traced["version_id"], traced["published"]) == (version, False)
    assert {model["view"] for model in traced["models"]} == {None}
    assert [item["source_ref"] for item in traced["artifacts"]] == [
        *(None, "/v1/weather?day=1"),
        *(None, None),
    ]
    flights.publish(version)
    [traced] = lineage(warehouse, version)["versions"]
    whole, parts = traced["models"]
    assert (whole["view"], parts["view"]) == ("analytics.dim", "analytics.fct")
    assert whole["segments"] == []
    assert len(whole["artifacts"]) == 4
    # What comes as a snapshot is in every row; of the days each partition has its own.
    assert parts["artifacts"] == ["flights.airlines/snapshot@4"]
    assert sorted(
        [(item["partition"], item["rows"], item["artifacts"]) for item in segment["partitions"]]
        for segment in parts["segments"]
    ) == [
        [(day, 2, [f"flights.weather/{day}@1"]) for day in DAYS[:2]],
        [(DAYS[2], 2, [f"flights.weather/{DAYS[2]}@1"])],
    ]


def test_a_model_is_traced_in_the_version_that_readers_see(
    flights: Any, weather: Any, warehouse: Warehouse
) -> None:
    first = flights.build({"fct": [days(DAYS, 1)], "other": "select 1 as one"}, WEATHER)
    flights.publish(first)
    flights.build({"fct": [days(DAYS, 2)]}, WEATHER)
    weather.publish(weather.build({"hours": "select 1 as one"}, {"demo.hours/2013-01-01": 1}))
    [traced] = lineage(warehouse, "fct")["versions"]
    assert traced["version_id"] == first
    assert [model["model"] for model in traced["models"]] == ["fct"]
    assert {item["resource"] for item in traced["artifacts"]} == {"flights.weather"}
    [traced] = lineage(warehouse, "hours")["versions"]
    assert (traced["pipeline"], traced["models"][0]["view"]) == ("weather", "analytics.hours")


def test_a_correction_leads_to_the_version_that_shows_it_and_the_old_day_to_the_old_one(
    flights: Any, warehouse: Warehouse
) -> None:
    first = flights.build({"fct": [days(DAYS, 1)]}, WEATHER)
    flights.publish(first)
    corrected = {**WEATHER, f"flights.weather/{DAYS[1]}": 2}
    second = flights.build({"fct": [days(DAYS, 1), days([DAYS[1]], 5)]}, corrected)
    flights.publish(second)
    window = f"flights.weather/{DAYS[1]}"
    found = lineage(warehouse, window)
    assert [item["partition"] for item in found["artifacts"]] == [f"{window}@1", f"{window}@2"]
    assert [version["version_id"] for version in found["versions"]] == [second, first]
    assert views(found) == [("analytics.fct", f"{window}@2")]
    [new], [old] = (version["models"] for version in found["versions"])
    assert new["segment"] != old["segment"]
    assert (new["partitions"], new["rows"], old["rows"]) == ([DAYS[1]], 2, 2)
    assert views(lineage(warehouse, f"{window}@1")) == []
    flights.rollback()
    assert views(lineage(warehouse, f"{window}@1")) == [("analytics.fct", f"{window}@1")]
    assert views(lineage(warehouse, f"{window}@2")) == []


def test_a_snapshot_is_in_the_whole_of_every_model_that_reads_it(
    flights: Any, warehouse: Warehouse
) -> None:
    parts = {**WEATHER, "flights.airlines/snapshot": 4}
    flights.publish(flights.build({"fct": [days(DAYS, 1)], "dim": "select 1 as one"}, parts))
    [version] = lineage(warehouse, "flights.airlines/snapshot")["versions"]
    assert [
        (model["model"], model["segment"], model["partitions"]) for model in version["models"]
    ] == [
        ("dim", None, None),
        ("fct", None, None),
    ]


def test_what_goes_through_a_whole_table_is_in_every_partition(
    flights: Any, warehouse: Warehouse
) -> None:
    version = flights.build(
        {"fct": [days(DAYS, 1)], "prices": "select 1 as one"},
        {**WEATHER, "demo.prices/2013-01-02": 1},
    )
    with warehouse.connect() as owner:
        owner.execute(
            "update ops.version_models set resources = array[case model when 'fct' then "
            "'flights.weather' else 'demo.prices' end], parents = case model when 'fct' then "
            "array['prices'] else '{}' end"
        )
    flights.publish(version)
    found = lineage(warehouse, "demo.prices/2013-01-02")
    [fct, prices] = found["versions"][0]["models"]
    assert (fct["model"], fct["segment"], fct["rows"]) == ("fct", None, 0)
    assert views(found) == [
        ("analytics.fct", "demo.prices/2013-01-02@1"),
        ("analytics.prices", "demo.prices/2013-01-02@1"),
    ]
    [version] = lineage(warehouse, "fct")["versions"]
    [model] = version["models"]
    assert model["artifacts"] == ["demo.prices/2013-01-02@1"]
    assert model["resources"] == ["demo.prices", "flights.weather"]
    assert prices["partitions"] is None


def test_a_withdrawn_model_is_not_said_to_be_seen(flights: Any, warehouse: Warehouse) -> None:
    both = flights.build({"fct": "select 1 as one", "dim": "select 2 as two"})
    flights.publish(both)
    allowed = Allowed((AllowedShapeChange(withdraw="dim", reason="agreed"),))
    flights.publish(flights.build({"fct": "select 3 as one"}), allowed=allowed)
    flights.rollback(both)
    [version] = lineage(warehouse, both)["versions"]
    assert {model["model"]: model["view"] for model in version["models"]} == {
        "dim": None,
        "fct": "analytics.fct",
    }


def test_what_is_not_there_is_refused_with_what_to_write(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build({"fct": [days(DAYS, 1)]}, WEATHER))
    for item in ("v_0000", "no_such_model", "flights.weather/1999-01-01", "flights.weather/x@y"):
        assert refusal(warehouse, item) == "unknown_item"
    assert refusal(warehouse, f"flights.weather/{DAYS[0]}@9") == "unknown_item"
