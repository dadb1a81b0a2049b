"""Whether an earlier version can be shown in the present shape: each of its values must have a cast.

Readers meet a value that has none as an error, so all of them are tried before any reader does.
"""

from collections.abc import Iterable

import psycopg
from psycopg import sql

from orchestration.errors import ConfigurationError
from orchestration.publication.plan import PointSlotView, SlotPlan
from orchestration.publication.shapes import Column
from orchestration.publication.views import STORE_SCHEMA, Source, cast_text, casts
from orchestration.warehouse.names import qualified, statement

_NO_CAST = (psycopg.errors.CannotCoerce, psycopg.errors.DataError)


def require_castable(connection: psycopg.Connection, plan: SlotPlan) -> None:
    """Reads the columns that are cast, whole; most plans have none. Any role that may read store.

    Raises `ConfigurationError` (`shape_change`) with the columns, never with a value.
    """
    for step in plan.steps:
        if isinstance(step, PointSlotView):
            pairs = list(casts(step.columns, step.source, step.shape.renamed))
            failed = [pair for pair in pairs if not _all_cast(connection, step.source, [pair])]
            if failed:
                raise _no_cast(step, failed)


def _all_cast(
    connection: psycopg.Connection, source: Source, pairs: Iterable[tuple[Column, Column]]
) -> bool:
    has_live = any(column.name == "_live" for column in source.columns)
    text = statement(
        "select {counts} from {source} as r where {live}",
        counts=sql.SQL(", ").join(
            sql.SQL("count({})").format(cast_text(found, wanted)) for found, wanted in pairs
        ),
        source=qualified(STORE_SCHEMA, source.name),
        live=sql.SQL("r._live" if has_live else "true"),
    )
    try:
        with connection.transaction():
            connection.execute(text)
    except _NO_CAST:
        return False
    return True


def _no_cast(step: PointSlotView, failed: Iterable[tuple[Column, Column]]) -> ConfigurationError:
    columns = ", ".join(
        f"{step.model}.{wanted.name} (from {found.type} to {wanted.type})"
        for found, wanted in failed
    )
    return ConfigurationError(
        f"{step.relation}, which readers see or may be taken back to, has values without a cast: "
        f"{columns}. Publish the new column under another name beside the old one",
        code="shape_change",
    )
