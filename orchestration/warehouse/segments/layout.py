"""Which segments show a model's partitions, which partitions are missing, and what to merge.

Pure: partition keys go in, a layout comes out. A view stands on at most `MOST_SEGMENTS` segments, so
that catalogue, locks and planning stay bounded however long the history is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_SEGMENTS = 16
# So many become one at least, so that there is not a merge every night.
_FEWEST_MERGED = 4
# What copying everything would cost, in doublings. Versions that are kept hold on to the segments
# that a merge replaces, so a small merge is worth more than its rows.
_COST_OF_ALL = 4


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
    kept, merge = _choose_merge(pieces, len(pieces) + bool(missing) - MOST_SEGMENTS)
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


def _choose_merge(pieces: list[Piece], too_many: int) -> tuple[list[Piece], list[Piece]]:
    """The pieces to keep, and those to make one of; none while there is room.

    A merge is worth how many times it doubles the size of the piece that a row is in, on average.
    That is most for many pieces of about one size, so sizes grow geometrically, and a row is copied
    a logarithmic number of times.
    """
    if too_many <= 0:
        return pieces, []
    ranked = sorted(pieces, key=lambda piece: (piece.rows, piece.segment))
    shortest = min(max(too_many + 1, _FEWEST_MERGED), len(ranked))
    everything = sum(piece.rows for piece in ranked)
    runs = [
        (first, last)
        for first in range(len(ranked))
        for last in range(first + shortest, len(ranked) + 1)
    ]
    first, last = max(runs, key=lambda run: _worth(ranked[slice(*run)], everything))
    return ranked[:first] + ranked[last:], ranked[first:last]


def _worth(run: Sequence[Piece], everything: int) -> float:
    rows = sum(piece.rows for piece in run)
    if rows == 0:
        return math.inf
    doublings = sum(piece.rows * math.log2(rows / piece.rows) for piece in run if piece.rows)
    return doublings / rows - _COST_OF_ALL * rows / everything
