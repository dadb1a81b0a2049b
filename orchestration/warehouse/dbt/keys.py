"""Content keys: the same key means the same stored rows, so nothing is ever built twice.

Pure: a graph and the checksums of what it reads go in, keys come out. A key never depends on
descriptions, tags, paths, the run, the machine or the time.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.warehouse.dbt.canonical import canonical_sql
from orchestration.warehouse.dbt.checks import check_models, stored_config
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph

# Raise it when the meaning of a key changes: everything is then built anew.
KEY_FORMAT = 1
TOOLS = ("dbt-core", "dbt-adapters", "dbt-postgres")


Windows = Mapping[str, Mapping[str, str]]
"""resource → window → checksum of what the manifest holds of it; no entry for snapshots."""


@dataclass(frozen=True)
class ModelKeys:
    """`definition_key` identifies how a model is made, `content_key` also what it is made from.

    `partition_keys` is there for models and views that can be read a partition at a time: equal
    keys mean equal rows of that partition. `windows` are the input windows of each partition.
    """

    model: str
    definition_key: str
    content_key: str
    partition_keys: Mapping[str, str] | None = None
    windows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def compute_keys(
    graph: ProjectGraph,
    checksums: Mapping[str, str],
    shapes: Mapping[str, str] | None = None,
    windows: Windows | None = None,
) -> dict[str, ModelKeys]:
    """Keys of every model of the graph, by name.

    `checksums` maps each resource to a digest of the content that the manifest holds of it, `shapes`
    to one of the columns its live view has, so that `select *` follows a new column; `windows` has
    the checksum of every window of the resources that are loaded by window. Raises
    `ConfigurationError` for models that cannot be keyed, or when a checksum is missing.
    """
    check_models(graph)
    windows = windows or {}
    if missing := sorted(set(graph.resources) - set(checksums)):
        raise ConfigurationError(
            f"the models read {', '.join(missing)}, which the pipeline does not load; add that to "
            "its resources, or take the models out of its dbt selection",
            code="resource_missing",
        )
    tools = tool_versions()
    keys: dict[str, ModelKeys] = {}
    for model in graph.models:
        definition = definition_key(model, tools, shapes or {})
        content = {
            "definition": definition,
            "parents": {name: keys[name].content_key for name in model.parents},
            "outside": {name: graph.outside[name].content_key for name in model.outside},
            "resources": {name: checksums[name] for name in model.resources},
        }
        if model.kind == "table" and not model.is_partitioned:
            keys[model.name] = ModelKeys(model.name, definition, digest(content))
            continue
        own, read = _partition_keys(model, keys, windows, content)
        if own is not None and model.is_partitioned:
            content = {"definition": definition, "partitions": own}
        keys[model.name] = ModelKeys(model.name, definition, digest(content), own, read)
    return keys


def _partition_keys(
    model: ModelNode, keys: Mapping[str, ModelKeys], windows: Windows, content: Mapping[str, Any]
) -> tuple[dict[str, str] | None, dict[str, tuple[str, ...]]]:
    """(partition → key, partition → windows read), or (None, {}) when no input has partitions.

    Inputs without partitions join every key with their whole content.
    """
    inputs: dict[str, Mapping[str, str]] = {
        f"resource {name}": windows[name] for name in model.resources if name in windows
    }
    for name in model.parents:
        of_parent = keys[name].partition_keys
        if of_parent is not None:
            inputs[f"model {name}"] = of_parent
    if not inputs:
        _refuse_unpartitioned(model)
        return None, {}
    whole = {
        "definition": content["definition"],
        "outside": content["outside"],
        "parents": {n: k for n, k in content["parents"].items() if f"model {n}" not in inputs},
        "resources": {n: k for n, k in content["resources"].items() if n not in windows},
    }
    known = sorted({window for held in inputs.values() for window in held})
    read = [slice(max(0, place - model.lookback), place + 1) for place, _ in enumerate(known)]
    own = dict(zip(known, _digests(digest(whole), inputs, known, read), strict=True))
    return own, {window: tuple(known[part]) for window, part in zip(known, read, strict=True)}


def _digests(
    base: str,
    inputs: Mapping[str, Mapping[str, str]],
    known: Sequence[str],
    read: Iterable[slice],
) -> Iterator[str]:
    """Digests of what the inputs hold of some of the known windows, for each part that is read.

    There is one for each day of a long history, so it does without JSON: names and checksums have
    no line breaks, and a missing window is not an empty one.
    """
    lines = [
        (name, [f"{window} {held.get(window, '-')}" for window in known])
        for name, held in inputs.items()
    ]
    for part in read:
        parts = [base]
        for name, of_input in lines:
            parts.append(name)
            parts += of_input[part]
        yield hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _refuse_unpartitioned(model: ModelNode) -> None:
    if model.is_partitioned:
        raise ConfigurationError(
            f"{model.title}: has partition_by, but reads nothing that is loaded by window; take "
            "partition_by out of its config",
            code="model_refused",
        )


def definition_key(model: ModelNode, tools: Mapping[str, str], shapes: Mapping[str, str]) -> str:
    """64 hex digits for everything but data: SQL, stored config, contract, macros, seed, tools."""
    return digest(definition_inputs(model, tools, shapes))


def definition_inputs(
    model: ModelNode, tools: Mapping[str, str], shapes: Mapping[str, str]
) -> dict[str, Any]:
    """What a definition key is the digest of, part by part."""
    return {
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


def tool_versions() -> dict[str, str]:
    """The tools that decide what SQL means, by version."""
    return {name: version(name) for name in TOOLS}


def view_key(definition: str, parent_relations: Mapping[str, str]) -> str:
    """The key of a view as an object: what it says and over which relations, whatever they hold."""
    return digest({"view": definition, "parents": dict(parent_relations)})
