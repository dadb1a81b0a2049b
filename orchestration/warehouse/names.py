"""The only place that turns a name into SQL, and knows which schema holds what."""

import re
from typing import LiteralString

from psycopg import sql

MODEL_NAME_LENGTH = 40
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")


def identifier(name: str) -> sql.Identifier:
    """A checked identifier: lower case, digits and underscores, at most 63 bytes.

    Raises `ValueError` for anything else, so that nothing surprising reaches the catalogue.
    """
    if not is_identifier(name):
        raise ValueError(f"not a name for a database object: {name!r}")
    return sql.Identifier(name)


def is_identifier(name: str) -> bool:
    """Whether `identifier` takes it."""
    return _IDENTIFIER.match(name) is not None


def qualified(schema: str, name: str) -> sql.Composed:
    """`"schema"."name"`, both checked."""
    return sql.SQL("{}.{}").format(identifier(schema), identifier(name))


def staging_table(resource: str) -> str:
    """`flights.weather` → `flights__weather`, in schemas staging and live."""
    source, _, name = resource.partition(".")
    return f"{source}__{name}"


def statement(text: LiteralString, **names: sql.Composable) -> sql.Composed:
    """A statement with identifiers put in by name."""
    return sql.SQL(text).format(**names)
