"""Content keys: the same key means the same stored rows, so nothing is ever built twice.

Pure: a graph and the checksums of what it reads go in, keys come out. A key never depends on
descriptions, tags, paths, the run, the machine or the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.warehouse.dbt.canonical import canonical_sql
from orchestration.warehouse.dbt.checks import check_models, stored_config
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph

# Raise it when the meaning of a key changes: everything is then built anew.
KEY_FORMAT = 1
_TOOLS = ("dbt-core", "dbt-adapters", "dbt-postgres")


@dataclass(frozen=True)
class ModelKeys:
    """`definition_key` identifies how a model is made, `content_key` also what it is made from."""

    model: str
    definition_key: str
    content_key: str


def compute_keys(
    graph: ProjectGraph,
    checksums: Mapping[str, str],
    shapes: Mapping[str, str] | None = None,
) -> dict[str, ModelKeys]:
    """Keys of every model of the graph, by name.

    `checksums` maps each resource to a digest of the content that the manifest holds of it, `shapes`
    to one of the columns its live view has, so that `select *` follows a new column. Raises
    `ConfigurationError` for models that cannot be keyed, or when a checksum is missing.
    """
    check_models(graph)
    if missing := sorted(set(graph.resources) - set(checksums)):
        raise ConfigurationError(
            f"the models read {', '.join(missing)}, which the pipeline does not load; add that to "
            "its resources, or take the models out of its dbt selection",
            code="resource_missing",
        )
    tools = {name: version(name) for name in _TOOLS}
    keys: dict[str, ModelKeys] = {}
    for model in graph.models:
        definition = definition_key(model, tools, shapes or {})
        content = digest(
            {
                "definition": definition,
                "parents": {name: keys[name].content_key for name in model.parents},
                "outside": {name: graph.outside[name].content_key for name in model.outside},
                "resources": {name: checksums[name] for name in model.resources},
            }
        )
        keys[model.name] = ModelKeys(model.name, definition, content)
    return keys


def definition_key(model: ModelNode, tools: Mapping[str, str], shapes: Mapping[str, str]) -> str:
    """64 hex digits for everything but data: SQL, stored config, contract, macros, seed, tools."""
    return digest(
        {
            "format": KEY_FORMAT,
            "tools": dict(tools),
            "kind": model.kind,
            "sql": canonical_sql(model.compiled_code),
            "config": stored_config(model.config),
            "contract": list(model.contract),
            "macros": list(model.build_macros),
            "shapes": {name: shapes.get(name) for name in model.resources},
            "seed": model.seed_checksum,
            "moment": sorted(model.depends_on_moment),
        }
    )


def view_key(definition: str, parent_relations: Mapping[str, str]) -> str:
    """The key of a view as an object: what it says and over which relations, whatever they hold."""
    return digest({"view": definition, "parents": dict(parent_relations)})
