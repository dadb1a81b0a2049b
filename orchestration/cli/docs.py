"""`sluice docs`: dbt's documentation as one page beside the reports."""

import tempfile
from pathlib import Path

from orchestration.cli.output import print_json, say, write_file
from orchestration.cli.session import open_warehouse, read_settings


def write_docs(*, output: Path | None, as_json: bool) -> None:
    """Without `output` the page goes below SLUICE_HOME, beside the reports."""
    from orchestration.warehouse.connections import Role
    from orchestration.warehouse.dbt.documentation import documentation_page
    from orchestration.warehouse.dbt.session import DbtSession

    settings = read_settings()
    warehouse = open_warehouse(settings)
    with warehouse.connect(Role.ANALYST) as connection:
        rows = connection.execute(
            "select m.model, m.relation_name, m.published from ops.publication_pointer "
            "join ops.version_models m using (version_id)"
        ).fetchall()
    say("asking dbt for its documentation")
    with tempfile.TemporaryDirectory(prefix="sluice-docs-") as folder:
        session = DbtSession(
            project_dir=settings.dbt_project_dir,
            work_dir=Path(folder),
            url=warehouse.url(Role.ANALYST),
            cache_dir=settings.dbt_cache_dir,
        )
        page = documentation_page(
            session,
            {model: relation for model, relation, _ in rows},
            {model for model, _, is_published in rows if is_published},
        )
    file = write_file(output or settings.home_dir / "reports" / "docs.html", page)
    if as_json:
        print_json({"docs": str(file)})
    else:
        print(file)  # noqa: T201
