"""The preview as one side of a comparison: where each model's rows are, and how many there are."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
from psycopg import sql

from orchestration.comparison.sides import ModelSide, Partition, Place, Side, version_side
from orchestration.comparison.value import SideLabel
from orchestration.errors import InternalError
from orchestration.preview.base import Base
from orchestration.preview.plan import PreviewPlan, Tree
from orchestration.publication.shapes import Column, columns_from_json, publishable
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.names import statement
from orchestration.warehouse.partitions import segments_with
from orchestration.warehouse.segments.adoption import count_partitions


def preview_sides(
    connection: psycopg.Connection, base: Base, plan: PreviewPlan, tree: Tree, label: SideLabel
) -> tuple[Side, Side]:
    """(what is published, what the preview would publish); the analyst's connection.

    A model that was left out, or did not change, is the same on both sides. Raises
    `TransformFailure` for rows in a partition that was not built.
    """
    before = version_side(connection, base.version)
    known = version_side(connection, base.version, base.models).models
    reader = _Reader(connection, plan, tree)
    after = {}
    for model in plan.models:
        if not model.is_published:
            continue
        if model.model in known and model.model not in plan.changed:
            after[model.model] = known[model.model]
        elif model.model in plan.build.relations:
            after[model.model] = reader.side(tree.graph.model(model.model))
    return before, Side(label, after)


class _Reader:
    def __init__(self, connection: psycopg.Connection, plan: PreviewPlan, tree: Tree) -> None:
        self._connection, self._plan, self._tree = connection, plan, tree

    def side(self, model: ModelNode) -> ModelSide:
        """One model that was built, or that the store has."""
        name = self._plan.build.relations[model.name]
        place = Place(self._plan.places.schema_of(name), name)
        side = ModelSide(
            model=model.name,
            place=place,
            columns=publishable(self._columns(place)),
            content_key=self._tree.keys[model.name].content_key,
            state=self._tree.states[model.name],
        )
        if model.is_partitioned:
            partitions = dict(self._partitions(model))
            rows = sum(partition.rows for partition in partitions.values())
            return replace(side, rows=rows, partitions=partitions)
        return replace(side, rows=self._count(place))

    def _partitions(self, model: ModelNode) -> Iterator[tuple[str, Partition]]:
        keys = self._tree.keys[model.name].partition_keys or {}
        stored = {
            segment.name: segment.rows for segment in segments_with(self._connection, keys.values())
        }
        places = self._plan.places
        for piece in self._plan.build.pieces[model.name]:
            place = Place(places.schema_of(piece.segment), piece.segment)
            rows = stored.get(piece.segment)
            if rows is None:
                wanted = {name: keys[name] for name in piece.visible}
                rows = count_partitions(self._connection, model.name, piece.segment, wanted, places)
            for name in piece.visible:
                yield name, Partition(place, keys[name], rows[name])

    def _count(self, place: Place) -> int:
        row = self._connection.execute(
            statement(
                "select count(*) from {relation}",
                relation=sql.Identifier(place.schema, place.name),
            )
        ).fetchone()
        return int(row[0]) if row else 0

    def _columns(self, place: Place) -> tuple[Column, ...]:
        row = self._connection.execute(
            query("preview_columns"), {"schema": place.schema, "name": place.name}
        ).fetchone()
        if row is None or row[0] is None:
            raise InternalError(f"{place.schema}.{place.name} was not built; run the preview again")
        return columns_from_json(row[0])
