"""Manifests with other relation names, so that ref() and source() lead where a version needs."""

from collections.abc import Mapping
from typing import Any

from orchestration.warehouse.dbt.graph import (
    PLACEHOLDER_DATABASE,
    PLACEHOLDER_MODELS,
    PLACEHOLDER_SOURCES,
    OutsideModel,
)
from orchestration.warehouse.names import staging_table

STORE_SCHEMA = "store"
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
    manifest: Any, relations: Mapping[str, str], outside: Mapping[str, OutsideModel]
) -> Any:
    """A copy in which models live in schema store under the names given for them.

    Grants are the store's business, so dbt applies none.
    """
    copy = manifest.deepcopy()
    names = dict(relations) | {name: model.relation_name for name, model in outside.items()}
    for node in copy.nodes.values():
        if node.resource_type in _RELATIONAL and (relation := names.get(node.name)) is not None:
            _rename(node, node.database, STORE_SCHEMA, relation)
            node.config.grants = {}
    return copy


def placeholder_names(
    manifest: Any, relations: Mapping[str, str], outside: Mapping[str, OutsideModel]
) -> dict[str, str]:
    """The relation as dbt writes it when it builds → its placeholder, for models and sources."""
    names = dict(relations) | {name: model.relation_name for name, model in outside.items()}
    found = {}
    for node in manifest.nodes.values():
        if node.resource_type in _RELATIONAL and (relation := names.get(node.name)) is not None:
            written = _quoted(node.database, STORE_SCHEMA, relation)
            found[written] = _quoted(PLACEHOLDER_DATABASE, PLACEHOLDER_MODELS, node.name)
    for source in manifest.sources.values():
        written = _quoted(source.database, source.schema, source.identifier)
        table = staging_table(f"{source.source_name}.{source.name}")
        found[written] = _quoted(PLACEHOLDER_DATABASE, PLACEHOLDER_SOURCES, table)
    return found


def _rename(node: Any, database: str, schema: str, alias: str) -> None:
    node.database, node.schema, node.alias = database, schema, alias
    if node.config.get("materialized") != "ephemeral":
        node.relation_name = _quoted(database, schema, alias)


def _quoted(*parts: str) -> str:
    return ".".join(f'"{part}"' for part in parts)
