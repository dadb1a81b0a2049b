"""Which segments show a model's partitions, which partitions are missing, and what to merge.

Pure: partition keys go in, a layout comes out. A view stands on at most `MOST_SEGMENTS` segments, so
that catalogue, locks and planning stay bounded however long the history is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_SEGMENTS = 16
# After a merge there is room for as many builds again before the next one.
_AFTER_MERGE = 8


@dataclass(frozen=True)
class Segment:
    """An adopted segment: what it holds. `keys` and `rows` map partition → key, row count."""

    name: str
    keys: Mapping[str, str]
    rows: Mapping[str, int]


@dataclass(frozen=True)
class Piece:
    """A segment as one view uses it. `rows` counts the rows of the visible partitions."""

    segment: str
    visible: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class Layout:
    """`pieces` are used as they are, `merge` become one new segment, `missing` must be built."""

    pieces: tuple[Piece, ...]
    merge: tuple[Piece, ...]
    missing: tuple[str, ...]


def lay_out(wanted: Mapping[str, str], segments: Sequence[Segment]) -> Layout:
    """Covers `wanted` (partition → key) with as few of the segments as a greedy choice finds."""
    offered = {segment.name: _offers(wanted, segment) for segment in segments}
    by_name = {segment.name: segment for segment in segments}
    left = {partition for offer in offered.values() for partition in offer}
    missing = tuple(sorted(set(wanted) - left))
    pieces: list[Piece] = []
    while left:
        name = max(offered, key=lambda each: (len(offered[each] & left), each))
        visible = offered.pop(name) & left
        left -= visible
        pieces.append(_piece(by_name[name], visible))
    kept, merge = _choose_merge(pieces, bool(missing))
    return Layout(tuple(kept), tuple(merge), missing)


def _offers(wanted: Mapping[str, str], segment: Segment) -> set[str]:
    return {name for name, key in segment.keys.items() if wanted.get(name) == key}


def _piece(segment: Segment, visible: set[str]) -> Piece:
    return Piece(
        segment.name,
        tuple(sorted(visible)),
        tuple(sorted(set(segment.keys) - visible)),
        sum(segment.rows[name] for name in visible),
    )


def _choose_merge(pieces: list[Piece], one_more: bool) -> tuple[list[Piece], list[Piece]]:
    """The smallest pieces become one once there are too many, and those no larger than their sum.

    So sizes grow geometrically, and a row is copied a logarithmic number of times.
    """
    if len(pieces) + one_more <= MOST_SEGMENTS:
        return pieces, []
    ranked = sorted(pieces, key=lambda piece: (piece.rows, piece.segment))
    count = len(pieces) + one_more - _AFTER_MERGE + 1
    total = sum(piece.rows for piece in ranked[:count])
    while count < len(ranked) and ranked[count].rows <= total:
        total += ranked[count].rows
        count += 1
    return ranked[count:], ranked[:count]
