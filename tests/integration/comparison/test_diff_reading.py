"""What a comparison reads, and what it refuses to read."""

from collections.abc import Iterator

import psycopg
import pytest

from orchestration.comparison.columns import compared_columns
from orchestration.comparison.compare import compare_sides
from orchestration.comparison.findings import find_differences
from orchestration.comparison.sides import ModelSide, Partition, Place, Side
from orchestration.comparison.statements import Comparison, Rows
from orchestration.comparison.value import SideLabel, VersionDiff
from orchestration.errors import ConfigurationError
from orchestration.publication.shapes import Column
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.dbt.state import ModelState

COLUMNS = (Column("id", "integer"), Column("person", "text"), Column("cents", "integer"))
OLD, NEW = Place("analytics", "old"), Place("analytics", "new")


@pytest.fixture
def connection(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    with warehouse.connect(autocommit=True) as connection:
        for place, cents in ((OLD, 10), (NEW, 11)):
            connection.execute(
                f"create table analytics.{place.name} as select id, 'ann' || id * {cents} as person, "
                f"{cents} as cents, '2013-01-0' || id as _partition from generate_series(1, 2) as id"
            )
        yield connection


def side(place: Place, **facts: object) -> Side:
    values: dict[str, object] = {
        "model": "fct",
        "place": place,
        "columns": COLUMNS,
        "content_key": place.name,
        "state": ModelState("0", {}, ("id",), "unique_test", frozenset({"person"})),
    }
    model = ModelSide(**{**values, **facts})  # type: ignore[arg-type]
    return Side(SideLabel(place.name, "p", "passed"), {"fct": model})


def test_values_of_a_sensitive_column_do_not_leave_the_warehouse(
    connection: psycopg.Connection,
) -> None:
    columns = compared_columns(COLUMNS, COLUMNS, ("id",), {"person"})
    whole = [Rows(((place, None),), has_partitions=False) for place in (OLD, NEW)]
    found = find_differences(connection, Comparison(*whole, columns, 1))
    assert list(found.changed) == [2, 2]
    assert "ann" not in str(found.examples)
    assert {row["before"] for row in found.examples if row["what"] == 1} == {None}
    assert {row["before"] for row in found.examples if row["what"] == 2} == {"10"}

    by_person = compared_columns(COLUMNS, COLUMNS, ("person",), {"person"})
    found = find_differences(connection, Comparison(*whole, by_person, 1))
    assert "ann" not in str(found.examples)


def test_what_is_not_known_to_be_harmless_is_not_shown(connection: psycopg.Connection) -> None:
    [model] = compare_sides(connection, side(OLD), side(NEW, state=None)).models
    assert model.key == ("id",)
    assert {change.column: change.is_hidden for change in model.columns} == {
        "person": True,
        "cents": True,
    }


def test_equal_content_is_not_read_even_when_it_is_gone(connection: psycopg.Connection) -> None:
    connection.execute("drop table analytics.old, analytics.new")
    same = compare_sides(
        connection, side(OLD, content_key="1", rows=2), side(NEW, content_key="1", rows=2)
    )
    assert same.same == ("fct",)
    with pytest.raises(ConfigurationError) as caught:
        compare_sides(connection, side(OLD), side(NEW))
    assert caught.value.code == "relation_gone"
    assert "analytics.old" in caught.value.message


def test_only_partitions_that_differ_are_read(connection: psycopg.Connection) -> None:
    def partitions(place: Place, second: str) -> dict[str, Partition]:
        return {
            "2013-01-01": Partition(Place("analytics", "gone"), "same", 1),
            "2013-01-02": Partition(place, second, 1),
        }

    def compare(second: str) -> VersionDiff:
        return compare_sides(
            connection,
            side(OLD, rows=2, partitions=partitions(OLD, "1")),
            side(NEW, rows=2, partitions=partitions(NEW, second)),
        )

    [model] = compare("2").models
    assert model.counts.changed == 1
    assert ([part.partition for part in model.partitions], model.partitions_same) == (
        ["2013-01-02"],
        1,
    )
    assert compare("1").same == ("fct",)


def test_a_model_that_only_one_side_has_is_new_or_gone(connection: psycopg.Connection) -> None:
    nothing = Side(SideLabel("empty", "p", "passed"))
    [new] = compare_sides(connection, nothing, side(NEW)).models
    assert (new.change, new.rows_before, new.rows_after) == ("added", None, 2)
    [gone] = compare_sides(connection, side(OLD), nothing).models
    assert (gone.change, gone.rows_before, gone.rows_after) == ("removed", 2, None)
    assert not new.is_same
    assert not gone.is_same
