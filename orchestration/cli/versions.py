"""`sluice versions list|show` and `sluice rollback`."""

from typing import Any

import psycopg

from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.reading import reading
from orchestration.publication.versions import resolve_version
from orchestration.sql.rows import fetch


def list_them(*, pipeline: str | None, state: str | None, limit: int, as_json: bool) -> None:
    with reading() as connection:
        rows = fetch(
            connection,
            "select v.version_id, v.pipeline, v.state, p.version_id is not null as published, "
            "exists (select from ops.version_pins n where n.version_id = v.version_id) as pinned, "
            "v.degraded, v.manifest_id, v.run_id, v.code_id, left(v.code_commit, 10) as commit, "
            "v.code_dirty as dirty, v.created_at, v.published_at "
            "from ops.versions v left join ops.publication_pointer p "
            "on p.pipeline = v.pipeline and p.version_id = v.version_id "
            "where (%s::text is null or v.pipeline = %s) and (%s::text is null or v.state = %s) "
            "order by v.created_at desc limit %s",
            [pipeline, pipeline, state, state, limit],
        )
    if as_json:
        print_json(rows)
        return
    columns = [
        "version_id",
        "pipeline",
        "state",
        "published",
        "pinned",
        "degraded",
        "commit",
        "dirty",
        "created_at",
        "run_id",
    ]
    narrowed = pipeline is not None or state is not None
    empty = "no version fits" if narrowed else "there is no version yet; run: sluice demo"
    print_rows("versions", columns, rows, empty)


def show(prefix: str | None, *, as_json: bool) -> None:
    with reading() as connection:
        version = resolve_version(connection, prefix)
        facts: dict[str, Any] = fetch(
            connection,
            "select version_id, pipeline, state, degraded, manifest_id, run_id, code_id, "
            "code_commit as commit, code_dirty as dirty, created_at, published_at "
            "from ops.versions where version_id = %s",
            [version.version_id],
        )[0]
        models = fetch(
            connection,
            "select m.model, m.published, r.kind, r.row_count as rows, m.relation_name as relation, "
            "m.content_key, m.parents, m.resources from ops.version_models m "
            "join ops.relations r using (relation_name) where m.version_id = %s order by 1",
            [version.version_id],
        )
        artifacts = fetch(
            connection,
            "select resource, count(*) as partitions, min(window_name) as first, "
            "max(window_name) as last, sum(a.loaded)::bigint as records from ops.manifest_artifacts m "
            "join ops.artifacts a using (artifact_id, resource, window_name) "
            "where m.manifest_id = %s group by 1 order by 1",
            [version.manifest_id],
        )
        pins = fetch(
            connection,
            "select reason, actor, pinned_at from ops.version_pins where version_id = %s",
            [version.version_id],
        )
        facts["pin"] = pins[0] if pins else None
        facts["schema"] = _schema(connection, version.version_id)
        publications = fetch(
            connection,
            "select publication_id, kind, slot, previous_version_id as previous, actor, reason, "
            "published_at from ops.publications where version_id = %s order by 1",
            [version.version_id],
        )
    if as_json:
        print_json(facts | {"models": models, "artifacts": artifacts, "publications": publications})
        return
    print_facts(facts)
    print_rows("models", ["model", "published", "kind", "rows", "relation"], models, "no models")
    print_rows(
        "built from", ["resource", "partitions", "first", "last", "records"], artifacts, "nothing"
    )
    print_rows(
        "publications",
        ["publication_id", "kind", "previous", "actor", "reason", "published_at"],
        publications,
        "never published",
    )


def _schema(connection: psycopg.Connection, version_id: str) -> str | None:
    """The version's own schema, if it has one: it is under its gate, held, or pinned."""
    [row] = fetch(connection, "select to_regnamespace(%s)::text as name", [version_id])
    return str(row["name"]) if row["name"] else None


def roll_back(prefix: str | None, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    """Takes the pipeline's build lease, so that no run publishes meanwhile."""
    from orchestration.cli.session import (
        open_warehouse,
        operator_name,
        prepare_logs,
        read_settings,
    )
    from orchestration.errors import ConfigurationError
    from orchestration.notifications.routes import read_alerts
    from orchestration.pipelines.files import get_pipeline
    from orchestration.publication.rollback import rollback
    from orchestration.runs.messages import deliver_left_over
    from orchestration.runs.operating import hold_build_lease
    from orchestration.warehouse.connections import Role

    settings = read_settings()
    prepare_logs(settings)
    warehouse = open_warehouse(settings)
    actor = operator_name(settings, warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        if prefix is not None:
            target = resolve_version(connection, prefix, pipeline)
            name, version = target.pipeline, target.version_id
        else:
            published = [
                row["pipeline"]
                for row in fetch(
                    connection, "select pipeline from ops.publication_pointer order by 1"
                )
            ]
            if pipeline is None and len(published) != 1:
                raise ConfigurationError(
                    f"say which pipeline to roll back with --pipeline: {', '.join(published)}"
                    if published
                    else "nothing is published, so there is nothing to roll back",
                    code="which_pipeline",
                )
            name, version = pipeline or published[0], None
    with hold_build_lease(
        warehouse, name, on_wait=lambda _: say("a run builds for this pipeline; waiting for it")
    ) as lease:
        publication = rollback(
            warehouse,
            name,
            version,
            reason=reason,
            lease=lease,
            owner=get_pipeline(settings.pipelines_dir, name).owner.email,
            actor=actor,
        )
    deliver_left_over(warehouse, read_alerts(settings))
    answer = {
        "outcome": publication.outcome,
        "pipeline": name,
        "version": publication.version_id,
        "previous": publication.previous,
        "publication_id": publication.publication_id,
    }
    print_json(answer) if as_json else print_facts(answer)
