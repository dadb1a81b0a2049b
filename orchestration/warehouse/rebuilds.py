"""Why partitions that readers see already are built again: what they are made from is not what it was.

Told by comparing a plan with the published version; reading only. A new day is no rebuild.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestration.identity import ManifestId
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.plan import BuildPlan
from orchestration.warehouse.manifests import Manifest, load_manifest
from orchestration.warehouse.partitions import visible_partitions

_ITS_DEFINITION = "its definition"
# A correction and what looks back at it are no news.
_FEW = 10


@dataclass(frozen=True)
class Rebuild:
    """`partitions` of a model's `of` partitions are built again, because `causes` have changed."""

    model: str
    partitions: int
    of: int
    causes: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.model}: {self.partitions} of {self.of} partitions are built again, because "
            f"{', '.join(self.causes)} changed"
        )

    @property
    def is_large(self) -> bool:
        """Whether it is more than a night is expected to cost."""
        return self.partitions > _FEW

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "partitions": self.partitions,
            "of": self.of,
            "because": list(self.causes),
        }


@dataclass(frozen=True)
class _Version:
    """What a version was built from; a model it lacks has neither content nor partitions."""

    contents: Mapping[str, str]
    partitions: Mapping[str, Mapping[str, str]]
    manifest: Manifest

    def window_contents(self, resource: str) -> dict[str, str]:
        held = self.manifest.windows([resource]).get(resource, {})
        return {name: f"{item.loaded or 0}:{item.checksum}" for name, item in held.items()}


def explain_rebuilds(
    connection: psycopg.Connection,
    pipeline: str,
    graph: ProjectGraph,
    keys: Mapping[str, ModelKeys],
    plan: BuildPlan,
    manifest: Manifest,
) -> list[Rebuild]:
    """The rebuilds of the plan, in the order of its models; none before something is published."""
    again = _built_again(connection, pipeline, plan)
    before = _published(connection, pipeline) if again else None
    if before is None:
        return []
    now = _Version(
        {name: own.content_key for name, own in keys.items()},
        {name: own.partition_keys or {} for name, own in keys.items()},
        manifest,
    )
    causes = _Causes(graph, keys, before, now)
    return [
        Rebuild(name, len(names), len(now.partitions[name]), causes.of(graph.model(name), names))
        for name, names in again.items()
    ]


class _Causes:
    def __init__(
        self,
        graph: ProjectGraph,
        keys: Mapping[str, ModelKeys],
        before: _Version,
        now: _Version,
    ) -> None:
        self._graph, self._keys, self._before, self._now = graph, keys, before, now

    def of(self, model: ModelNode, again: Collection[str]) -> tuple[str, ...]:
        """What differs for these partitions: inputs that count as a whole, then others, by name."""
        wholes, parts = self._inputs(model)
        found = sorted(wholes)
        unexplained = set() if wholes else set(again)
        for name, windows in sorted(parts.items()):
            read = {each for each in again if windows & set(self._keys[model.name].windows[each])}
            if read:
                found.append(name)
                unexplained -= read
        return (*found, *([_ITS_DEFINITION] if unexplained else []))

    def _inputs(self, model: ModelNode) -> tuple[set[str], dict[str, set[str]]]:
        """(inputs that count as a whole and changed, input by window → changed windows)."""
        wholes: set[str] = set()
        parts: dict[str, set[str]] = {}
        for name in model.resources:
            if name in self._now.manifest.windows([name]):
                held = self._now.window_contents(name)
                parts[name] = _differing(self._before.window_contents(name), held)
            elif self._before.manifest.checksums([name]) != self._now.manifest.checksums([name]):
                wholes.add(name)
        for name in model.parents:
            parent = self._graph.model(name)
            if self._keys[name].partition_keys is None:
                if self._before.contents.get(name) != self._now.contents[name]:
                    wholes.add(name)
            elif parent.is_partitioned:
                before = self._before.partitions.get(name, {})
                parts[name] = _differing(before, self._now.partitions[name])
            else:
                # A view is read through, as when it is built.
                below, beside = self._inputs(parent)
                wholes |= below
                for each, windows in beside.items():
                    parts.setdefault(each, set()).update(windows)
        return wholes, parts


def _built_again(
    connection: psycopg.Connection, pipeline: str, plan: BuildPlan
) -> dict[str, set[str]]:
    """model → partitions that the plan builds and the published version shows; mostly there are none."""
    found: dict[str, set[str]] = {}
    for name, built in plan.new_partitions.items():
        rows = connection.execute(
            query("rebuilds_of_model"),
            {"pipeline": pipeline, "model": name, "partitions": list(built)},
        ).fetchall()
        if rows:
            found[name] = {partition for (partition,) in rows}
    return found


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name in {*before, *now} if before.get(name) != now.get(name)}


def _published(connection: psycopg.Connection, pipeline: str) -> _Version | None:
    version = connection.execute(
        "select version_id, manifest_id from ops.versions "
        "where pipeline = %s and state = 'published'",
        [pipeline],
    ).fetchone()
    if version is None:
        return None
    models = connection.execute(
        "select model, relation_name, content_key from ops.version_models where version_id = %s",
        [version[0]],
    ).fetchall()
    return _Version(
        {model: content for model, _, content in models},
        {
            model: {name: held.partition_key for name, held in shown.items()}
            for model, relation, _ in models
            if (shown := visible_partitions(connection, relation))
        },
        load_manifest(connection, ManifestId(version[1]), pipeline),
    )
