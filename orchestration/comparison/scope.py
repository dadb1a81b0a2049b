"""What has to be read to compare a model: whole relations, or the partitions whose keys differ."""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from orchestration.comparison.sides import ModelSide, Partition, Place, read_partitions
from orchestration.comparison.statements import Rows


@dataclass(frozen=True)
class Scope:
    """What has to be read of a model. `partitions` maps names to both sides', where they differ."""

    before: Rows
    after: Rows
    partitions: Mapping[str, tuple[Partition | None, Partition | None]]
    same: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.before.places and not self.after.places


def plan_scope(connection: psycopg.Connection, before: ModelSide, after: ModelSide) -> Scope:
    """The scope of two sides whose content keys differ. Reads `ops`, not the models."""
    old, new = _partitions(connection, before), _partitions(connection, after)
    if old is None or new is None:
        whole = [Rows(((side.place, None),), has_partitions=False) for side in (before, after)]
        return Scope(whole[0], whole[1], {})
    names = sorted({*old, *new})
    differ = {
        name: (old.get(name), new.get(name))
        for name in names
        if name not in old or name not in new or old[name].key != new[name].key
    }
    return Scope(
        _by_place({name: pair[0] for name, pair in differ.items()}),
        _by_place({name: pair[1] for name, pair in differ.items()}),
        differ,
        len(names) - len(differ),
    )


def _by_place(partitions: Mapping[str, Partition | None]) -> Rows:
    places: dict[Place, list[str]] = {}
    for name, partition in partitions.items():
        if partition is not None:
            places.setdefault(partition.place, []).append(name)
    return Rows(tuple((p, tuple(names)) for p, names in places.items()), has_partitions=True)


def _partitions(connection: psycopg.Connection, side: ModelSide) -> Mapping[str, Partition] | None:
    if side.partitions is not None:
        return side.partitions
    return read_partitions(connection, side.place.name)
