"""What the rows of a version's models came from: which windows of which resources.

Pure. It follows the rules by which keys are computed: partitioned models and views are read window by
window, whatever was built as a whole counts as a whole, and a lookback reaches back over partitions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from ingestion.partitions import SNAPSHOT

Source = tuple[str, str]
"""(resource, window)"""


@dataclass(frozen=True)
class TracedModel:
    """A model as a version has it. `resources` are those that it reads itself; `partitions` are those
    that it shows, sorted, and None for what is not kept as segments.
    """

    parents: tuple[str, ...]
    resources: tuple[str, ...]
    is_view: bool
    partitions: tuple[str, ...] | None = None
    lookback: int = 0

    @property
    def is_read_in_parts(self) -> bool:
        return self.is_view or self.partitions is not None

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {window: place for place, window in enumerate(self.partitions or ())}

    def reads(self, window: str) -> tuple[str, ...]:
        """The windows that its partition of this name is built from, itself among them."""
        if self.partitions is None or window not in self.places:
            return (window,)
        place = self.places[window]
        return self.partitions[max(0, place - self.lookback) : place + 1]

    def read_by(self, window: str) -> tuple[str, ...]:
        """The partitions that are built from a window of its inputs."""
        if self.partitions is None:
            return (window,)
        if window not in self.places:
            return ()
        place = self.places[window]
        return self.partitions[place : place + self.lookback + 1]


class Origins:
    """What came from where in one version; every answer is worked out once."""

    def __init__(
        self, models: Mapping[str, TracedModel], windows: Mapping[str, Collection[str]]
    ) -> None:
        """`windows` are those of each resource in the version's manifest."""
        self._models, self._windows = models, windows
        self.resources = cache(self._resources)
        self.entire = cache(self._entire)
        self.of_partition = cache(self._of_partition)
        self.partitions_with = cache(self._partitions_with)

    def _resources(self, model: str) -> frozenset[str]:
        """Everything below the model."""
        traced = self._models[model]
        return frozenset(traced.resources).union(*map(self.resources, traced.parents))

    def _entire(self, model: str) -> frozenset[str]:
        """The resources that count as a whole for each of the model's rows."""
        traced = self._models[model]
        if not traced.is_read_in_parts:
            return self.resources(model)
        own = frozenset(name for name in traced.resources if self._is_whole(name))
        return own.union(*map(self.entire, traced.parents))

    def _of_partition(self, model: str, window: str) -> frozenset[Source]:
        """What one partition was built from, beside what counts as a whole."""
        traced = self._models[model]
        if not traced.is_read_in_parts:
            return frozenset()
        read = traced.reads(window)
        own = frozenset(
            (name, each)
            for name in traced.resources
            for each in read
            if not self._is_whole(name) and each in self._windows.get(name, ())
        )
        return own.union(
            *(self.of_partition(name, each) for name in traced.parents for each in read)
        )

    def _partitions_with(self, model: str, source: Source) -> frozenset[str]:
        """The partitions that were built from this window of a resource: the other way round."""
        traced, (resource, window) = self._models[model], source
        if not traced.is_read_in_parts or self._is_whole(resource):
            return frozenset()
        read = {window} if resource in traced.resources else set()
        read = read.union(*(self.partitions_with(name, source) for name in traced.parents))
        return frozenset(name for each in read for name in traced.read_by(each))

    def _is_whole(self, resource: str) -> bool:
        return SNAPSHOT in self._windows.get(resource, ())
