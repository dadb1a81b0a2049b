"""The state of a dbt project behind a version: its manifest, and what each model declares.

Kept with the version, since neither the machine nor the commit it came from need be at hand later.
The same project gives the same bytes on every machine and at any time.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestration.identity import digest
from orchestration.warehouse.dbt.grain import Grain, declared_grain
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys, definition_inputs, tool_versions
from orchestration.warehouse.dbt.parts import definition_parts
from orchestration.warehouse.dbt.sensitive import SourceColumns, sensitive_columns

_OF_ONE_READING = (
    *("generated_at", "invocation_id", "invocation_started_at", "run_started_at"),
    *("user_id", "send_anonymous_usage_stats"),
)
_RELATIONAL = ("model", "seed", "snapshot")
_OBJECTS = ("nodes", "sources", "macros", "docs", "exposures", "groups", "unit_tests", "disabled")


@dataclass(frozen=True)
class ModelState:
    """What the project says of one model; `parts` see `definition_parts`."""

    definition_key: str
    parts: Mapping[str, Any]
    key: tuple[str, ...] = ()
    key_source: str | None = None
    sensitive: frozenset[str] = frozenset()
    lookback: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"key": list(self.key), "sensitive": sorted(self.sensitive)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ModelState":
        known = {**value, "key": tuple(value["key"]), "sensitive": frozenset(value["sensitive"])}
        return cls(**known)


@dataclass(frozen=True)
class DbtState:
    """The project as a whole. `manifest` is dbt's, without moments and relation names."""

    manifest: Mapping[str, Any]
    models: Mapping[str, ModelState] = field(default_factory=dict)

    @property
    def state_id(self) -> str:
        """Digest of the content."""
        models = {name: model.as_json() for name, model in self.models.items()}
        return digest([self.manifest, models])

    def packed_manifest(self) -> bytes:
        return zlib.compress(json.dumps(self.manifest, sort_keys=True).encode(), 9)


def unpack_manifest(packed: bytes) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(zlib.decompress(packed))
    return manifest


def describe_state(
    graph: ProjectGraph,
    keys: Mapping[str, ModelKeys],
    shapes: Mapping[str, str],
    sources: Mapping[str, SourceColumns],
) -> DbtState:
    """The state of the project that `graph` was read from; nothing is written.

    `shapes` are those that the keys were computed with, `sources` see `sensitive_columns`.
    """
    manifest = neutral_manifest(graph.manifest)
    macro_files = {macro["original_file_path"] for macro in manifest["macros"].values()}
    sensitive = sensitive_columns(graph, sources)
    tools = tool_versions()
    models = {}
    for model in graph.models:
        inputs = definition_inputs(model, tools, shapes)
        grain = declared_grain(manifest, model.unique_id) or Grain((), "unique_test")
        models[model.name] = ModelState(
            definition_key=keys[model.name].definition_key,
            parts=definition_parts(model, inputs, macro_files),
            key=grain.columns,
            key_source=grain.declared_by if grain.columns else None,
            sensitive=sensitive[model.name],
            lookback=model.lookback,
        )
    return DbtState(manifest, models)


def neutral_manifest(manifest: Any) -> dict[str, Any]:
    """dbt's manifest as JSON, without what differs between two readings of the same files."""
    copy = manifest.deepcopy()
    # Who runs dbt is left out below, and cannot be asked before dbt has run in this process.
    copy.fill_tracking_metadata = lambda: None
    document: dict[str, Any] = json.loads(
        json.dumps(copy.writable_manifest().to_dict(omit_none=True), default=str)
    )
    for name in _OF_ONE_READING:
        document["metadata"].pop(name, None)
    document["metadata"]["env"] = {}
    for group in _OBJECTS:
        for entry in (document.get(group) or {}).values():
            for each in entry if isinstance(entry, list) else [entry]:
                each.pop("created_at", None)
                _forget_place(each)
    for links in ("child_map", "parent_map"):
        document[links] = {name: sorted(ids) for name, ids in document[links].items()}
    return document


def _forget_place(entry: dict[str, Any]) -> None:
    for name in ("root_path", "relation_name", "database"):
        if entry.get(name):
            entry[name] = None


def with_relations(
    manifest: Mapping[str, Any], relations: Mapping[str, tuple[str, str]], database: str
) -> dict[str, Any]:
    """The manifest with models where they are in a warehouse: model → (schema, name)."""
    document: dict[str, Any] = json.loads(json.dumps(manifest))
    for node in document["nodes"].values():
        node["database"] = database
        if node["resource_type"] in _RELATIONAL and node["name"] in relations:
            node["schema"], node["alias"] = relations[node["name"]]
            node["relation_name"] = _quoted(database, node["schema"], node["alias"])
    for source in document["sources"].values():
        source["database"] = database
        source["relation_name"] = _quoted(database, source["schema"], source["identifier"])
    return document


def _quoted(*names: str) -> str:
    return ".".join(f'"{name}"' for name in names)
