"""Named queries, one file each; a name that has no file is an error at once."""

from functools import cache
from importlib import resources
from typing import LiteralString


@cache
def query(name: str) -> LiteralString:
    """The text of `<name>.sql`; values are its parameters, never put into the text."""
    file = resources.files("orchestration.sql.queries").joinpath(f"{name}.sql")
    return file.read_text("utf-8")
