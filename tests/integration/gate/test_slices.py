"""Which rows a question about keys looks at."""

from collections.abc import Mapping
from typing import Any

from shelf import NOON, Content, Row, Shelf, content, rows

from orchestration.warehouse.segments.slices import Slices


def slices_of(shelf: Shelf, days: Mapping[str, Content]) -> Slices:
    return shelf.under[shelf.version(days, ["m"])].slices["readings"]


def found(shelf: Shelf, query: str) -> list[tuple[Any, ...]]:
    return shelf.runner.execute(
        f"select _partition, key from ({query}) q order by 1, 2".encode()
    ).fetchall()


def keyless(speed: float) -> Row:
    return (None, speed, "m", NOON)


def test_only_rows_with_the_same_key_are_added(shelf: Shelf) -> None:
    slices = slices_of(
        shelf,
        {
            "2024-06-01": content(rows(1, 2, 3)),
            "2024-06-02": content(rows(4)),
            "2024-06-03": content(rows(2, 9)),
        },
    )
    query = slices.rows_with_shared_keys(["2024-06-03"], ["key"], nulls_are_equal=False)
    assert found(shelf, query) == [("2024-06-01", 2), ("2024-06-03", 2), ("2024-06-03", 9)]


def test_a_hidden_partition_shares_no_key(shelf: Shelf) -> None:
    days = {"2024-06-01": content(rows(1, 2)), "2024-06-02": content(rows(4))}
    slices_of(shelf, days)
    slices = slices_of(
        shelf, days | {"2024-06-01": content(rows(7)), "2024-06-03": content(rows(2))}
    )
    assert any(piece.hidden for piece in slices.pieces)
    query = slices.rows_with_shared_keys(["2024-06-03"], ["key"], nulls_are_equal=False)
    assert found(shelf, query) == [("2024-06-03", 2)]


def test_nulls_share_a_key_where_they_are_grouped_together(shelf: Shelf) -> None:
    slices = slices_of(
        shelf, {"2024-06-01": content([keyless(1), *rows(5)]), "2024-06-02": content([keyless(2)])}
    )
    for nulls_are_equal, others in ((True, [("2024-06-01", None)]), (False, [])):
        query = slices.rows_with_shared_keys(
            ["2024-06-02"], ["key", "unit"], nulls_are_equal=nulls_are_equal
        )
        assert found(shelf, query) == [*others, ("2024-06-02", None)]


def test_no_row_is_read_for_nulls_when_there_is_none(shelf: Shelf) -> None:
    old = {
        f"2024-05-{day:02}": content(rows(*range(100 * day, 100 * day + 90)))
        for day in range(1, 30)
    }
    slices_of(shelf, old)
    slices = slices_of(shelf, old | {"2024-06-02": content(rows(1))})
    query = slices.rows_with_shared_keys(["2024-06-02"], ["key"], nulls_are_equal=True)
    [(plan,)] = shelf.runner.execute(f"explain (analyze, format json) {query}".encode()).fetchall()
    [segment] = {piece.segment for piece in slices.pieces if "2024-05-01" in piece.visible}
    pending, executed = [plan[0]["Plan"]], []
    while pending:
        node = pending.pop()
        pending += node.get("Plans", [])
        if node.get("Relation Name") == segment and node["Actual Loops"]:
            executed.append(node["Node Type"])
    assert executed == ["Index Scan"]
