"""The suites of a pipeline on one version: what each group of expectations depends on, which rows
have to be looked at, and what the groups come to together.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import psycopg

from expectations.grouping import Group, groups_of
from expectations.parameters import Value, plain_values
from expectations.scope import Manner, is_aggregate
from expectations.subject import PARTITION, Subject
from expectations.suite import Suite
from expectations.verdict import Verdict
from ingestion.partitions import SNAPSHOT
from orchestration.identity import digest
from orchestration.stages.suites import meaning, suite_parameters
from orchestration.stages.under_test import UnderTest
from orchestration.stages.version_suite_files import read_version_suite
from orchestration.warehouse.content import Parts
from orchestration.warehouse.dbt.sensitive import EVERY_COLUMN
from orchestration.warehouse.judgements import Basis, Rule, partitions_without_extremes
from orchestration.warehouse.names import staging_table
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.segments.slices import Slices
from orchestration.warehouse.segments.texts import whole_relation

# Raise it when rules are evaluated in another way: everything is then judged again.
_FORMAT = 1
# Of other types nothing is recorded: text may be somebody's name.
_EXTREME_TYPES = ("date", "timestamp", "smallint", "integer", "bigint", "numeric", "real", "double")
_COUNTS = ("input_rows_", "input_partitions_")
# What is asked of a partition by itself holds as of the run that asked, and its days are its own.
_OWN = frozenset({"as_of", "first_day", "last_day"})
_BY_PARTITION = (Manner.PARTITIONS, Manner.KEYS)


@dataclass(frozen=True, eq=False)
class SuiteRule:
    """One group of the suite `name`, which judges the model of the suite's own name."""

    name: str
    group: Group
    rule: Rule

    @property
    def model(self) -> str:
        return self.group.suite.name

    @property
    def by_partition(self) -> bool:
        return self.group.manner in _BY_PARTITION


Unread = Mapping[tuple[str, str], Sequence[str]]
"""(model, column) → the partitions whose extremes in that column nobody has read yet."""


@dataclass(frozen=True)
class SuiteJudge:
    """Suites on one version, for the moment `as_of`."""

    under: UnderTest
    suites_dir: Path
    as_of: datetime

    def rules(self, names: Sequence[str]) -> list[SuiteRule]:
        """What there is to judge. Raises `ConfigurationError` for suites that cannot be."""
        hashes = meaning(self.suites_dir, names)
        return [
            SuiteRule(name, group, self._rule(name, hashes[name], group))
            for name in names
            for group in self._groups(self._suite(name))
        ]

    def due(self, rules: Iterable[SuiteRule], bases: Mapping[Rule, Basis]) -> list[SuiteRule]:
        """The rules that something has changed for since they were last accepted."""
        return [each for each in rules if each.rule not in bases or bases[each.rule].changed]

    def unread(self, connection: psycopg.Connection, due: Iterable[SuiteRule]) -> Unread:
        """What has to be read, and recorded after that, to know the extremes of columns."""
        asked = {
            (each.model, each.group.columns[0])
            for each in due
            if each.group.manner is Manner.EXTREMES and self._has_extremes(each)
        }
        return {
            (model, column): partitions_without_extremes(
                connection, self.under.relations[model], column
            )
            for model, column in sorted(asked)
        }

    def subject(
        self, each: SuiteRule, changed: Collection[str] | None, unread: Unread | None = None
    ) -> Subject:
        """What is evaluated for one rule; `changed` are partitions, None is everything."""
        group, slices = each.group, self.under.slices.get(each.model)
        elsewhere = changed if group.manner is Manner.PARTITIONS else None
        partitions: dict[str, Mapping[str, Value]] = {}
        if slices is not None and any(is_aggregate(i.type, i.scope) for i in group.items):
            counted = [self.under.windowed[name] for name in each.rule.parts.resources]
            names = {*slices.visible}.union(*counted) if changed is None else changed
            partitions = {name: self._of_partition(group, name) for name in sorted(names)}
        state = self.under.states.get(each.model)
        # Of a model that nothing is known of, nothing is told.
        told = state is not None and EVERY_COLUMN not in state.sensitive
        return Subject(
            suite=group.suite,
            schema=STORE_SCHEMA,
            table=self.under.relations[each.model],
            query=self._query(each, slices, changed, unread or {}) if slices else None,
            parameters=self._everything,
            partition_column=PARTITION if slices is not None else None,
            neighbours={name: self._rows_of(name, elsewhere) for name in sorted(group.reads)},
            partitions=partitions,
            manner=group.manner,
            row_key=(group.suite.row_key or state.key) if state is not None and told else (),
            sensitive=state.sensitive if state is not None else frozenset(),
        )

    def verdict(
        self,
        rules: Sequence[SuiteRule],
        bases: Mapping[Rule, Basis],
        said: Mapping[SuiteRule, Verdict],
    ) -> Verdict:
        """What the groups of one suite come to together; those that were not due say nothing."""
        return Verdict.combine(
            rules[0].model,
            [said[each] for each in rules if each in said],
            order=[item.expectation_id for each in rules for item in each.group.items],
            partitions=_looked_at(rules, bases, said),
        )

    def _suite(self, name: str) -> Suite:
        return read_version_suite(self.suites_dir, name, self.under.models)

    def _groups(self, suite: Suite) -> list[Group]:
        return groups_of(suite, partitioned=suite.name in self.under.slices)

    def _rule(self, name: str, suite_hash: str, group: Group) -> Rule:
        by_partition = group.manner in _BY_PARTITION
        reads = {group.suite.name, *group.reads}
        parts = reads & set(self.under.slices) if by_partition else set()
        resources, values = self._deciding_values(group, by_partition=by_partition)
        decides = [
            _FORMAT,
            version("great-expectations"),
            suite_hash,
            group.manner.value,
            sorted(item.expectation_id for item in group.items),
            {model: self.under.content_keys[model] for model in reads - parts},
            values,
        ]
        return Rule(name, digest(decides), Parts(frozenset(parts), frozenset(resources)))

    def _deciding_values(
        self, group: Group, *, by_partition: bool
    ) -> tuple[set[str], dict[str, object]]:
        """(resources whose windows decide, values that decide) of what the arguments ask for."""
        known = plain_values(self._everything)
        values: dict[str, object] = {n: known[n] for n in sorted(group.parameters) if n in known}
        if not by_partition:
            return set(), values
        tables = {staging_table(name): name for name in self.under.windowed}
        counted = {
            name: tables[table]
            for name in values
            for prefix in _COUNTS
            if name.startswith(prefix) and (table := name.removeprefix(prefix)) in tables
        }
        return set(counted.values()), {
            name: value
            for name, value in values.items()
            if name not in counted and name not in _OWN
        }

    def _has_extremes(self, each: SuiteRule) -> bool:
        slices, column = self.under.slices[each.model], each.group.columns[0]
        return slices.types.get(column, "").startswith(_EXTREME_TYPES)

    def _query(
        self, each: SuiteRule, slices: Slices, changed: Collection[str] | None, unread: Unread
    ) -> str | None:
        """The rows to look at; None for all of them."""
        columns = each.group.columns
        match each.group.manner:
            case Manner.EXTREMES if (each.model, columns[0]) in unread:
                return slices.extremes(columns[0], unread[each.model, columns[0]])
            case Manner.PARTITIONS if changed is not None:
                return slices.rows(changed)
            case Manner.KEYS if changed is not None and not slices.is_cheaper_whole(changed):
                # Great Expectations takes no key with a null in it for a duplicate.
                return slices.rows_with_shared_keys(changed, columns, nulls_are_equal=False)
            case _:
                return None

    def _rows_of(self, model: str, changed: Collection[str] | None) -> str:
        if changed is not None and model in self.under.slices:
            return self.under.slices[model].rows(changed)
        return whole_relation(self.under.relations[model])

    @cached_property
    def _everything(self) -> dict[str, Value]:
        return suite_parameters(self.as_of, self.under.manifest.artifacts)

    def _of_partition(self, group: Group, name: str) -> dict[str, Value]:
        """The parameters of one partition; a resource that has nothing in it has no rows there."""
        found = [item for item in self.under.manifest.artifacts if item.window_name == SNAPSHOT]
        found += [held[name] for held in self.under.windowed.values() if name in held]
        nothing: dict[str, Value] = {n: 0 for n in group.parameters if n.startswith(_COUNTS)}
        return nothing | suite_parameters(self.as_of, found)


def _looked_at(
    rules: Sequence[SuiteRule], bases: Mapping[Rule, Basis], said: Mapping[SuiteRule, Verdict]
) -> frozenset[str] | None:
    """The partitions that a suite was evaluated on; None for everything."""
    by_partition = [each for each in rules if each.by_partition and each.rule.parts]
    evaluated = [each for each in by_partition if each in said]
    if not by_partition:
        return None if said and any(each in said for each in rules) else frozenset()
    if any(each.rule not in bases for each in evaluated):
        return None
    return frozenset[str]().union(*(bases[each.rule].changed for each in evaluated))
