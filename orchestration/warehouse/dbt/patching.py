"""Manifests with other relation names, so that ref() and source() lead where a version needs."""

from collections.abc import Mapping
from typing import Any

from orchestration.warehouse.dbt.graph import (
    PLACEHOLDER_DATABASE,
    PLACEHOLDER_MODELS,
    PLACEHOLDER_SOURCES,
    OutsideModel,
    ProjectGraph,
)
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.names import staging_table
from orchestration.warehouse.segments.places import IN_STORE, Places

_RELATIONAL = ("model", "seed", "snapshot")


def with_placeholders(manifest: Any) -> Any:
    """A copy in which every relation is called the same on every machine."""
    copy = manifest.deepcopy()
    for node in copy.nodes.values():
        if node.resource_type in _RELATIONAL:
            _rename(node, PLACEHOLDER_DATABASE, PLACEHOLDER_MODELS, node.name)
    for source in copy.sources.values():
        source.database = PLACEHOLDER_DATABASE
        source.schema = PLACEHOLDER_SOURCES
        source.identifier = staging_table(f"{source.source_name}.{source.name}")
        source.relation_name = _quoted(source.database, source.schema, source.identifier)
    return copy


def with_relations(
    manifest: Any,
    relations: Mapping[str, str],
    outside: Mapping[str, OutsideModel],
    places: Places = IN_STORE,
) -> Any:
    """A copy in which models live where `places` says, under the names given for them.

    Grants are the store's business, so dbt applies none.
    """
    copy = manifest.deepcopy()
    names = dict(relations) | {name: model.relation_name for name, model in outside.items()}
    for node in copy.nodes.values():
        if node.resource_type in _RELATIONAL and (relation := names.get(node.name)) is not None:
            _rename(node, node.database, places.schema_of(relation), relation)
            node.config.grants = {}
    return copy


def with_tests(
    graph: ProjectGraph,
    relations: Mapping[str, str],
    statements: Mapping[str, str | None],
    places: Places = IN_STORE,
) -> Any:
    """A copy in which data tests keep no rows, and these say what is given (unique id → SQL)."""
    copy = with_relations(graph.manifest, relations, graph.outside, places)
    for unique_id, node in copy.nodes.items():
        if node.resource_type != "test":
            continue
        node.config.store_failures = False
        node.config.store_failures_as = None
        if (text := statements.get(unique_id)) is not None:
            node.raw_code = _raw(text)
    return copy


def with_builds(writer: Writer) -> Any:
    """A copy in which every model that dbt is to build says exactly what the writer writes for it.

    A model that depends on the moment keeps its own Jinja, and is rendered when it runs.
    """
    from dbt.artifacts.resources import Hook

    places = writer.places
    copy = with_relations(
        writer.graph.manifest, writer.plan.relations, writer.graph.outside, places
    )
    for planned in writer.plan.by_dbt:
        model = writer.graph.model(planned.model)
        node = copy.nodes[model.unique_id]
        name = planned.relation_name
        _rename(node, node.database, places.schema_of(name), name)
        if model.materialized == "seed" or model.depends_on_moment:
            continue
        statements = writer.build(planned)
        node.raw_code = _raw(statements.code)
        node.config.pre_hook = [Hook(sql=_raw(text)) for text in statements.before]
        node.config.post_hook = [Hook(sql=_raw(text)) for text in statements.after]
    return copy


def _raw(text: str) -> str:
    """SQL that Jinja leaves as it is."""
    # The one word that would end it is cut in two.
    return "{% raw %}" + text.replace("endraw", "end{% endraw %}{% raw %}raw") + "{% endraw %}"


def _rename(node: Any, database: str, schema: str, alias: str) -> None:
    node.database, node.schema, node.alias = database, schema, alias
    if node.config.get("materialized") != "ephemeral":
        node.relation_name = _quoted(database, schema, alias)


def _quoted(*parts: str) -> str:
    return ".".join(f'"{part}"' for part in parts)
