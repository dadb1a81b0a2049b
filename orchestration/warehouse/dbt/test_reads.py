"""What a data test reads, and how much of it: the changed partitions, or everything.

A test is about each partition by itself (`meta: {scope: changed}`), about a key that no two rows may
share (`scope: keys`), or about everything at once (`scope: all`, the default). dbt's own tests have
a scope by what they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.checks import hidden_in_jinja, hidden_inputs
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.reading import NodeReads

_COUNTS_ROWS = {"fail_calc": "count(*)", "warn_if": "!= 0", "error_if": "!= 0"}
_KEY_ARGUMENTS = ("columns", "combination_of_columns", "column_name")


class TestScope(StrEnum):
    """What a test speaks of."""

    CHANGED = "changed"
    KEYS = "keys"
    ALL = "all"


# A foreign key is a rule for the rows that have it; what it refers to is read as a whole.
_OWN = {
    "macro.dbt.test_not_null": TestScope.CHANGED,
    "macro.dbt.test_accepted_values": TestScope.CHANGED,
    "macro.dbt.test_relationships": TestScope.CHANGED,
    "macro.dbt.test_unique": TestScope.KEYS,
}
_REFERS = "macro.dbt.test_relationships"


@dataclass(frozen=True)
class TestNode:
    """One data test: its compiled code with placeholders, and what that reads.

    `entire` are models and resources that are read as a whole whatever the scope, `keys` the columns
    of a key.
    `hidden` names what its outcome depends on besides. Without `code` dbt renders it when it runs.
    """

    unique_id: str
    name: str
    scope: TestScope
    parents: tuple[str, ...]
    resources: tuple[str, ...]
    outside: tuple[str, ...]
    config: Mapping[str, Any]
    entire: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    code: str | None = None

    def with_code(self, code: str) -> "TestNode":
        """The test once it is compiled; what its SQL gives away may hide more."""
        try:
            found = hidden_inputs(code)
        except ValueError:
            found = ["what cannot be read"]
        if not found:
            return replace(self, code=code)
        return replace(self, code=code, scope=TestScope.ALL, keys=(), hidden=tuple(found))


def read_test(graph: ProjectGraph, unique_id: str) -> TestNode:
    """The test before it is compiled. Raises `ConfigurationError` for a scope that it cannot have."""
    node = graph.manifest.nodes[unique_id]
    reads = NodeReads(graph.manifest, graph.outside, node)
    attached = graph.manifest.nodes.get(getattr(node, "attached_node", None) or "")
    hidden = tuple(hidden_in_jinja((text for _, text in reads.jinja), reads.called))
    scope = TestScope.ALL if hidden else _scope(node)
    entire = frozenset[str]()
    if scope is TestScope.CHANGED and _REFERS in node.depends_on.macros:
        found = _referred_to(node, attached, reads)
        scope, entire = (scope, found) if found is not None else (TestScope.ALL, entire)
    keys = _keys(node) if scope is TestScope.KEYS else ()
    if scope is TestScope.KEYS and not _is_keyed(graph, reads, keys):
        scope, keys = TestScope.ALL, ()
    return TestNode(
        unique_id=unique_id,
        name=node.name,
        scope=scope,
        parents=tuple(sorted(reads.parents)),
        resources=tuple(sorted(reads.resources)),
        outside=tuple(sorted(reads.outside)),
        config=_meaningful(node),
        entire=entire,
        keys=keys,
        hidden=hidden,
    )


def declared_scope(graph: ProjectGraph, unique_id: str) -> str | None:
    """What the test says of its own scope, if it says anything."""
    declared = (graph.manifest.nodes[unique_id].config.meta or {}).get("scope")
    return None if declared is None else str(declared)


def _referred_to(node: Any, attached: Any, reads: NodeReads) -> frozenset[str] | None:
    """What a foreign key refers to; None where it cannot be told from what has the key."""
    if len(node.depends_on.nodes) < 2:
        return None
    if attached is not None:
        others = frozenset(reads.parents | reads.resources) - {attached.name}
        return others if attached.name in reads.parents else None
    return frozenset(reads.parents) if len(reads.resources) == 1 and reads.parents else None


def _scope(node: Any) -> TestScope:
    """What it says of itself, else what dbt's own tests are, else everything."""
    if any(getattr(node.config, name) != value for name, value in _COUNTS_ROWS.items()):
        # So many failing rows are too many: a number of all rows.
        return TestScope.ALL
    if node.config.limit is not None:
        return TestScope.ALL
    declared = (node.config.meta or {}).get("scope")
    if declared is None:
        own = [_OWN[macro] for macro in node.depends_on.macros if macro in _OWN]
        return own[0] if own else TestScope.ALL
    try:
        return TestScope(declared)
    except ValueError:
        raise ConfigurationError(
            f"{node.name} ({node.original_file_path}): scope is {declared!r}; write one of "
            f"{', '.join(TestScope)} below meta, or leave it out",
            code="data_test_scope",
        ) from None


def _keys(node: Any) -> tuple[str, ...]:
    arguments = node.test_metadata.kwargs if node.test_metadata is not None else {}
    for name in _KEY_ARGUMENTS:
        if value := arguments.get(name):
            return (value,) if isinstance(value, str) else tuple(map(str, value))
    return ()


def _is_keyed(graph: ProjectGraph, reads: NodeReads, keys: tuple[str, ...]) -> bool:
    """Whether rows with the same key can be looked up: in one model with segments, by columns."""
    if len(reads.parents) != 1 or reads.resources or reads.outside or not keys:
        return False
    model = graph.by_name.get(next(iter(reads.parents)))
    return model is not None and model.is_partitioned and set(keys) <= set(model.contract_columns)


def _meaningful(node: Any) -> dict[str, Any]:
    names = ("severity", "limit", "fail_calc", "warn_if", "error_if")
    return {name: getattr(node.config, name) for name in names}
