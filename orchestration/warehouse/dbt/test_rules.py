"""What decides the outcome of a data test, and its SQL for the partitions that are in question."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from orchestration.identity import digest
from orchestration.warehouse.content import Parts
from orchestration.warehouse.dbt.canonical import canonical_sql
from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.dbt.keys import TOOLS
from orchestration.warehouse.dbt.statements import Inputs, Reads, Writer
from orchestration.warehouse.dbt.test_reads import TestNode, TestScope
from orchestration.warehouse.judgements import Rule
from orchestration.warehouse.segments.slices import Slices
from orchestration.warehouse.segments.texts import with_tables

SUBJECT = "dbt:"
# Raise it when tests are run in another way: everything is then tested again.
_FORMAT = 1


def test_rule(
    test: TestNode,
    writer: Writer,
    content_keys: Mapping[str, str],
    checksums: Mapping[str, str],
) -> Rule:
    """`content_keys` has every model of the version, `checksums` the content of every resource."""
    subject = SUBJECT + test.unique_id
    if test.hidden or test.code is None:
        return Rule(subject, None)
    reads = _Dependencies(writer, content_keys, checksums, test.entire)
    reads.add(test, by_partition=test.scope is not TestScope.ALL)
    tools = {name: version(name) for name in TOOLS}
    decides = [_FORMAT, tools, canonical_sql(test.code), dict(test.config), test.scope.value]
    return Rule(
        subject,
        digest([*decides, list(test.keys), reads.fixed]),
        Parts(frozenset(reads.models), frozenset(reads.resources)),
    )


def test_statement(
    test: TestNode, writer: Writer, slices: Mapping[str, Slices], changed: Collection[str] | None
) -> str | None:
    """The test's SQL on these partitions, or on everything; None for one that dbt has to render."""
    if test.code is None:
        return None
    if changed is None or test.scope is TestScope.ALL:
        return writer.whole(test.code, test)
    instead = {}
    if test.scope is TestScope.KEYS:
        [model] = test.parents
        if slices[model].is_cheaper_whole(changed):
            return writer.whole(test.code, test)
        rows = slices[model].rows_with_shared_keys(changed, test.keys, nulls_are_equal=True)
        instead = {model: rows}
    inputs = Inputs(writer, changed, _table_name, _quoted, entire=test.entire, instead=instead)
    code = inputs.resolved(test.code, test)
    return with_tables(inputs.definitions, code)


@dataclass
class _Dependencies:
    """What is read by partition, through views too, and the content of all that is read whole."""

    writer: Writer
    content_keys: Mapping[str, str]
    checksums: Mapping[str, str]
    entire: Collection[str]
    models: set[str] = field(default_factory=set)
    resources: set[str] = field(default_factory=set)
    fixed: dict[str, str] = field(default_factory=dict)

    def add(self, reads: Reads, *, by_partition: bool) -> None:
        for name in reads.outside:
            self.fixed[f"outside {name}"] = self.writer.graph.outside[name].content_key
        for name in reads.resources:
            if by_partition and name in self.writer.sources.artifacts and name not in self.entire:
                self.resources.add(name)
            else:
                self.fixed[f"resource {name}"] = self.checksums[name]
        for name in reads.parents:
            self._add_model(self.writer.graph.model(name), by_partition=by_partition)

    def _add_model(self, model: ModelNode, *, by_partition: bool) -> None:
        keys = self.writer.keys[model.name]
        if not by_partition or model.name in self.entire or keys.partition_keys is None:
            self.fixed[f"model {model.name}"] = self.content_keys[model.name]
        elif model.is_partitioned:
            self.models.add(model.name)
        else:
            self.fixed[f"view {model.name}"] = keys.definition_key
            self.add(model, by_partition=True)


def _table_name(name: str) -> str:
    # No table of the test itself is called like this.
    return f"{name}@changed"


def _quoted(name: str) -> str:
    return f'"{name}"'
