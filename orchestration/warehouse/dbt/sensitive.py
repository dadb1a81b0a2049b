"""Which columns of which models come from a field that a contract calls sensitive.

Followed through the compiled SQL, from the stored pseudonyms on. Where it cannot be followed, every
column of the model counts as sensitive: a report would rather show too little.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestration.warehouse.dbt.graph import (
    PLACEHOLDER_DATABASE,
    PLACEHOLDER_MODELS,
    PLACEHOLDER_SOURCES,
    ModelNode,
    ProjectGraph,
)
from orchestration.warehouse.names import staging_table

EVERY_COLUMN = "*"
Sensitive = frozenset[str]


@dataclass(frozen=True)
class SourceColumns:
    """What is stored of one resource: its columns in order, and which of them are sensitive."""

    columns: Sequence[str]
    sensitive: frozenset[str] = frozenset()


def sensitive_columns(
    graph: ProjectGraph, sources: Mapping[str, SourceColumns]
) -> dict[str, Sensitive]:
    """model → its sensitive columns, `*` for all of them; `sources` by resource.

    A column says otherwise by `meta: {sensitive: true}` or `false` (a count of people is no person).
    """
    tracer = _Tracer(graph, sources)
    for model in graph.models:
        tracer.trace(model)
    return tracer.found


def is_sensitive(column: str, sensitive: Sensitive) -> bool:
    return column in sensitive or EVERY_COLUMN in sensitive


@dataclass
class _Tracer:
    graph: ProjectGraph
    sources: Mapping[str, SourceColumns]
    found: dict[str, Sensitive] = field(default_factory=dict)
    _columns: dict[str, list[str]] = field(default_factory=dict)

    def trace(self, model: ModelNode) -> None:
        found = self._followed(model) if self._reads_any(model) else frozenset[str]()
        if EVERY_COLUMN in found and (known := _contract_columns(model)):
            found = frozenset(known)
        declared = self._declared(model)
        said = {name for name, is_so in declared.items() if is_so}
        self.found[model.name] = frozenset((found | said) - (declared.keys() - said))

    def _declared(self, model: ModelNode) -> dict[str, bool]:
        node = self.graph.manifest.nodes[model.unique_id]
        declared = {}
        for name, column in node.columns.items():
            meta = {**(column.meta or {}), **(getattr(column.config, "meta", None) or {})}
            if "sensitive" in meta:
                declared[str(name)] = bool(meta["sensitive"])
        return declared

    def _reads_any(self, model: ModelNode) -> bool:
        return (
            any(self._of_resource(name).sensitive for name in model.resources)
            or any(self.found[name] for name in model.parents)
            # What another pipeline publishes is not known here.
            or bool(model.outside)
        )

    def _of_resource(self, name: str) -> SourceColumns:
        return self.sources.get(name) or SourceColumns((), frozenset({EVERY_COLUMN}))

    def _followed(self, model: ModelNode) -> Sensitive:
        from sqlglot.errors import SqlglotError

        tables = {
            (PLACEHOLDER_SOURCES, staging_table(name)): self._of_resource(name).sensitive
            for name in model.resources
        }
        tables |= {(PLACEHOLDER_MODELS, name): self.found[name] for name in model.parents}
        try:
            return _derived(model.compiled_code, self._schema(model), tables)
        except (SqlglotError, *_LOST):
            return frozenset({EVERY_COLUMN})

    def _schema(self, model: ModelNode) -> dict[str, Any]:
        """The columns of all that the model reads, as sqlglot wants them."""
        resources = {
            staging_table(name): self._of_resource(name).columns for name in model.resources
        }
        models = {name: self._output(self.graph.model(name)) for name in model.parents}
        return {
            PLACEHOLDER_DATABASE: {
                schema: {table: dict.fromkeys(columns, "text") for table, columns in held.items()}
                for schema, held in ((PLACEHOLDER_SOURCES, resources), (PLACEHOLDER_MODELS, models))
                if held
            }
        }

    def _output(self, model: ModelNode) -> list[str]:
        if known := _contract_columns(model):
            return known
        if model.name not in self._columns:
            self._columns[model.name] = list(
                _qualified(model.compiled_code, self._schema(model)).named_selects
            )
        return self._columns[model.name]


def _contract_columns(model: ModelNode) -> list[str]:
    return [str(part[0]) for part in model.contract if isinstance(part, list)]


class _UnknownError(Exception):
    """The SQL does something with its rows that cannot be followed column by column."""


# What following a query ends in that does not let itself be followed.
_LOST = (_UnknownError, ValueError, LookupError, AttributeError, RecursionError)


def _derived(
    code: str, schema: dict[str, Any], tables: Mapping[tuple[str, str], Sensitive]
) -> Sensitive:
    """The output columns that are made from a sensitive column of `tables` (schema, name)."""
    from sqlglot import exp
    from sqlglot.lineage import lineage
    from sqlglot.optimizer.scope import build_scope

    tree = _qualified(code, schema)
    _refuse_whole_rows(tree)
    scope = build_scope(tree)
    derived = set()
    for column in tree.named_selects:
        traced = lineage(column, tree, schema=schema, scope=scope, dialect="postgres")
        for node in traced.walk():
            if not isinstance(node.expression, exp.Table):
                continue
            sensitive = tables.get((node.expression.db, node.expression.name))
            read = exp.to_column(node.name, dialect="postgres").name
            if sensitive is None or is_sensitive(read, sensitive):
                derived.add(column)
    return frozenset(derived)


def _qualified(code: str, schema: dict[str, Any]) -> Any:
    import sqlglot
    from sqlglot.optimizer.qualify import qualify

    tree = qualify(
        sqlglot.parse_one(code, dialect="postgres"),
        schema=schema,
        dialect="postgres",
        validate_qualify_columns=True,
    )
    if EVERY_COLUMN in tree.named_selects or not tree.named_selects:
        raise _UnknownError
    return tree


def _refuse_whole_rows(tree: Any) -> None:
    """Refuses rows that are used as one value, and columns that are named anew outside a SELECT."""
    from sqlglot import exp

    if tree.find(*(getattr(exp, name) for name in _STRANGE if hasattr(exp, name))) is not None:
        raise _UnknownError
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        raise _UnknownError
    if any(alias.args.get("columns") for alias in tree.find_all(exp.TableAlias)):
        raise _UnknownError


_STRANGE = (
    "TableColumn",
    "Dot",
    "Lateral",
    "Unnest",
    "Explode",
    "Pivot",
    "TableFromRows",
    "Command",
)
