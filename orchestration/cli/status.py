"""`sluice status`: what is published, what a run came to and why, who owns it, what to type next."""

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.reading import reading
from orchestration.errors import ConfigurationError
from orchestration.runs.diagnosis import diagnose
from orchestration.runs.state import resolve_run
from orchestration.sql.rows import fetch


def status(prefix: str | None, *, as_json: bool) -> None:
    with reading() as connection:
        published = fetch(
            connection,
            "select p.pipeline, p.version_id as version, b.published_at, b.kind "
            "from ops.publication_pointer p join ops.publications b using (publication_id) order by 1",
        )
        try:
            run = diagnose(connection, resolve_run(connection, prefix))
        except ConfigurationError:
            if prefix is not None:
                raise
            run = None
    if as_json:
        print_json({"published": published, "run": run})
        return
    print_rows(
        "published",
        ["pipeline", "version", "published_at", "kind"],
        published,
        "nothing is published yet",
    )
    print_facts({"next": "sluice demo"} if run is None else run)
