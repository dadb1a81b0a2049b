"""dbt's own documentation of the project as one page, over what readers see in schema analytics."""

from collections.abc import Mapping
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.patching import with_relations
from orchestration.warehouse.dbt.project import parse_project
from orchestration.warehouse.dbt.session import DbtSession, invoke

_PUBLISHED_SCHEMA = "analytics"


def documentation_page(
    session: DbtSession, relations: Mapping[str, str], published: set[str]
) -> bytes:
    """HTML that needs no other file and no network.

    `relations` maps models to their relations in schema store; those in `published` are described
    as readers find them. Raises `ConfigurationError` when dbt refuses the project.
    """
    manifest = with_relations(parse_project(session), relations, {})
    for node in manifest.nodes.values():
        if node.resource_type == "model" and node.name in published:
            _show_published(node)
    done = invoke(session, ["docs", "generate", "--static"], manifest, writes_json=True)
    done.raise_if_broken("dbt cannot document the project")
    page = session.work_dir / "target" / "static_index.html"
    if not page.is_file():
        raise ConfigurationError(
            "dbt made no page; see what it says to: dbt docs generate --static", code="dbt_project"
        )
    return page.read_bytes()


def _show_published(node: Any) -> None:
    node.schema, node.alias = _PUBLISHED_SCHEMA, node.name
    node.relation_name = f'"{node.database}"."{_PUBLISHED_SCHEMA}"."{node.name}"'
