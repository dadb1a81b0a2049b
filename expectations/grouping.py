"""A suite in groups: expectations that look at the same rows and depend on the same things.

Each group is judged by itself: new planes are looked up for all flights again, and nothing else
about those flights is asked twice.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from expectations.scope import Manner
from expectations.suite import Suite, SuiteExpectation


@dataclass(frozen=True)
class Group:
    """Expectations of one suite that have all of this in common.

    `columns` are those of a key, or the one whose extreme is asked for. `reads` are other models,
    `parameters` the run-time values in the arguments.
    """

    suite: Suite
    manner: Manner
    columns: tuple[str, ...]
    reads: frozenset[str]
    parameters: frozenset[str]

    @property
    def items(self) -> tuple[SuiteExpectation, ...]:
        return self.suite.expectations


def groups_of(suite: Suite, *, partitioned: bool) -> list[Group]:
    """The suite's expectations in groups; without partitions each of them looks at everything."""
    found: dict[_Common, list[SuiteExpectation]] = {}
    for item in suite.expectations:
        manner = item.manner if partitioned else Manner.WHOLE
        columns = item.columns if manner in (Manner.KEYS, Manner.EXTREMES) else ()
        common = _Common(manner, columns, frozenset(item.reads), item.parameters)
        found.setdefault(common, []).append(item)
    return [
        Group(replace(suite, expectations=tuple(items)), *common) for common, items in found.items()
    ]


class _Common(NamedTuple):
    manner: Manner
    columns: tuple[str, ...]
    reads: frozenset[str]
    parameters: frozenset[str]
