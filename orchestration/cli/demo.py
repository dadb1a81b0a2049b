"""`sluice demo`: two months of flights from nothing to a published version, and what came of it."""

from datetime import UTC, datetime
from typing import Any

import psycopg

from ingestion.partitions import day_windows
from orchestration.cli.gates import failed_expectations, remark
from orchestration.cli.output import console, print_json, print_rows, say
from orchestration.cli.run import drive, print_summary
from orchestration.cli.session import prepare_logs, read_settings, start_services
from orchestration.sql.rows import fetch
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.connections import Role

_DAYS = "2013-01-01..2013-02-28"
# The demo speaks for the morning after its last day, or everything in it would be years too old.
_AS_OF = datetime(2013, 3, 1, 11, tzinfo=UTC)

_NEXT = """
Connect:   .venv/bin/sluice psql        (or any client: .venv/bin/sluice dsn)
Ask:       select * from analytics.agg_carrier_daily limit 5;
Look:      .venv/bin/sluice status, .venv/bin/sluice quarantine list, .venv/bin/sluice gates show
Go on:     .venv/bin/sluice run --pipeline flights --partitions 2013-03-01..2013-03-07
Model:     cd dbt_project && ../.venv/bin/dbt build -s fct_flights+
Stop:      .venv/bin/sluice down"""


def demo(*, as_json: bool) -> None:
    settings = read_settings()
    prepare_logs(settings)
    if not as_json:
        say("Sluice demo: flights that left New York City, " + _DAYS)
    warehouse = start_services(settings, say)
    request = RunRequest(pipeline="flights", days=day_windows(_DAYS), as_of=_AS_OF)
    summary = drive(settings, warehouse, request)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        findings = _findings(connection, summary.run.run_id, summary.ended.version_id)
    if as_json:
        print_json(summary.as_json() | findings)
    else:
        print_summary(summary)
        _print_findings(findings)
        if summary.exit_code == 0:
            _print_next(summary.as_json()["outcome"])
    raise SystemExit(summary.exit_code)


def _findings(
    connection: psycopg.Connection, run_id: str, version: str | None
) -> dict[str, list[dict[str, Any]]]:
    return {
        "resources": fetch(
            connection,
            "select p.resource, count(*) as partitions, sum(a.fetched)::bigint as fetched, "
            "sum(a.loaded)::bigint as loaded, sum(a.quarantined)::bigint as quarantined "
            "from ops.run_partitions p join ops.artifacts a using (artifact_id) "
            "where p.run_id = %s group by 1 order by 1",
            [run_id],
        ),
        "quarantine": fetch(
            connection,
            "select 'record-' || r.record_id as id, r.partition, r.source_ref, r.rule, r.error "
            "from quarantine.records r join ops.run_partitions p using (artifact_id) "
            "where p.run_id = %s order by 1",
            [run_id],
        ),
        "gates": [
            {
                "suite": row["suite"],
                "verdict": row["verdict"],
                "remarks": "; ".join(remark(item) for item in failed_expectations(row["results"])),
            }
            for row in fetch(
                connection,
                "select distinct on (suite) suite, verdict, results from ops.verdicts "
                "where subject = %s or run_id = %s order by suite, verdict_id desc",
                [version, run_id],
            )
        ],
        "published": fetch(
            connection,
            "select m.model, r.row_count as rows from ops.version_models m "
            "join ops.relations r using (relation_name) where m.version_id = %s and m.published "
            "order by 1",
            [version],
        ),
    }


def _print_findings(findings: dict[str, list[dict[str, Any]]]) -> None:
    print_rows(
        "what was loaded",
        ["resource", "partitions", "fetched", "loaded", "quarantined"],
        findings["resources"],
        "nothing",
    )
    print_rows(
        "quarantined, and why",
        ["id", "source_ref", "rule", "error"],
        findings["quarantine"],
        "nothing",
    )
    print_rows("gates", ["suite", "verdict", "remarks"], findings["gates"], "none")
    print_rows("published in schema analytics", ["model", "rows"], findings["published"], "nothing")


def _print_next(outcome: str) -> None:
    if outcome == "unchanged":
        console().print("Everything was done already; nothing changed.", markup=False)
    console().print(_NEXT, markup=False)
