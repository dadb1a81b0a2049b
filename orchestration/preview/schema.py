"""The schema of a preview: one preview at a time, replaced by the next one, dropped on request.

What a preview makes carries a mark or a segment's name, so that it is told from what an analyst
built there with plain dbt.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from orchestration.errors import Busy
from orchestration.sql.queries import query
from orchestration.warehouse.analysts import add_stand_ins
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.names import qualified, statement
from orchestration.warehouse.setup import analyst_schema, developer_schema

MARK = "Made by sluice preview; the next one replaces it."


def preview_schema(name: str | None) -> str:
    """`dev_<name>`; without a name the schema in which this analyst's plain dbt builds."""
    return developer_schema(name) if name else analyst_schema()


@dataclass(frozen=True)
class PreviewSchema:
    """A schema that is held for one preview; `connection` is the analyst's, in autocommit."""

    name: str
    connection: psycopg.Connection

    def make_room(self, models: Iterable[str]) -> None:
        """Drops what an earlier preview made, and whatever stands under the names of `models`."""
        self._drop(list(models))

    def mark(self, relations: Iterable[str]) -> None:
        """Notes that a preview made these."""
        for relation, kind in self._find(list(relations)):
            self.connection.execute(
                statement(
                    "comment on {kind} {relation} is {mark}",
                    kind=sql.SQL(kind),
                    relation=qualified(self.name, relation),
                    mark=sql.Literal(MARK),
                )
            )

    def clean(self) -> list[str]:
        """Drops what previews made; returns the names."""
        return self._drop([])

    def _drop(self, models: list[str]) -> list[str]:
        found = self._find(models, marked=True)
        with self.connection.transaction():
            for relation, kind in found:
                self.connection.execute(
                    statement(
                        "drop {kind} if exists {relation} cascade",
                        kind=sql.SQL(kind),
                        relation=qualified(self.name, relation),
                    )
                )
        return [relation for relation, _ in found]

    def _find(self, names: list[str], *, marked: bool = False) -> list[tuple[str, str]]:
        rows = self.connection.execute(
            query("preview_relations"),
            {"schema": self.name, "names": names, "mark": MARK if marked else None},
        ).fetchall()
        return [(name, kind) for name, kind in rows]


@contextmanager
def held_schema(warehouse: Warehouse, name: str, manifest_id: str = "") -> Iterator[PreviewSchema]:
    """Makes the schema if need be and keeps other previews out of it until the block ends.

    The sources show the manifest, or what is published. Raises `Busy` (`preview_running`).
    """
    with warehouse.connect(
        Role.ANALYST, autocommit=True, **{"sluice.manifest": manifest_id}
    ) as connection:
        row = connection.execute(
            "select pg_try_advisory_lock(hashtextextended(%s, 0))", [f"sluice preview {name}"]
        ).fetchone()
        if not row or not row[0]:
            raise Busy(
                f"another preview is being built in {name}; wait for it, or choose another schema "
                "with --name",
                code="preview_running",
            )
        connection.execute("select ops.create_preview_schema(%s)", [name])
        yield PreviewSchema(name, connection)


def clean_preview(warehouse: Warehouse, name: str) -> list[str]:
    """Drops the preview in this schema; returns what was dropped.

    The schema of this machine's analyst stays, with stand-ins for plain dbt; any other goes when
    nothing is left in it.
    """
    with held_schema(warehouse, name) as schema:
        dropped = schema.clean()
        if name == analyst_schema():
            add_stand_ins(warehouse, name)
        elif _is_empty(schema):
            schema.connection.execute(
                statement("drop schema {schema} cascade", schema=sql.Identifier(name))
            )
    return dropped


def _is_empty(schema: PreviewSchema) -> bool:
    """Whether it holds nothing but stand-ins, which are views without a mark over what is published."""
    row = schema.connection.execute(
        "select not exists (select from pg_class where relnamespace = to_regnamespace(%s) "
        "and relkind in ('r', 'm', 'p', 'f'))",
        [schema.name],
    ).fetchone()
    return bool(row and row[0])
