"""`sluice quarantine list|show`: records and partitions that broke a rule, with the reason."""

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.reading import fetch, reading
from orchestration.errors import ConfigurationError
from orchestration.runs.state import resolve_run


def list_entries(
    *, run: str | None, resource: str | None, rule: str | None, limit: int, as_json: bool
) -> None:
    with reading() as connection:
        run_id = resolve_run(connection, run).run_id if run else None
        rows = fetch(
            connection,
            "select * from ("
            "select 'record-' || record_id as id, resource, partition, rule, field, error, decision, "
            "source_ref, run_id, quarantined_at, artifact_id from quarantine.records union all "
            "select 'partition-' || partition_id, resource, partition, rule, null, error, decision, "
            "null, run_id, quarantined_at, artifact_id from quarantine.partitions) q "
            "where (%s::text is null or run_id = %s or artifact_id in "
            "(select artifact_id from ops.run_partitions where run_id = %s)) "
            "and (%s::text is null or resource = %s) and (%s::text is null or rule = %s) "
            "order by quarantined_at desc, id limit %s",
            [run_id, run_id, run_id, resource, resource, rule, rule, limit],
        )
    for row in rows:
        del row["artifact_id"]
    if as_json:
        print_json(rows)
        return
    narrowed = any(word is not None for word in (run, resource, rule))
    print_rows(
        "quarantine",
        ["id", "partition", "rule", "error", "decision", "source_ref"],
        rows,
        "nothing in quarantine fits" if narrowed else "nothing is in quarantine",
    )


def show_entry(entry: str, *, as_json: bool) -> None:
    kind, _, number = entry.partition("-")
    if kind not in {"record", "partition"} or not number.isdecimal():
        raise ConfigurationError(
            f"{entry!r} is not an entry; write it as `sluice quarantine list` shows it, "
            "for example: sluice quarantine show record-1",
            code="bad_entry",
        )
    with reading() as connection:
        rows = (
            fetch(
                connection, "select * from quarantine.records where record_id = %s", [int(number)]
            )
            if kind == "record"
            else fetch(
                connection,
                "select * from quarantine.partitions where partition_id = %s",
                [int(number)],
            )
        )
    if not rows:
        raise ConfigurationError(
            f"there is no {entry}; see: sluice quarantine list", code="unknown_entry"
        )
    facts = {"id": entry} | {
        name: value for name, value in rows[0].items() if name not in {"record_id", "partition_id"}
    }
    print_json(facts) if as_json else print_facts(facts)
