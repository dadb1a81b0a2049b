"""What a published view costs its readers, beside reading the segments below it directly.

    make benchmark-published-reads
    python benchmarks/published_reads.py [--rows 6000000] [--rounds 7] [--url URL] [--json]

One model of sixteen segments, published twice, so that both slots hold as much, and a second model to
join with. Each query runs against the published view and against the UNION ALL of the same segments,
in turn, in one session, over data that is in memory. Medians; planning is measured by itself, from
EXPLAIN. Parallel workers are switched off: they are the server's choice by size, and hide what the view
adds. Uses a server made for the occasion, or an empty database by URL (Postgres 15 or newer). Figures,
not a verdict; a plan that executes the idle slot, or answers differently, ends with exit code 1.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from stored_versions import Segmented, StoredVersions, warehouse_for

from orchestration.warehouse.connections import Role, Warehouse

SELECT = (
    "select i::bigint as id, (i %% 1000)::int as k, (i * 7 %% 365)::int as day, "
    "(i %% 97)::numeric(8,2) as amount, timestamptz '2013-01-01' + i * interval '{step} s' as at, "
    "md5(i::text)::varchar(40) as text, '{{partition}}'::text as _partition "
    "from generate_series({{first}}, {{last}}) i"
).replace("%%", "%")
QUICK = {
    "point look-up": "select * from {fct} where id = {middle}",
    "join on an indexed key": "select d.name, f.amount from {dim} d join {fct} f on f.id = d.id "
    "where d.id = 77",
    "max": "select max(at) from {fct}",
    "order by limit 10": "select * from {fct} order by at desc limit 10",
}
WHOLE = {
    "grouped sum": "select k, sum(amount) from {fct} group by k order by k",
    "plain count": "select count(*) from {fct}",
}
# The second of two publications is in slot b.
_IDLE = "'a'::text <>"
_WARM = 3
WANTED = {"quick_ms": 1.0, "planning_ms": 2.0, "grouped sum": 1.3, "plain count": 1.4}


@dataclass(frozen=True)
class Cost:
    """Milliseconds: execution through the view and directly, and the planning that the view adds."""

    query: str
    published: float
    direct: float
    planning_published: float
    planning_direct: float

    @property
    def ratio(self) -> float:
        return self.published / self.direct


class Published:
    """The two models, published from both slots, and the text that reads them directly."""

    def __init__(self, warehouse: Warehouse, rows: int) -> None:
        versions = StoredVersions(warehouse)
        for step in (1, 2):
            fct = Segmented(SELECT.format(step=step), rows, "id;at;k")
            dim = "select i::bigint as id, 'n' || i as name from generate_series(1, 1000) i"
            version = versions.build({"fct": fct, "dim": dim})
            versions.prepare(version)
            versions.flip(version)
        with warehouse.connect(autocommit=True) as owner:
            relations: dict[str, str] = dict(
                owner.execute(
                    "select model, relation_name from ops.version_models where version_id = %s",
                    [version],
                ).fetchall()
            )
            segments = owner.execute(
                "select segment_name from ops.view_segments where view_name = %s order by 1",
                [relations["fct"]],
            ).fetchall()
            columns = "id, k, day, amount, at, text"
            branches = " union all ".join(f"select {columns} from store.{s}" for (s,) in segments)
            owner.execute(f"create view public.direct as {branches}".encode())
            owner.execute("grant usage on schema public to sluice_analyst")
            owner.execute("grant select on public.direct to sluice_analyst")
            owner.execute("vacuum analyze")
        middle = rows // 2
        names = {"middle": middle}
        self.through = names | {"fct": "analytics.fct", "dim": "analytics.dim"}
        self.directly = names | {"fct": "public.direct", "dim": f"store.{relations['dim']}"}


def measure(connection: psycopg.Connection, published: Published, query: str, rounds: int) -> Cost:
    text = (QUICK | WHOLE)[query]
    ways = [text.format(**published.through), text.format(**published.directly)]
    answers = [connection.execute(way.encode()).fetchall() for way in ways]
    assert answers[0] == answers[1], f"{query} answers differently"
    executions: list[list[float]] = [[], []]
    plannings: list[list[float]] = [[], []]
    for _ in range(rounds):
        for index, way in enumerate(ways):
            plannings[index].append(_planning_ms(connection, way))
            executions[index].append(_execution_ms(connection, way))
    return Cost(
        query,
        *(statistics.median(times) for times in executions),
        *(statistics.median(times) for times in plannings),
    )


def _planning_ms(connection: psycopg.Connection, query: str) -> float:
    """The planner's own time, views expanded included."""
    row = connection.execute(f"explain (summary, format json) {query}".encode()).fetchone()
    assert row is not None
    return float(row[0][0]["Planning Time"])


def _execution_ms(connection: psycopg.Connection, query: str) -> float:
    """The median of a prepared statement's executions, round trip included, once it is warm."""
    connection.execute(f"prepare measured as {query}".encode())
    try:
        usual = min(_time(connection) for _ in range(_WARM))
        times = [_time(connection) for _ in range(max(1, min(50, int(100 / usual))))]
    finally:
        connection.execute("deallocate measured")
    return statistics.median(times)


def _time(connection: psycopg.Connection) -> float:
    began = time.perf_counter()
    connection.execute("execute measured")
    return (time.perf_counter() - began) * 1000


def executes_idle_slot(connection: psycopg.Connection, published: Published) -> list[str]:
    """The queries whose plan executes anything of the slot that is not active."""
    guilty = []
    for query, text in (QUICK | WHOLE).items():
        way = text.format(**published.through)
        row = connection.execute(
            f"explain (analyze, costs off, timing off, format json) {way}".encode()
        ).fetchone()
        assert row is not None
        idle = [
            node for node in _nodes(row[0][0]["Plan"]) if _IDLE in node.get("One-Time Filter", "")
        ]
        below = [child["Actual Loops"] for node in idle for child in node.get("Plans", ())]
        if not below or any(below):
            guilty.append(query)
    return guilty


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def report(costs: list[Cost], version: int) -> None:
    print(f"Postgres {version // 10_000}.{version % 10_000}")
    print(
        f"{'':24} {'published':>10} {'direct':>10} {'ratio':>7} {'planning':>9} {'direct':>7}   ms"
    )
    for cost in costs:
        print(
            f"{cost.query:24} {cost.published:10.2f} {cost.direct:10.2f} {cost.ratio:7.2f} "
            f"{cost.planning_published:9.2f} {cost.planning_direct:7.2f}"
        )
    print(
        f"wanted: the first four within {WANTED['quick_ms']} ms, planning within "
        f"{WANTED['planning_ms']} ms, ratios {WANTED['grouped sum']} and {WANTED['plain count']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--url", help="an empty database, as its owner")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with warehouse_for(options.url) as warehouse:
        published = Published(warehouse, options.rows)
        with warehouse.connect(Role.ANALYST, autocommit=True) as connection:
            connection.prepare_threshold = None
            connection.execute("set max_parallel_workers_per_gather = 0")
            connection.execute("set jit = off")
            guilty = executes_idle_slot(connection, published)
            costs = [measure(connection, published, q, options.rounds) for q in QUICK | WHOLE]
            version = connection.info.server_version
    if options.json:
        print(json.dumps([asdict(cost) | {"ratio": cost.ratio} for cost in costs], indent=2))
    else:
        report(costs, version)
    if guilty:
        print(f"the idle slot is executed by: {', '.join(guilty)}")
    return int(bool(guilty))


if __name__ == "__main__":
    raise SystemExit(main())
