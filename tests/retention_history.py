"""A warehouse with years behind it, made by hand: something of everything that a prune drops."""

import psycopg
from retention_rows import add_run, change
from segment_tables import Segment, add_partitioned, add_table

from orchestration.warehouse.connections import Role, Warehouse

DAY = "2013-01-01"
VERSIONS = [f"v_{number:016x}" for number in range(12)]


def make_history(warehouse: Warehouse) -> None:
    """Twelve published versions of pipeline flights, one a month, the last of them published now.

    Each has its own revision of a day, a table that they share, one of its own, and a view over two
    segments of which it shares one with its neighbour; its run, checkpoints and quarantine are as old.
    Nothing of the first is in quarantine, so that nothing tells of its artifact.
    """
    for number, version in enumerate(VERSIONS):
        days_ago = (len(VERSIONS) - number) * 30
        with warehouse.connect() as owner:
            owner.execute(
                "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
                "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
                "acceptance) values (%s, 'flights', 'flights.weather', %s, %s, %s, %s, 'l', 1, "
                "'adopted', 3, 2, 1, %s, 'accepted')",
                [
                    *(f"a_{number}", DAY, number + 1, f"flights.weather/{DAY}@{number + 1}"),
                    *(f"r_{number}", str(number)),
                ],
            )
            owner.execute(
                "insert into staging.flights__weather (origin, _artifact_id, _partition, _run_id, "
                "_source_ref) select 'EWR', %s, 'p', 'r', i::text from generate_series(1, 2) i",
                [f"a_{number}"],
            )
            owner.execute(
                "insert into ops.manifests values (%s, 'flights', %s)",
                [f"m_{number}", f"r_{number}"],
            )
            owner.execute(
                "insert into ops.manifest_artifacts values (%s, 'flights.weather', %s, %s)",
                [f"m_{number}", DAY, f"a_{number}"],
            )
            add_run(
                owner,
                f"r_{number}",
                days_ago=days_ago,
                partitions=(f"flights.weather/{DAY}@{number + 1}",),
                version=version,
            )
            owner.execute(
                "insert into ops.checkpoints (idempotency_key, pipeline, stage, source_partition, run_id, "
                "status, fence, attempt, output_ref) values (%s, 'flights', 'extract', %s, %s, "
                "'succeeded', 1, 1, %s)",
                [f"{number:064x}", f"{number}", f"r_{number}", f"a_{number}"],
            )
            owner.execute(
                "insert into ops.attempts (idempotency_key, attempt, run_id, fence, worker) "
                "values (%s, 1, %s, 1, 'w')",
                [f"{number:064x}", f"r_{number}"],
            )
            if number:
                _add_quarantined(owner, number, days_ago)
        _add_version(warehouse, number, version, days_ago)
    with warehouse.connect(Role.TRANSFORMER) as transformer:
        # One of a version that is gone, and one of a version that nobody pinned.
        for version in (VERSIONS[-2], "v_" + "e" * 16):
            transformer.execute("select ops.create_version_schema(%s)", [version])
            transformer.execute(f"create view {version}.shared as select 1 as value".encode())
    change(
        warehouse,
        "insert into ops.publication_pointer (pipeline, active_slot, version_id, publication_id) "
        "select 'flights', 'a', version_id, publication_id from ops.publications "
        "order by publication_id desc limit 1",
    )


def _add_version(warehouse: Warehouse, number: int, version: str, days_ago: int) -> None:
    with warehouse.connect(Role.TRANSFORMER) as transformer:
        segments = [
            Segment(f"select {part} as value, '{part}' as _partition", (str(part),))
            for part in (number, number + 1)
        ]
        relations = {
            "whole": add_table(transformer, "flights", "whole", f"select {number} as value", ""),
            "shared": add_table(transformer, "flights", "shared", "select 1 as value", ""),
            "parts": add_partitioned(transformer, "flights", "parts", segments),
        }
    with warehouse.connect() as owner:
        owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id, state, "
            "created_at) values (%s, 'flights', %s, %s, 'c', %s, now() - make_interval(days => %s))",
            [
                *(version, f"m_{number}", f"r_{number}"),
                *("published" if version == VERSIONS[-1] else "retired", days_ago),
            ],
        )
        for model, relation in relations.items():
            owner.execute(
                "insert into ops.version_models values (%s, %s, %s, %s, true, '{}', %s)",
                [version, model, relation, relation, ["flights.weather"]],
            )
        owner.execute(
            "insert into ops.publications (pipeline, version_id, previous_version_id, kind, slot) "
            "values ('flights', %s, %s, 'publish', 'a')",
            [version, VERSIONS[number - 1] if number else None],
        )


def _add_quarantined(owner: psycopg.Connection, number: int, days_ago: int) -> None:
    owner.execute("alter table quarantine.records disable trigger guard_records")
    owner.execute(
        "insert into quarantine.records (pipeline, resource, partition, artifact_id, run_id, "
        "source_ref, rule, error, payload, contract_version, decision, decided_at, decided_by, "
        "decision_reason) values ('flights', 'flights.weather', 'p', %s, %s, '1', 'range', 'e', "
        "'{}', '1', %s, now() - make_interval(days => %s), 'somebody', 'because')",
        [
            *(f"a_{number}", f"r_{number}", "held" if number == 1 else "discarded"),
            days_ago,
        ],
    )
    owner.execute("alter table quarantine.records enable trigger guard_records")
