"""What a published view costs: the idle slot is never executed, indexes work through the view."""

import re
from typing import Any

import pytest
from segment_tables import Segment

from orchestration.warehouse.connections import Role, Warehouse

INDEXES = (
    "create unique index on {relation} (id); create index on {relation} (at); "
    "create index on {relation} (k)"
)
QUERIES = {
    "point look-up": "select * from analytics.fct where id = 7",
    "max": "select max(at) from analytics.fct",
    "order by limit": "select * from analytics.fct order by at desc limit 10",
    "join on an indexed key": (
        "select f.t, d.at from analytics.dim d join analytics.fct f on f.id = d.id where d.id = 9"
    ),
}


@pytest.fixture
def published(flights: Any) -> Any:
    for number in (1, 2):
        flights.publish(
            flights.build(
                {
                    "fct": "select i as id, i % 500 as k, md5(i::text)::varchar(40) as t, "
                    f"timestamptz '2013-01-01' + i * interval '{number} s' as at, "
                    "1.5::numeric(8,2) as n from generate_series(1, 20000) i",
                    "dim": f"select i as id, i as k, 'n{number}'::text || i as at "
                    "from generate_series(1, 20000) i",
                },
                after=INDEXES,
            )
        )
    return flights


def partitions(numbers: range, revision: int) -> Segment:
    """250 rows for each of 80 partitions; a row's id says which."""
    return Segment(
        f"select i as id, i % 500 as k, md5(i::text)::varchar(40) as t, "
        f"timestamptz '2013-01-01' + i * interval '{revision} s' as at, 1.5::numeric(8,2) as n, "
        f"'p' || lpad((i / 250)::text, 2, '0') as _partition "
        f"from generate_series({numbers.start * 250}, {numbers.stop * 250 - 1}) i",
        tuple(f"p{number:02}" for number in numbers),
    )


@pytest.fixture
def partitioned(flights: Any) -> Any:
    """Two versions of 16 segments each; the last three replace partitions of six earlier ones."""
    for revision in (1, 2):
        segments = [partitions(range(at, at + 6), revision) for at in range(0, 78, 6)]
        segments += [partitions(range(at, at + 2), 3) for at in (3, 41, 78)]
        flights.publish(
            flights.build(
                {
                    "fct": segments,
                    "dim": "select i as id, i as k, 'n'::text || i as at "
                    "from generate_series(1, 20000) i",
                },
                {f"flights.weather/p{number:02}": revision for number in range(80)},
                after=INDEXES,
            )
        )
    return flights


def explain(warehouse: Warehouse, query: str) -> str:
    with warehouse.connect(Role.ANALYST) as connection:
        connection.execute("set max_parallel_workers_per_gather = 0")
        connection.execute("set enable_seqscan = on")
        rows = connection.execute(
            f"explain (analyze, costs off, timing off, summary off, buffers off) {query}"
        ).fetchall()
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_indexes_are_used_and_the_idle_slot_is_never_executed(
    published: Any, warehouse: Warehouse, query: str
) -> None:
    plan = explain(warehouse, query)
    scans = re.findall(
        r"(Seq Scan|Index[\w ]*Scan[\w ]*) using \S+ on (\w+)|Seq Scan on (\w+)", plan
    )
    assert scans
    assert not re.search(r"Seq Scan on (fct|dim)__", plan), plan
    idle = re.findall(r"'a'::text <> .*\n(.*)", plan)
    active = re.findall(r"'b'::text <> .*\n(.*)", plan)
    assert idle, plan
    assert active, plan
    assert all("never executed" in line for line in idle), plan
    assert not any("never executed" in line for line in active), plan
    assert plan.count("One-Time Filter") == len(idle) + len(active)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_indexes_of_all_segments_are_used_and_the_idle_slot_is_never_executed(
    partitioned: Any, warehouse: Warehouse, query: str
) -> None:
    plan = explain(warehouse, query)
    assert not re.search(r"Seq Scan on (fct|dim)__", plan), plan
    assert not re.search(r"Subquery Scan|Sort Method", plan), plan
    scans = re.findall(r"Index[\w ]*Scan[\w ]* using \S+ on (fct__\w+)", plan)
    assert len(scans) == 32, plan
    idle = re.findall(r"'a'::text <> .*\n(.*)", plan)
    active = re.findall(r"'b'::text <> .*\n(.*)", plan)
    assert len(idle) >= 16, plan
    assert all("never executed" in line for line in idle), plan
    assert not any("never executed" in line for line in active), plan


def test_a_published_partition_is_the_one_that_is_not_hidden(
    partitioned: Any, warehouse: Warehouse
) -> None:
    assert partitioned.read("select count(*), count(distinct id) from analytics.fct") == [
        (20000, 20000)
    ]
    replaced = partitioned.read(
        "select distinct id / 250 from analytics.fct "
        "where at = timestamptz '2013-01-01' + id * interval '3 s' and id > 0 order by 1"
    )
    assert replaced == [(3,), (4,), (41,), (42,), (78,), (79,)]


def test_a_full_scan_reads_the_segments_of_one_slot(partitioned: Any, warehouse: Warehouse) -> None:
    plan = explain(warehouse, "select count(*), sum(k) from analytics.fct")
    scans = re.findall(r"Seq Scan on (fct__\w+) .*(never executed|rows=\d+)", plan)
    assert len(scans) == 32, plan
    assert sum("never" in how for _, how in scans) == 16, plan


def test_a_full_scan_reads_one_slot(published: Any, warehouse: Warehouse) -> None:
    plan = explain(warehouse, "select count(*), sum(k) from analytics.fct")
    assert len(re.findall(r"Seq Scan on fct__\w+ .*never executed", plan)) == 1, plan
    assert len(re.findall(r"Seq Scan on fct__\w+ .*rows=20000", plan)) == 1, plan


def test_parallel_readers_get_the_same_answer(published: Any, warehouse: Warehouse) -> None:
    with warehouse.connect(Role.ANALYST) as connection:
        connection.execute("set parallel_setup_cost = 0")
        connection.execute("set parallel_tuple_cost = 0")
        connection.execute("set min_parallel_table_scan_size = 0")
        plan = connection.execute("explain select count(*) from analytics.fct").fetchall()
        assert any("Gather" in row[0] for row in plan)
        assert connection.execute("select count(*) from analytics.fct").fetchone() == (20000,)


def test_a_column_that_one_slot_lacks_does_not_cost_the_index(
    published: Any, warehouse: Warehouse
) -> None:
    published.publish(
        published.build(
            {
                "fct": "select i as id, i % 500 as k, md5(i::text)::varchar(40) as t, now() as at, "
                "1.5::numeric(8,2) as n, 2.5::numeric(4,1) as extra "
                "from generate_series(1, 20000) i",
                "dim": "select 1 as id, 1 as k, 'x'::text as at",
            },
            after=INDEXES,
        )
    )
    plan = explain(warehouse, "select extra, n from analytics.fct where id = 7")
    assert not re.search(r"Seq Scan on fct__", plan), plan
    plan = explain(warehouse, "select extra, at from analytics.fct order by at limit 3")
    assert not re.search(r"Sort Method|Seq Scan on fct__", plan), plan
