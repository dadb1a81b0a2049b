"""What versions hold, partition by partition, so that two of them can be compared.

Equal contents mean equal rows. Everything is read once, from rows alone; any role that may read ops.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from ingestion.partitions import SNAPSHOT
from orchestration.sql.queries import query
from orchestration.warehouse.partitions import visible_partitions


@dataclass(frozen=True)
class Parts:
    """What is read a partition at a time: models with segments, resources that come by window."""

    models: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.models or self.resources)


class Contents:
    """The partitions of versions; each of them read at most once."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._relations: dict[str, Mapping[str, str]] = {}
        self._keys: dict[str, Mapping[str, str]] = {}
        self._windows: dict[tuple[str, str], Mapping[str, str]] = {}
        self._changed: dict[tuple[str, str, Parts], frozenset[str]] = {}

    def partitions(self, version_id: str, parts: Parts) -> dict[str, tuple[str | None, ...]]:
        """partition → its content in each of the parts, None where one has no such partition.

        A model that the version lacks has no partitions.
        """
        held = [self._of_model(version_id, model) for model in sorted(parts.models)]
        held += [self._of_resource(version_id, name) for name in sorted(parts.resources)]
        names = {name for each in held for name in each}
        return {name: tuple(each.get(name) for each in held) for name in names}

    def changed(self, version_id: str, earlier: str, parts: Parts) -> frozenset[str]:
        """The partitions of the version whose content the earlier one does not have."""
        asked = (version_id, earlier, parts)
        if asked not in self._changed:
            before = self.partitions(earlier, parts)
            now = self.partitions(version_id, parts)
            self._changed[asked] = frozenset(
                name for name, content in now.items() if before.get(name) != content
            )
        return self._changed[asked]

    def _of_model(self, version_id: str, model: str) -> Mapping[str, str]:
        if version_id not in self._relations:
            rows = self._connection.execute(
                "select model, relation_name from ops.version_models where version_id = %s",
                [version_id],
            ).fetchall()
            self._relations[version_id] = dict(rows)
        relation = self._relations[version_id].get(model)
        if relation is None:
            return {}
        if relation not in self._keys:
            shown = visible_partitions(self._connection, relation)
            self._keys[relation] = {name: held.partition_key for name, held in shown.items()}
        return self._keys[relation]

    def _of_resource(self, version_id: str, resource: str) -> Mapping[str, str]:
        known = (version_id, resource)
        if known not in self._windows:
            rows = self._connection.execute(
                query("version_windows"),
                {"version_id": version_id, "resource": resource, "snapshot": SNAPSHOT},
            ).fetchall()
            self._windows[known] = dict(rows)
        return self._windows[known]
