"""Whether one artifact fulfils, word by word, what its resource declares."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from psycopg import sql

from orchestration.pipelines.acceptance import ArtifactAcceptance, Severity
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.names import identifier, qualified, staging_table


@dataclass(frozen=True)
class Finding:
    """A declared word that an artifact does not fulfil. `blocks`: it may not enter a version.

    `policy` is what follows for the run, if its rule says so; else its resource does. `by_gate`: it
    was found in a version that had the artifact.
    """

    rule: str
    message: str
    blocks: bool = True
    policy: str | None = None
    by_gate: bool = False


def judge_artifact(
    connection: psycopg.Connection,
    artifact: Artifact,
    acceptance: ArtifactAcceptance,
    as_of: datetime,
) -> list[Finding]:
    """What the artifact lacks; the connection must be able to read staging."""
    findings = []
    fetched, loaded = artifact.fetched or 0, artifact.loaded or 0
    quarantined = artifact.quarantined or 0
    if loaded < acceptance.min_records:
        findings.append(
            Finding(
                "min_records", f"{loaded} records loaded, at least {acceptance.min_records} wanted"
            )
        )
    if quarantined > acceptance.max_quarantined_share * fetched:
        findings.append(
            Finding(
                "max_quarantined_share",
                f"{quarantined} of {fetched} records are in quarantine, at most "
                f"{acceptance.max_quarantined_share:.2%} may be",
            )
        )
    findings += _missing_fields(connection, artifact, acceptance.required_fields)
    if acceptance.freshness is not None and artifact.fetched_at is not None:
        allowed = timedelta(hours=acceptance.freshness.max_age_hours)
        age = as_of - artifact.fetched_at
        if age > allowed:
            hours = age.total_seconds() / 3600
            findings.append(
                Finding(
                    "freshness",
                    f"fetched {hours:.0f} hours before {as_of:%Y-%m-%d %H:%M}Z, at most "
                    f"{acceptance.freshness.max_age_hours:g} allowed",
                    blocks=acceptance.freshness.severity is Severity.ERROR,
                )
            )
    if artifact.unexpected_fields:
        findings.append(
            Finding(
                "unexpected_fields",
                "the source sends fields that the contract does not know: "
                + ", ".join(artifact.unexpected_fields),
                blocks=False,
            )
        )
    return findings


def _missing_fields(
    connection: psycopg.Connection, artifact: Artifact, required: tuple[str, ...]
) -> list[Finding]:
    if not required:
        return []
    table = staging_table(artifact.resource)
    known = {
        row[0]
        for row in connection.execute(
            "select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0",
            [f"staging.{table}"],
        ).fetchall()
    }
    absent = [field for field in required if field not in known]
    if absent:
        return [Finding("required_fields", f"staging has no column {', '.join(absent)}")]
    counts = sql.SQL(", ").join(
        sql.SQL("count(*) filter (where {} is null)").format(identifier(field))
        for field in required
    )
    row = connection.execute(
        sql.SQL("select {} from {} where _artifact_id = %s").format(
            counts, qualified("staging", table)
        ),
        [artifact.artifact_id],
    ).fetchone()
    return [
        Finding("required_fields", f"{field} is null in {nulls} records")
        for field, nulls in zip(required, row or (), strict=True)
        if nulls
    ]
