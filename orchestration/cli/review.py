"""`sluice review`: what waits for a decision, and decisions about versions that a gate holds."""

from datetime import UTC, datetime
from typing import Any

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.quarantine import Reviewers, age
from orchestration.cli.quarantine_decisions import require_reason
from orchestration.cli.reading import reading
from orchestration.cli.session import deciding, read_settings
from orchestration.faultpoints import FaultPoint, reach
from orchestration.publication.versions import Version, resolve_version
from orchestration.runs.diagnosis import refreshed_request, same_request
from orchestration.runs.state import get_run
from orchestration.sql.rows import fetch, rows_of
from orchestration.warehouse.connections import Role
from orchestration.warehouse.decisions import approve_version, reject_version
from orchestration.warehouse.waivers import KnownBreach, breaches_of

_BREACH = ["subject", "what", "severity", "partition", "failing", "error"]


def list_waiting(*, pipeline: str | None, limit: int, as_json: bool) -> None:
    with reading(Role.REVIEWER) as connection:
        rows = rows_of(connection, "review_list", {"pipeline": pipeline, "limit": limit})
    people = Reviewers(read_settings())
    rows = [
        row
        | {
            name: row.get(name) or value
            for name, value in people.of(row["pipeline"], row["resource"]).items()
        }
        | {"next": _look_at(row)}
        for row in rows
    ]
    if as_json:
        print_json(rows)
        return
    print_rows(
        "waits for a decision",
        ["kind", "id", "what", "age", "owner", "reviewer", "next"],
        [row | {"age": age(row["age_s"])} for row in rows],
        "nothing waits for a decision",
    )


def show(prefix: str, *, pipeline: str | None, as_json: bool) -> None:
    with reading(Role.REVIEWER) as connection:
        version = resolve_version(connection, prefix, pipeline)
        breaches = breaches_of(connection, version.version_id)
        [seen] = fetch(
            connection,
            "select coalesce(min(seen_at), %s) as since, max(run_id) as run_id "
            "from ops.breaches where version_id = %s",
            [version.created_at, version.version_id],
        )
        waivers = fetch(
            connection,
            "select waiver_id, subject, what, partition, failing, reason, decided_by, decided_at "
            "from ops.waivers where version_id = %s or waiver_id in (select unnest(waivers) "
            "from ops.judgements where version_id = %s) order by waiver_id",
            [version.version_id, version.version_id],
        )
        decisions = fetch(
            connection,
            "select acted_at, action, actor, reason from ops.operator_actions "
            "where target = %s order by action_id",
            [version.version_id],
        )
    facts: dict[str, Any] = {
        "version": version.version_id,
        "pipeline": version.pipeline,
        "state": version.state,
        "run_id": seen["run_id"] or version.run_id,
        "since": seen["since"],
        **Reviewers(read_settings()).of(version.pipeline, None),
    }
    advice = _decide(version)
    if as_json:
        print_json(
            facts
            | {
                "breaches": [vars(each) for each in breaches],
                "waivers": waivers,
                "decisions": decisions,
                "next": advice,
            }
        )
        return
    waits = {"age": age(int((datetime.now(UTC) - seen["since"]).total_seconds()))}
    print_facts(facts | (waits if version.state == "held" else {}) | {"next": advice})
    title = "stands in its way" if version.state == "held" else "stood in its way"
    print_rows(title, _BREACH, [vars(each) for each in breaches], "nothing was kept of its gate")
    if waivers:
        columns = ["what", "partition", "failing", "decided_by", "decided_at", "reason"]
        print_rows("waived", columns, waivers, "")
    if decisions:
        print_rows("decisions", ["acted_at", "action", "actor", "reason"], decisions, "")


def approve(prefix: str, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    require_reason(reason)
    settings = read_settings()
    with deciding(settings) as connection:
        version = resolve_version(connection, prefix, pipeline)
        is_new = approve_version(connection, version.version_id, reason)
        reach(FaultPoint.QUARANTINE_AFTER_DECISION)
        breaches = breaches_of(connection, version.version_id)
        run = get_run(connection, _judged_by(connection, version))
    _answer(
        {
            "version": version.version_id,
            "pipeline": version.pipeline,
            "decision": "approved",
            "remark": "now" if is_new else "it was approved before",
            "next": same_request(run) if run.publish else f"sluice publish {version.version_id}",
        },
        "waived",
        [_named(each) for each in breaches],
        as_json=as_json,
    )


def reject(prefix: str, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    require_reason(reason)
    settings = read_settings()
    with deciding(settings) as connection:
        version = resolve_version(connection, prefix, pipeline)
        done = reject_version(connection, version.version_id, reason)
        reach(FaultPoint.QUARANTINE_AFTER_DECISION)
        set_aside = fetch(
            connection,
            "select distinct on (p.partition) 'partition-' || p.partition_id as id, p.partition, p.rule "
            "from quarantine.partitions p join ops.breaches b on p.artifact_id = any(b.artifacts) "
            "where b.version_id = %s and p.decision = 'discarded' "
            "order by p.partition, p.partition_id",
            [version.version_id],
        )
        run = get_run(connection, _judged_by(connection, version))
    _answer(
        {
            "version": version.version_id,
            "pipeline": version.pipeline,
            "decision": "rejected",
            "remark": "it was rejected before" if done is None else "now",
            "next": refreshed_request(run) if set_aside else same_request(run),
        },
        "set aside",
        set_aside,
        as_json=as_json,
    )


def _answer(
    facts: dict[str, Any], title: str, rows: list[dict[str, Any]], *, as_json: bool
) -> None:
    if as_json:
        print_json(facts | {title.replace(" ", "_"): rows})
        return
    print_facts(facts)
    columns = list(rows[0]) if rows else []
    print_rows(title, columns, rows, "no data was set aside: what readers have is the same")


def _named(breach: KnownBreach) -> dict[str, Any]:
    names = ("subject", "what", "partition", "failing")
    return {name: getattr(breach, name) for name in names}


def _judged_by(connection: Any, version: Version) -> str:
    """The run whose gate saw it last."""
    [row] = fetch(
        connection,
        "select coalesce((select max(b.run_id) from ops.breaches b join ops.runs r using (run_id) "
        "where b.version_id = v.version_id), v.run_id) as run_id "
        "from ops.versions v where v.version_id = %s",
        [version.version_id],
    )
    return str(row["run_id"])


def _look_at(row: dict[str, Any]) -> str:
    match row["kind"]:
        case "version":
            return f"sluice review show {row['id']}"
        case "partition":
            return f"sluice quarantine show {row['id']}"
        case _:
            return f"sluice status {row['id']}"


def _decide(version: Version) -> str:
    name = version.version_id
    match version.state:
        case "held":
            return f"sluice review approve {name} --reason TEXT, or reject {name} --reason TEXT"
        case "passed":
            return f"sluice publish {name}"
        case _:
            return f"sluice versions show {name}"
