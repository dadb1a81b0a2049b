"""How the columns of two sides are compared when their types differ, or know no equality.

Pure. A value is compared as it is where Postgres can, else as text.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestration.publication.shapes import Column, publishable

_MODIFIER = re.compile(r"\([^)]*\)")
# Types without an equality that GROUP BY can use.
_AS_TEXT = frozenset(
    {"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle", "jsonpath"}
)
# Types that cannot be hashed, so that no key of them can be matched as it is.
_KEY_AS_TEXT = frozenset({"bit", "bit varying", "money", "tsvector", "tsquery"})
_FAMILIES = (
    {"smallint", "integer", "bigint", "numeric", "real", "double precision"},
    {"text", "character varying"},
    {"date", "timestamp without time zone", "timestamp with time zone"},
)


@dataclass(frozen=True)
class ComparedColumn:
    """A column that both sides have. `is_hidden`: its values are never read out."""

    name: str
    as_text: bool
    is_hidden: bool


def compared_columns(
    before: Sequence[Column], after: Sequence[Column], key: Collection[str], hidden: Collection[str]
) -> tuple[ComparedColumn, ...]:
    """The columns of both sides, those of the key first in its order.

    `hidden` names the sensitive ones, `*` all.
    """
    types = {column.name: column.type for column in publishable(before)}
    common = [column for column in publishable(after) if column.name in types]
    order = {name: position for position, name in enumerate(key)}
    common.sort(key=lambda column: order.get(column.name, len(order)))
    return tuple(
        ComparedColumn(
            name=column.name,
            as_text=_needs_text(types[column.name], column.type, is_key=column.name in order),
            is_hidden=column.name in hidden or "*" in hidden,
        )
        for column in common
    )


def _needs_text(before: str, after: str, *, is_key: bool) -> bool:
    old, new = _bare(before), _bare(after)
    if old == new:
        bare = old.removesuffix("[]")
        return bare in _AS_TEXT or (is_key and bare in _KEY_AS_TEXT)
    # Keys are matched by hash, which different types do not share.
    return is_key or not any({old, new} <= family for family in _FAMILIES)


def _bare(name: str) -> str:
    """`character varying(40)` → `character varying`; `timestamp(3) with time zone` likewise."""
    return " ".join(_MODIFIER.sub("", name).split())
