"""What a run leaves behind, as values that must be the same however often it was interrupted."""

import hashlib
from collections import Counter
from typing import Any

from harness import Sluice

REQUEST = (
    *("run", "--pipeline", "flights", "--partitions", "2013-02-11..2013-02-12"),
    # The moment decides the gate's key; the same one makes the keys of two runs comparable.
    *("--as-of", "2013-03-01T00:00:00+00:00"),
)
STAGES = ["initialize", "extract", "validate", "transform", "gate", "publish", "notify"]

HISTORY = {"checkpoints", "run_stages", "messages", "verdicts"}
UNTOLD: tuple[list[str], list[str]] = ([], [repr(("notify", "failed"))])

OBSERVATIONS = {
    "runs": "select run_id, status, outcome, failure, version_id from ops.runs",
    "run_partitions": "select resource, window_name, revision, state from ops.run_partitions",
    "run_stages": "select stage, position, idempotency_key, input_ref from ops.run_stages",
    "checkpoints": "select idempotency_key, stage, step, source_partition, status "
    "from ops.checkpoints where step = ''",
    "unfinished": "select stage, status from ops.run_stages where status not in ('succeeded', 'reused') "
    "union all select 'attempt', status from ops.attempts where status not in "
    "('succeeded', 'failed', 'lost') "
    "union all select name, holder from ops.leases where expires_at > clock_timestamp()",
    "artifacts": "select partition, fetched, loaded, quarantined, checksum, schema_version, "
    "acceptance, acceptance_reason from ops.artifacts where state = 'adopted'",
    "still_loading": "select artifact_id from ops.artifacts where state = 'loading' "
    "union all select relation_name from ops.relations where state = 'loading'",
    "quarantined_records": "select partition, source_ref, rule, field, error, payload::text "
    "from quarantine.records",
    "quarantined_partitions": "select partition, rule, error from quarantine.partitions",
    "manifests": "select m.manifest_id, e.resource, e.window_name, a.partition, a.checksum "
    "from ops.manifests m join ops.manifest_artifacts e using (manifest_id) "
    "join ops.artifacts a using (artifact_id)",
    "relations": "select model, content_key, kind, row_count, columns::text from ops.relations "
    "where state = 'adopted'",
    "unknown_in_store": "select relname from pg_class where relnamespace = 'store'::regnamespace "
    "and relkind in ('r', 'v') and regexp_replace(relname, '__live$', '') not in "
    "(select relation_name from ops.relations where state = 'adopted')",
    "segments": "select r.model, s.partition, s.partition_key, s.row_count "
    "from ops.segment_partitions s join ops.relations r using (relation_name) "
    "where r.state = 'adopted'",
    "view_segments": "select r.model, v.hidden, (select array_agg(s.partition order by s.partition) "
    "from ops.segment_partitions s where s.relation_name = v.segment_name) "
    "from ops.view_segments v join ops.relations r on r.relation_name = v.view_name "
    "where r.state = 'adopted'",
    "partition_checks": "select model, definition_key, partitions from ops.partition_checks",
    "versions": "select version_id, pipeline, manifest_id, code_id, degraded, state from ops.versions",
    "version_models": "select version_id, model, content_key, published, parents, resources "
    "from ops.version_models",
    "verdicts": "select distinct stage, subject, suite, suite_hash, verdict, partitions "
    "from ops.verdicts",
    "judgements": "select subject, rule, version_id, verdict, partitions, based_on "
    "from ops.judgements",
    "breaches": "select version_id, subject, expectation, partition, content, failing "
    "from ops.breaches",
    "partition_extremes": "select partition_key, column_name, least, greatest "
    "from ops.partition_extremes",
    "publications": "select pipeline, version_id, previous_version_id, kind, slot, run_id "
    "from ops.publications",
    "messages": "select kind, owner, delivered_at is not null from ops.outbox",
    "version_schemas": "select nspname from pg_namespace where nspname like 'v\\_%'",
}


def observe(sluice: Sluice) -> dict[str, Any]:
    """All that must be the same however often a run was interrupted."""
    seen: dict[str, Any] = {
        name: sorted(map(repr, sluice.query(statement))) for name, statement in OBSERVATIONS.items()
    }
    for model, rows in sluice.everything_published().items():
        seen[f"analytics.{model}"] = (len(rows), hashlib.sha256(repr(rows).encode()).hexdigest())
    tables = sluice.query(
        "select relname from pg_class where relnamespace = 'staging'::regnamespace "
        "and relkind = 'r' and relname like 'flights\\_\\_%'"
    )
    for (table,) in tables:
        adopted = "_artifact_id in (select artifact_id from ops.artifacts where state = 'adopted')"
        [seen[f"staging.{table}"]] = sluice.query(
            f"select count(*) filter (where {adopted}), count(*) filter (where not {adopted}) "
            f"from staging.{table}"
        )
    return seen


def differences(sluice: Sluice, undisturbed: dict[str, Any]) -> dict[str, Any]:
    """name → (what is missing, what is too much)."""
    return compare(undisturbed, observe(sluice))


def compare(undisturbed: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """name → (what is missing, what is too much)."""
    return {
        name: (
            _without(undisturbed.get(name, ()), seen.get(name, ())),
            _without(seen.get(name, ()), undisturbed.get(name, ())),
        )
        for name in sorted({*undisturbed, *seen})
        if undisturbed.get(name) != seen.get(name)
    }


def unexplained(found: dict[str, Any], first_code: int) -> dict[str, Any]:
    """The differences without what rightly stays written of how the first process ended."""
    if first_code > 0:
        # It ended the run as failed, has told its owner so, and kept the attempts that failed.
        return {name: what for name, what in found.items() if name not in HISTORY}
    if first_code == 0 and found.get("unfinished") == UNTOLD:
        # It ended the run well but could tell nobody; the second process delivered the message.
        return {name: what for name, what in found.items() if name != "unfinished"}
    return found


def _without(these: Any, those: Any) -> list[Any]:
    return list((Counter(these) - Counter(those)).elements())
