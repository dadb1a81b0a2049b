"""`sluice quarantine show`: all that a reviewer needs to decide about one entry, and nothing personal.

Values of fields that today's contract calls sensitive are left out, also where they were kept before
it did, and so are their pseudonyms.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg

from ingestion.contracts import Contract
from ingestion.errors import IngestionConfigurationError
from ingestion.sources import get_resource
from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.quarantine import Reviewers, age
from orchestration.cli.reading import reading
from orchestration.cli.session import read_settings
from orchestration.errors import ConfigurationError
from orchestration.sql.rows import rows_of
from orchestration.warehouse.connections import Role

_REVISIONS = ["partition", "origin", "fetched", "loaded", "quarantined", "acceptance", "in_use"]
_HISTORY = ["decided_at", "event", "actor", "reason", "detail"]


def parse_entry(text: str) -> tuple[str, int]:
    """`record-12` → ("record", 12). Raises `ConfigurationError`."""
    kind, _, number = text.partition("-")
    if kind not in {"record", "partition"} or not number.isdecimal() or len(number) > 18:
        raise ConfigurationError(
            f"{text!r} is not an entry; write it as `sluice quarantine list` shows it, "
            "for example: record-1",
            code="bad_entry",
        )
    return kind, int(number)


def show_entry(entry: str, *, as_json: bool) -> None:
    kind, number = parse_entry(entry)
    with reading(Role.REVIEWER) as connection:
        found = rows_of(connection, f"quarantine_show_{kind}", [number])
        if not found:
            raise ConfigurationError(
                f"there is no {entry}; see: sluice quarantine list", code="unknown_entry"
            )
        [row] = found
        facts = {"id": entry} | (
            _record_facts(row) if kind == "record" else _partition_facts(connection, row)
        )
        window = {"window": row["window_name"]} | {
            name: row[name] for name in ("pipeline", "resource")
        }
        revisions = rows_of(connection, "quarantine_revisions", window)
        ids = (number, None) if kind == "record" else (None, number)
        history = rows_of(connection, "quarantine_history", ids)
    facts |= Reviewers(read_settings()).of(row["pipeline"], row["resource"])
    advice = _record_advice(entry, row) if kind == "record" else _partition_advice(entry, row)
    if as_json:
        print_json(facts | {"history": history, "revisions": revisions, "next": advice})
        return
    waiting = int((datetime.now(UTC) - row["quarantined_at"]).total_seconds())
    print_facts(facts | {"age": age(waiting), "next": advice})
    print_rows("decisions", _HISTORY, history, "nothing was decided yet")
    print_rows("revisions of the partition", _REVISIONS, revisions, "none")


def shown_record(payload: Any, contract: Contract | None) -> tuple[Any, list[str]]:
    """What may be shown of a redacted record, and the names of what may not."""
    if contract is None:
        return None, ["everything, because the contract is gone"]
    if not isinstance(payload, Mapping):
        return None, ["everything, because it is no object"]
    visible = {field.name for field in contract.fields if not field.is_sensitive}
    shown = {name: value for name, value in payload.items() if name in visible or name == "_record"}
    return shown, sorted(set(payload) - set(shown))


def _record_facts(row: dict[str, Any]) -> dict[str, Any]:
    contract = _contract(row["resource"])
    payload, hidden = shown_record(row["payload"], contract)
    facts = {
        name: row[name]
        for name in (
            *(
                "pipeline",
                "resource",
                "partition",
                "rule",
                "field",
                "error",
                "source_ref",
                "run_id",
            ),
            *("quarantined_at", "decision", "decided_by", "decided_at", "decision_reason"),
            *("retried_into", "retry_under_way"),
        )
    }
    facts |= {
        "contract_version_then": row["contract_version"],
        "contract_version_now": contract.version if contract else None,
        "superseded_by": row["superseded_by"]
        or (row["decision"] == "held" and row["later_fetched"])
        or None,
        "superseded_how": row["superseded_how"],
        "payload": payload,
        "hidden": hidden,
        "altered": row["altered"],
        "erased_at": row["erased_at"],
    }
    if row["correction"] is not None:
        facts["correction"] = shown_record(row["correction"], contract)[0]
    return facts


def _partition_facts(connection: psycopg.Connection, row: dict[str, Any]) -> dict[str, Any]:
    names = (
        *("pipeline", "resource", "partition", "rule", "error", "run_id", "quarantined_at"),
        *("decision", "decided_by", "decided_at", "decision_reason", "acceptance"),
        *("acceptance_reason", "fetched", "loaded", "quarantined"),
    )
    facts = {name: row[name] for name in names}
    return facts | {"in_use": in_use(connection, row)}


def in_use(connection: psycopg.Connection, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The revision of the row's window that versions are built from; None if there is none."""
    window = {"window": row["window_name"]} | {name: row[name] for name in ("pipeline", "resource")}
    for revision in rows_of(connection, "quarantine_revisions", window):
        if revision["in_use"]:
            return {name: revision[name] for name in ("partition", "loaded", "adopted_at")}
    return None


def _record_advice(entry: str, row: dict[str, Any]) -> str:
    if row["retry_under_way"]:
        return f"sluice quarantine retry {entry}"
    if row["decision"] == "held" and not row["later_fetched"]:
        return f"sluice quarantine retry {entry} --payload FILE, or discard {entry} --reason TEXT"
    return f"sluice quarantine list --resource {row['resource']} --decision held"


def _partition_advice(entry: str, row: dict[str, Any]) -> str:
    if row["decision"] == "held" and row["acceptance"] == "rejected":
        return f"sluice quarantine release {entry} --reason TEXT, or correct its records"
    return f"sluice quarantine list --resource {row['resource']} --decision held"


def _contract(resource: str) -> Contract | None:
    try:
        return get_resource(resource).contract
    except IngestionConfigurationError:
        return None
