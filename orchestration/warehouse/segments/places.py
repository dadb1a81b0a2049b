"""Where relations stand: in the store, unless they are built into a schema of their own."""

from dataclasses import dataclass

from psycopg import sql

from orchestration.warehouse.names import qualified

STORE_SCHEMA = "store"


@dataclass(frozen=True)
class Places:
    """`own` are the relations that stand in `schema`; all others are in the store.

    `reads_staging`: whether the builder may read artifacts by their id; else it reads schema live.
    """

    schema: str = STORE_SCHEMA
    own: frozenset[str] = frozenset()
    reads_staging: bool = True

    def schema_of(self, relation: str) -> str:
        return self.schema if relation in self.own else STORE_SCHEMA

    def qualified(self, relation: str) -> sql.Composed:
        """`"schema"."relation"`."""
        return qualified(self.schema_of(relation), relation)

    def written(self, relation: str) -> str:
        """The same as text."""
        return self.qualified(relation).as_string(None)


IN_STORE = Places()
