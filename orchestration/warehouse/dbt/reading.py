"""From dbt's manifest to values: which models a selection needs, and what decides their content."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.canonical import canonical_jinja
from orchestration.warehouse.dbt.graph import ModelNode, OutsideModel
from orchestration.warehouse.names import staging_table

_TOOL_PACKAGES = frozenset({"dbt", "dbt_postgres"})
_NAMING_MACROS = frozenset(
    {"generate_schema_name", "generate_alias_name", "generate_database_name"}
)
_DISPATCHED = ("default__", "postgres__")
_LIVE_SCHEMA = "live"


def closure(
    manifest: Any, selected: Iterable[str], outside: Mapping[str, OutsideModel]
) -> list[str]:
    """Unique ids of the selected nodes and all they read, parents first, ephemeral ones included.

    Models named in `outside` belong to another pipeline and are not followed.
    """
    order: dict[str, None] = {}

    def visit(unique_id: str) -> None:
        if unique_id in order or unique_id not in manifest.nodes:
            return
        for parent in _parents(manifest, unique_id):
            if not _is_outside(manifest, parent, outside):
                visit(parent)
        order[unique_id] = None

    for unique_id in sorted(selected):
        if not _is_outside(manifest, unique_id, outside):
            visit(unique_id)
    return list(order)


def read_model(
    manifest: Any, unique_id: str, outside: Mapping[str, OutsideModel], project_dir: Path
) -> ModelNode:
    """The node as a value, without its compiled SQL (`with_compiled` adds that)."""
    node = manifest.nodes[unique_id]
    config = node.config.to_dict(omit_none=False)
    config["lookback"] = _lookback(node, config)
    meta = config.get("meta") or {}
    is_seed = node.resource_type == "seed"
    materialized = "seed" if is_seed else str(config.get("materialized"))
    reads = NodeReads(manifest, outside, node)
    return ModelNode(
        name=node.name,
        unique_id=unique_id,
        path=node.original_file_path,
        kind="view" if materialized == "view" else "table",
        materialized=materialized,
        parents=tuple(sorted(reads.parents)),
        resources=tuple(sorted(reads.resources)),
        outside=tuple(sorted(reads.outside)),
        config=config,
        contract=tuple(_contract(node)),
        build_macros=tuple(_build_macros(manifest, node, materialized)),
        jinja=tuple(reads.jinja),
        called_macros=tuple(sorted(reads.called)),
        seed_checksum=_file_digest(project_dir / node.original_file_path) if is_seed else None,
        depends_on_moment=tuple(sorted(map(str, meta.get("depends_on_moment") or ()))),
        partition_by=config.get("partition_by"),
        lookback=config["lookback"],
        group=node.config.group if hasattr(node.config, "group") else None,
        description=node.description,
    )


class NodeReads:
    """What a node reads and calls, ephemeral models and macros included."""

    def __init__(self, manifest: Any, outside: Mapping[str, OutsideModel], node: Any) -> None:
        self._manifest, self._outside = manifest, outside
        self.parents: set[str] = set()
        self.resources: set[str] = set()
        self.outside: set[str] = set()
        self.called: set[str] = set()
        self.jinja: list[tuple[str, str]] = []
        self._walk(node)

    def _walk(self, node: Any) -> None:
        if node.resource_type == "seed":
            return
        self.jinja.append((node.original_file_path, node.raw_code))
        self._call(node.depends_on.macros)
        for parent in node.depends_on.nodes:
            if (source := self._manifest.sources.get(parent)) is not None:
                self.resources.add(_resource(source, node))
                continue
            upstream = self._manifest.nodes[parent]
            if upstream.name in self._outside:
                self.outside.add(upstream.name)
            elif str(upstream.config.materialized) == "ephemeral":
                self._walk(upstream)
            else:
                self.parents.add(upstream.name)

    def _call(self, macros: Iterable[str]) -> None:
        for unique_id in macros:
            macro = self._manifest.macros.get(unique_id)
            if macro is None or unique_id in self.called:
                continue
            self.called.add(unique_id)
            if macro.package_name not in _TOOL_PACKAGES:
                self.jinja.append((macro.original_file_path, macro.macro_sql))
                self._call(macro.depends_on.macros)


def _lookback(node: Any, config: Mapping[str, Any]) -> Any:
    """The declared number of earlier partitions; dbt's own default of 1 is nobody's declaration."""
    declared = {*node.unrendered_config, *getattr(node, "config_call_dict", {})}
    return config.get("lookback", 0) if "lookback" in declared else 0


def _resource(source: Any, node: Any) -> str:
    if source.schema != _LIVE_SCHEMA:
        raise ConfigurationError(
            f"{node.name} ({node.original_file_path}) reads {source.source_name}.{source.name} "
            f"from schema {source.schema!r}; declare the source with `schema: {_LIVE_SCHEMA}`",
            code="source_schema",
        )
    resource = f"{source.source_name}.{source.name}"
    if source.identifier != staging_table(resource):
        raise ConfigurationError(
            f"{node.name} ({node.original_file_path}) reads {resource} from the table "
            f"{source.identifier!r}; declare it with `identifier: {staging_table(resource)}`",
            code="source_identifier",
        )
    return f"{source.source_name}.{source.name}"


def _contract(node: Any) -> Iterator[Any]:
    # Without an enforced contract neither types nor constraints reach the table.
    contract = getattr(node, "contract", None)
    if contract is None or not contract.enforced:
        return
    for column in node.columns.values():
        yield [
            column.name,
            column.data_type,
            bool(column.quote),
            [constraint.to_dict(omit_none=True) for constraint in column.constraints],
        ]
    for constraint in node.constraints:
        yield constraint.to_dict(omit_none=True)


def _build_macros(manifest: Any, node: Any, materialized: str) -> Iterator[str]:
    """The project's own macros that take part in building, in canonical form.

    Those of dbt and its adapter are known by version.
    """
    found = manifest.find_materialization_macro_by_name(node.package_name, materialized, "postgres")
    pending = [found.unique_id] if found is not None else []
    pending += _overrides(manifest)
    seen: set[str] = set()
    texts = []
    while pending:
        unique_id = pending.pop()
        macro = manifest.macros.get(unique_id)
        if macro is None or unique_id in seen:
            continue
        seen.add(unique_id)
        if macro.package_name not in _TOOL_PACKAGES:
            texts.append("\x1f".join([macro.name, *canonical_jinja(macro.macro_sql)]))
            pending += macro.depends_on.macros
    yield from sorted(texts)


def _overrides(manifest: Any) -> list[str]:
    macros = manifest.macros.values()
    tools = {_bare_name(macro.name) for macro in macros if macro.package_name in _TOOL_PACKAGES}
    return sorted(
        unique_id
        for unique_id, macro in manifest.macros.items()
        if macro.package_name not in _TOOL_PACKAGES
        and _bare_name(macro.name) in tools - _NAMING_MACROS
        and not macro.name.startswith("test_")
    )


def _bare_name(name: str) -> str:
    for prefix in _DISPATCHED:
        name = name.removeprefix(prefix)
    return name


def _parents(manifest: Any, unique_id: str) -> list[str]:
    node = manifest.nodes[unique_id]
    return [] if node.resource_type == "seed" else sorted(node.depends_on.nodes)


def _is_outside(manifest: Any, unique_id: str, outside: Mapping[str, OutsideModel]) -> bool:
    node = manifest.nodes.get(unique_id)
    return node is not None and str(node.name) in outside


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
