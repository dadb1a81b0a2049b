"""Which segments show which partitions: whatever is there, each is shown once, and few are needed."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.warehouse.segments import layout
from orchestration.warehouse.segments.layout import MOST_SEGMENTS, Layout, Segment, lay_out

NAMES = [f"2013-01-{number:02d}" for number in range(1, 32)]
held = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("abc"))
sizes = st.lists(st.integers(0, 1000), min_size=len(NAMES), max_size=len(NAMES))


@st.composite
def segments(draw: st.DrawFn, most: int = 40) -> list[Segment]:
    rows = dict(zip(NAMES, draw(sizes), strict=True))
    return [
        Segment(f"s_{number:02d}", keys, {name: rows[name] for name in keys})
        for number, keys in enumerate(draw(st.lists(held, max_size=most)))
    ]


def shown(found: Layout) -> list[str]:
    return [name for piece in (*found.pieces, *found.merge) for name in piece.visible]


def count(found: Layout) -> int:
    return len(found.pieces) + bool(found.merge) + bool(found.missing)


@given(held, segments())
def test_every_wanted_partition_is_shown_once_or_built(
    wanted: Mapping[str, str], there: list[Segment]
) -> None:
    found = lay_out(wanted, there)
    assert sorted([*shown(found), *found.missing]) == sorted(wanted)
    offered = {name for s in there for name, key in s.keys.items() if wanted.get(name) == key}
    assert set(found.missing) == set(wanted) - offered


@given(held, segments())
def test_a_piece_shows_what_is_wanted_of_it_and_hides_the_rest(
    wanted: Mapping[str, str], there: list[Segment]
) -> None:
    by_name = {segment.name: segment for segment in there}
    found = lay_out(wanted, there)
    pieces = (*found.pieces, *found.merge)
    assert len({piece.segment for piece in pieces}) == len(pieces)
    for piece in pieces:
        segment = by_name[piece.segment]
        assert piece.visible
        assert {*piece.visible, *piece.hidden} == set(segment.keys)
        assert not {*piece.visible} & {*piece.hidden}
        assert all(segment.keys[name] == wanted[name] for name in piece.visible)
        assert piece.rows == sum(segment.rows[name] for name in piece.visible)


@given(held, segments(), st.integers(2, 20))
def test_a_view_never_stands_on_too_many_segments(
    wanted: Mapping[str, str], there: list[Segment], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "MOST_SEGMENTS", most)
        found = lay_out(wanted, there)
    assert count(found) <= most
    assert len(found.merge) != 1


@given(held, segments(), st.randoms())
def test_the_order_in_which_segments_are_found_does_not_matter(
    wanted: Mapping[str, str], there: list[Segment], dice: random.Random
) -> None:
    mixed = list(there)
    dice.shuffle(mixed)
    assert lay_out(wanted, mixed) == lay_out(wanted, there)


@given(held, segments(MOST_SEGMENTS - 1))
def test_nothing_is_merged_while_there_is_room(
    wanted: Mapping[str, str], there: list[Segment]
) -> None:
    assert lay_out(wanted, there).merge == ()


def test_the_larger_part_of_what_is_there_twice_is_taken() -> None:
    small = Segment("small", {"1": "a"}, {"1": 1})
    large = Segment("large", {"1": "a", "2": "a"}, {"1": 1, "2": 1})
    found = lay_out({"1": "a", "2": "a"}, [small, large])
    assert [piece.segment for piece in found.pieces] == ["large"]


class History:
    """Nights of one model: what is stored, what was copied, and what the last versions hold on to."""

    def __init__(self, first: int, kept: int = 30) -> None:
        self.wanted: dict[str, str] = {}
        self.there: dict[str, Segment] = {}
        self.kept, self.versions = kept, list[set[str]]()
        self.built = self.copied = 0
        self.ratios: list[float] = []
        self.most = 0
        self.night([f"first {number:04d}" for number in range(first)])

    def night(self, days: list[str]) -> None:
        """These days are new, or corrected."""
        for day in days:
            self.wanted[day] = str(int(self.wanted.get(day, 0)) + 1)
        found = lay_out(self.wanted, list(self.there.values()))
        used = {piece.segment for piece in found.pieces}
        merged = [name for piece in found.merge for name in piece.visible]
        self.copied += len(merged)
        self.built += len(found.missing)
        for label, names in (("merged", merged), ("built", found.missing)):
            if names:
                name = f"{label} {len(self.ratios):05d}"
                keys = {day: self.wanted[day] for day in names}
                self.there[name] = Segment(name, keys, dict.fromkeys(names, 1000))
                used.add(name)
        self.most = max(self.most, len(used))
        self.versions = [*self.versions, used][-self.kept :]
        live = set().union(*self.versions)
        self.there = {name: segment for name, segment in self.there.items() if name in live}
        stored = sum(len(segment.keys) for segment in self.there.values())
        self.ratios.append(stored / len(self.wanted))

    def share_above(self, ratio: float) -> float:
        return sum(each > ratio for each in self.ratios) / len(self.ratios)


def test_a_long_history_is_copied_few_times_and_thirty_versions_cost_little_more_than_one() -> None:
    history = History(first=365)
    dice = random.Random("nights")
    for number in range(2035):
        late = (
            [f"night {number - dice.randint(1, 9):04d}"] if number > 9 and number % 10 == 0 else []
        )
        history.night([f"night {number:04d}", *late])
    assert len(history.wanted) == 2400
    assert history.most == MOST_SEGMENTS
    assert history.copied < 4 * history.built
    assert history.share_above(1.3) < 0.05
    assert max(history.ratios) < 1.5


def test_corrections_all_over_a_history_do_not_pile_up() -> None:
    history = History(first=200)
    dice = random.Random("corrections")
    for number in range(600):
        history.night([f"night {number:04d}", f"first {dice.randrange(200):04d}"])
    assert history.copied < 4 * history.built
    assert history.most == MOST_SEGMENTS
    assert max(history.ratios) < 2.5
