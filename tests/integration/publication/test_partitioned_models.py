"""Models that are kept as segments: what readers see, and what keeps a version from being shown."""

from typing import Any

import psycopg
import pytest
from long_history import scans
from segment_tables import Segment

from orchestration.errors import DestinationFailure
from orchestration.identity import VersionId
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse

DAYS = [f"2013-01-{day:02}" for day in range(1, 5)]


def rows(days: list[str], number: int) -> Segment:
    """Two rows a day, with their day and a number."""
    return Segment(
        f"select d as day, {number} as number, i as id, d as _partition "
        f"from unnest(array{days}::text[]) d, generate_series(1, 2) i",
        tuple(days),
    )


def artifacts(days: list[str]) -> dict[str, int]:
    return {f"flights.weather/{day}": 1 for day in days}


def shown(flights: Any) -> dict[Any, Any]:
    return dict(flights.read("select day, sum(number) from analytics.fct group by day"))


@pytest.fixture
def partitioned(flights: Any) -> VersionId:
    """Four days in two segments, then the second day corrected by a third."""
    segments = [rows(DAYS[:2], 1), rows(DAYS[2:], 1), rows([DAYS[1]], 5)]
    return VersionId(flights.build({"fct": segments}, artifacts(DAYS)))


def refusal(flights: Any, version: VersionId) -> str:
    flights.prepare(version)
    with pytest.raises(DestinationFailure) as caught:
        flights.flip(version)
    assert caught.value.code == "lineage_incomplete"
    assert flights.published() is None
    return caught.value.message


def change(warehouse: Warehouse, statement: str) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(statement.encode())


def test_readers_see_each_partition_once_and_no_bookkeeping(
    flights: Any, partitioned: VersionId
) -> None:
    flights.publish(partitioned)
    assert shown(flights) == {DAYS[0]: 2, DAYS[1]: 10, DAYS[2]: 2, DAYS[3]: 2}
    columns = flights.read(
        "select column_name from information_schema.columns "
        "where table_schema = 'analytics' order by ordinal_position"
    )
    assert columns == [("day",), ("number",), ("id",)]


def test_a_correction_and_its_rollback_change_what_is_hidden(flights: Any) -> None:
    first = flights.build({"fct": [rows(DAYS, 1)]}, artifacts(DAYS))
    second = flights.build({"fct": [rows(DAYS, 1), rows([DAYS[3]], 7)]}, artifacts(DAYS))
    flights.publish(first)
    flights.publish(second)
    assert shown(flights)[DAYS[3]] == 14
    assert flights.rollback().version_id == first
    assert shown(flights)[DAYS[3]] == 2


def test_a_model_becomes_partitioned_and_whole_again(flights: Any) -> None:
    whole = {"fct": "select '2013-01-01'::text as day, 3 as number, 1 as id"}
    for models in (whole, {"fct": [rows(DAYS, 1)]}, {**whole, "dim": "select 1 as one"}):
        flights.publish(flights.build(models, artifacts(DAYS)))
    assert shown(flights) == {"2013-01-01": 3}
    flights.rollback()
    assert shown(flights) == dict.fromkeys(DAYS, 2)


def test_a_slot_view_over_the_wrong_view_of_a_relation_is_pointed_again(
    flights: Any, partitioned: VersionId, warehouse: Warehouse
) -> None:
    flights.prepare(partitioned)
    with warehouse.connect(Role.PUBLISHER) as publisher:
        row = publisher.execute("select pg_get_viewdef('slot_a.fct'::regclass)").fetchone()
        assert row is not None
        clean = row[0].replace("__live r", " r").replace("    _live,", "    true as _live,")
        publisher.execute(f"create or replace view slot_a.fct as {clean}".encode())
    with pytest.raises(DestinationFailure) as caught:
        flights.flip(partitioned)
    assert caught.value.code == "slot_not_prepared"
    assert flights.publish(partitioned).outcome == "published"


def test_a_partition_in_no_segment_stops_the_flip(flights: Any) -> None:
    version = flights.build({"fct": [rows(DAYS[:3], 1)]}, artifacts(DAYS))
    assert f"fct: partition {DAYS[3]} is in no segment" in refusal(flights, version)


def test_a_partition_that_is_hidden_everywhere_stops_the_flip(
    flights: Any, partitioned: VersionId, warehouse: Warehouse
) -> None:
    change(warehouse, f"update ops.view_segments set hidden = array['{DAYS[1]}']")
    assert f"fct: partition {DAYS[1]} is in no segment" in refusal(flights, partitioned)


def test_a_partition_that_is_shown_twice_stops_the_flip(
    flights: Any, partitioned: VersionId, warehouse: Warehouse
) -> None:
    change(warehouse, "update ops.view_segments set hidden = '{}'")
    assert f"fct: partition {DAYS[1]} is in several segments" in refusal(flights, partitioned)


def test_a_partition_without_an_artifact_stops_the_flip(flights: Any) -> None:
    version = flights.build({"fct": [rows(DAYS, 1)]}, artifacts(DAYS[:3]))
    assert f"partition {DAYS[3]} comes from no artifact" in refusal(flights, version)


def test_a_segment_that_was_not_adopted_stops_the_flip(
    flights: Any, partitioned: VersionId, warehouse: Warehouse
) -> None:
    change(
        warehouse,
        "update ops.relations set state = 'abandoned' where relation_name in "
        "(select segment_name from ops.view_segments)",
    )
    assert "is not in the store" in refusal(flights, partitioned)


@pytest.mark.parametrize("view", ["", "__live"], ids=["judged", "shown"])
def test_a_view_over_other_segments_than_recorded_stops_the_flip(
    flights: Any, partitioned: VersionId, warehouse: Warehouse, view: str
) -> None:
    with warehouse.connect() as owner:
        relation = owner.execute("select view_name from ops.view_segments").fetchone()
        segment = owner.execute("select segment_name from ops.view_segments").fetchone()
        assert relation is not None
        assert segment is not None
        live = ", true as _live" if view else ""
        owner.execute(
            f"create or replace view store.{relation[0]}{view} as "
            f"select *{live} from store.{segment[0]}".encode()
        )
    assert "does not read the segments that are recorded" in refusal(flights, partitioned)


def test_a_segment_that_somebody_can_still_write_stops_the_flip(
    flights: Any, partitioned: VersionId, warehouse: Warehouse
) -> None:
    with warehouse.connect() as owner:
        segment = owner.execute("select min(segment_name) from ops.view_segments").fetchone()
        assert segment is not None
        owner.execute(f"alter table store.{segment[0]} owner to sluice_transformer".encode())
    assert f"{segment[0]} was not sealed" in refusal(flights, partitioned)


def test_partitions_are_traced_through_partitioned_models_and_views_that_pass_them_on(
    flights: Any, warehouse: Warehouse
) -> None:
    day_of = {**artifacts(DAYS[:2]), "flights.flights/2013-01-03": 1, "other.day/2013-09-09": 1}
    day_of["flights.planes/snapshot"] = 1
    version = flights.build(
        {
            "fct": [rows(DAYS[:3], 1)],
            "agg": [rows(DAYS[:3], 2)],
            "whole": "select 1 as one, 'x'::text as _partition",
            "stg": "select 1 as one, 'x'::text as _partition",
        },
        day_of,
    )
    with warehouse.connect() as owner:
        for model, parents, resources in (
            ("agg", ["fct", "whole"], ["flights.planes"]),
            ("fct", ["stg"], ["flights.weather"]),
            ("stg", [], ["flights.flights"]),
            ("whole", [], ["other.day"]),
        ):
            owner.execute(
                "update ops.version_models set parents = %s, resources = %s where model = %s",
                [parents, resources, model],
            )
        owner.execute("update ops.relations set kind = 'view' where model = 'stg'")
    assert flights.publish(version).outcome == "published"


def test_the_check_of_a_version_looks_through_the_catalogue_once_at_most(
    partitioned: VersionId, warehouse: Warehouse
) -> None:
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as builder:
        builder.execute("create table store.other as select 1 as one")
        for number in range(250):
            builder.execute(
                f"create view store.other_{number} as select * from store.other".encode()
            )
    catalogue = ["pg_class", "pg_rewrite", "pg_depend"]
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("vacuum analyze pg_class, pg_rewrite, pg_depend")
        text = psycopg.ClientCursor(owner).mogrify(
            query("publication_segments"), {"version_id": partitioned}
        )
        looked_at = sum(scans(owner, text, catalogue).values())
        sizes = [owner.execute(f"select count(*) from {n}".encode()).fetchone() for n in catalogue]
    assert looked_at <= 2 * sum(size[0] for size in sizes if size)
