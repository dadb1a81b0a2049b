"""Night after night, with a prune after each: the warehouse grows with its data and with nothing else."""

from typing import Any

import pytest
from retention_rows import add_run, ask, change, prune, stage_rows, staged
from segment_tables import Segment

from orchestration.warehouse.connections import Warehouse

NIGHTS = 24
DAYS = 6
COUNTS = {
    "classes": "select count(*) from pg_class",
    "attributes": "select count(*) from pg_attribute",
    "schemas": "select count(*) from pg_namespace",
    **{
        table: f"select count(*) from {table}"
        for table in (
            *("ops.relations", "ops.versions", "ops.version_models", "ops.view_segments"),
            *("ops.segment_partitions", "ops.manifests", "ops.manifest_artifacts", "ops.artifacts"),
            *("ops.runs", "ops.run_partitions", "ops.leases", "staging.flights__weather"),
        )
    },
}


@pytest.mark.slow
def test_many_nights_with_a_prune_after_each_keep_catalogue_and_rows_bounded(
    flights: Any, warehouse: Warehouse
) -> None:
    """Every night one of six days is corrected, some candidates fail, and one run is interrupted."""
    revisions = {f"2013-01-0{day}": 1 for day in range(1, DAYS + 1)}
    seen: list[dict[str, int]] = []
    for night in range(NIGHTS):
        day = f"2013-01-0{night % DAYS + 1}"
        revisions[day] += 1
        segments = [
            Segment(f"select {revision} as value, '{name}' as _partition", (name,))
            for name, revision in revisions.items()
        ]
        version = flights.build(
            {"fct": segments, "agg": f"select {night} as value", "dim": "select 1 as value"},
            {f"flights.weather/{name}": revision for name, revision in revisions.items()},
        )
        if night % 5 == 4:
            flights.build({"fct": segments, "agg": f"select {-night} as value"}, state="candidate")
        with warehouse.connect() as owner:
            add_run(
                owner,
                f"r_{night}",
                status="failed" if night % 7 == 6 else "finished",
                days_ago=2,
                partitions=(f"flights.weather/{day}@{revisions[day]}",),
            )
        change(warehouse, "delete from staging.flights__weather")
        stage_rows(warehouse)
        flights.publish(version)
        done = prune(warehouse, previous_versions=2)
        assert done.left == []
        seen.append({name: ask(warehouse, text)[0][0] for name, text in COUNTS.items()})
        assert flights.read("select sum(value) from analytics.fct") == [(sum(revisions.values()),)]
    settled, later = seen[DAYS : NIGHTS // 2], seen[NIGHTS // 2 :]
    for name in COUNTS:
        assert max(counts[name] for counts in later) <= max(counts[name] for counts in settled), (
            name
        )
    needed = {name for (name,) in ask(warehouse, "select artifact_id from ops.manifest_artifacts")}
    assert staged(warehouse) == needed
