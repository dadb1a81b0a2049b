"""What Sluice knows of the models of one selection, as values: no dbt object is needed to read it.

Everything that can change what a model stores is in here, and nothing that cannot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

RelationKind = Literal["table", "view"]

# While keys are computed, relations carry these names, the same on every machine.
PLACEHOLDER_DATABASE = "sluice"
PLACEHOLDER_MODELS = "model"
PLACEHOLDER_SOURCES = "source"

# The column that says which window of the inputs a row belongs to.
PARTITION_COLUMN = "_partition"


@dataclass(frozen=True)
class OutsideModel:
    """A model of another pipeline that is read as that pipeline published it."""

    relation_name: str
    content_key: str


@dataclass(frozen=True)
class ModelNode:
    """One model (or seed) as declared and compiled.

    `parents` and `resources` see through ephemeral models. `compiled_code` names relations by
    placeholder: `"sluice"."model"."<model>"` and `"sluice"."source"."<source>__<table>"`.
    """

    name: str
    unique_id: str
    path: str
    kind: RelationKind
    materialized: str
    parents: tuple[str, ...]
    resources: tuple[str, ...]
    outside: tuple[str, ...] = ()
    compiled_code: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    contract: tuple[Any, ...] = ()
    build_macros: tuple[str, ...] = ()
    jinja: tuple[tuple[str, str], ...] = ()
    called_macros: tuple[str, ...] = ()
    seed_checksum: str | None = None
    depends_on_moment: tuple[str, ...] = ()
    partition_by: str | None = None
    lookback: int = 0
    group: str | None = None
    description: str = ""

    @property
    def title(self) -> str:
        """The model and its file, for messages."""
        return f"{self.name} ({self.path})"

    @property
    def is_partitioned(self) -> bool:
        """Whether it is kept as segments."""
        return self.partition_by is not None

    @property
    def contract_columns(self) -> tuple[str, ...]:
        """The columns of the enforced contract in order, as the table has them; empty without one."""
        return tuple(
            str(name) if is_quoted else str(name).lower()
            for name, _, is_quoted, _ in self._contract_entries
        )

    @property
    def contract_types(self) -> tuple[str, ...]:
        """What the contract says of their types, in the same order."""
        return tuple(str(kind) for _, kind, _, _ in self._contract_entries)

    @property
    def _contract_entries(self) -> list[list[Any]]:
        return [entry for entry in self.contract if isinstance(entry, list)]


@dataclass(frozen=True)
class ProjectGraph:
    """The models of a selection with all their ancestors, parents before children.

    `manifest` is dbt's own, as parsed; it is copied before anything is changed in it.
    """

    models: tuple[ModelNode, ...]
    outside: Mapping[str, OutsideModel] = field(default_factory=dict)
    manifest: Any = None

    @cached_property
    def by_name(self) -> Mapping[str, ModelNode]:
        return {model.name: model for model in self.models}

    def model(self, name: str) -> ModelNode:
        """The model of this name. Raises `KeyError`."""
        return self.by_name[name]

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """All resources that any model reads through schema live, sorted."""
        return tuple(sorted({name for model in self.models for name in model.resources}))
