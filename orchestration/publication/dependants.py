"""What other people made of published views, and whether a change of shape would break it.

The catalogue knows views, materialized views, rules, triggers, columns of a row type, and functions
whose body it has parsed; a function that is only text fails when it is called, and is not seen here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg.rows import class_row

from orchestration.sql.queries import query


@dataclass(frozen=True)
class Dependant:
    """An object of somebody else. `how` it needs the published views of `model`:

    column: it reads that one; whole: it names no column; type: it holds rows of the view;
    attached: it sits on the view itself; indirect: it reads another dependant. What is in a schema
    `dev_…` is an analyst's, who can build it again.
    """

    model: str
    column_name: str | None
    how: Literal["column", "whole", "type", "attached", "indirect"]
    name: str
    owner: str | None
    is_development: bool

    def needs(self, taken: Collection[str]) -> bool:
        """Whether it needs one of these columns, so that it cannot stay on the view as it was."""
        if self.is_development:
            return False
        return self.how in {"type", "attached"} or self.column_name in taken

    def __str__(self) -> str:
        whose = f" (of {self.owner})" if self.owner else ""
        what = f"{self.model}.{self.column_name}" if self.column_name else self.model
        return f"{self.name}{whose} needs {what}"


def find_dependants(connection: psycopg.Connection, models: Sequence[str]) -> tuple[Dependant, ...]:
    """All of them, by model; any role will do."""
    with connection.cursor(row_factory=class_row(Dependant)) as cursor:
        return tuple(
            cursor.execute(query("publication_dependants"), {"models": list(models)}).fetchall()
        )
