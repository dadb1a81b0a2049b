"""What a source can do to a pipeline: new days, bad days, corrections, corrections taken back."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from hypothesis import strategies as st
from shelf import NOON, Content, content, rows

UNITS = (("m",), ("m", "ft"), ("ft",))


class Kind(Enum):
    """What is odd about a day."""

    GOOD = auto()
    FAST = auto()
    WARM = auto()
    TAKEN = auto()
    """It has a key that some day has, or had before it was corrected."""
    KEYLESS = auto()
    LOST = auto()
    """A row of the source is missing."""
    FOREIGN = auto()
    FUTURE = auto()
    EMPTY = auto()


@dataclass
class World:
    """What the source has said so far, and what a gate ought to say of it."""

    days: dict[str, Content] = field(default_factory=dict)
    past: dict[str, list[Content]] = field(default_factory=dict)
    used: list[int] = field(default_factory=list)
    units: tuple[str, ...] = ("m",)
    limit: float = 100
    as_of: datetime = NOON

    def make(self, kind: Kind, pick: int) -> Content:
        key = len(self.used) + 1
        self.used.append(key)
        shown = rows(key, 10_000 + key)
        match kind:
            case Kind.FAST:
                shown += rows(20_000 + key, speed=150)
            case Kind.WARM:
                shown += rows(20_000 + key, speed=90)
            case Kind.TAKEN:
                shown += rows(self.used[pick % len(self.used)])
            case Kind.KEYLESS:
                shown.append((None, 10, "m", NOON - timedelta(seconds=40_000 + key)))
            case Kind.FOREIGN:
                shown += rows(20_000 + key, unit="yd")
            case Kind.FUTURE:
                shown += rows(20_000 + key, seen=NOON + timedelta(days=40))
            case Kind.EMPTY:
                shown = []
        return content(shown, len(shown) + (kind is Kind.LOST))

    def put(self, day: str, held: Content) -> None:
        self.days[day] = held
        self.past.setdefault(day, []).append(held)

    def act(self, what: str, kind: Kind, pick: int) -> None:
        known = sorted(self.past)
        day = known[pick % len(known)] if known else "2024-01-01"
        match what:
            case "correct":
                self.put(day, self.make(kind, pick))
            case "revert" if known:
                self.put(day, self.past[day][pick % len(self.past[day])])
            case "withdraw" if len(self.days) > 1:
                self.days.pop(day, None)
            case "units":
                self.units = UNITS[pick % 3]
            case "suite":
                self.limit = 50 if self.limit == 100 else 100
            case "wait":
                self.as_of = NOON + timedelta(days=pick % 3)
            case _:
                self.put(f"2024-01-{len(known) + 1:02}", self.make(kind, pick))

    def is_good(self) -> bool:
        """Computed without a database, from what the suite says."""
        shown = [row for held in self.days.values() for row in held.rows]
        keys, speeds = [row[0] for row in shown], [row[1] for row in shown]
        moments = [(row[3], row[2]) for row in shown]
        newest = max((row[3] for row in shown), default=None)
        return (
            None not in keys
            and len(set(keys)) == len(keys)
            and len(set(moments)) == len(moments)
            and all(0 <= speed <= self.limit for speed in speeds)
            and all(row[2] in self.units for row in shown)
            and all(len(held.rows) == held.loaded for held in self.days.values())
            and newest is not None
            and self.as_of - timedelta(hours=48) <= newest <= self.as_of + timedelta(hours=24)
            and sum(speeds) / len(speeds) <= 60
        )


Action = tuple[str, Kind, int]
ACTIONS = st.tuples(
    st.sampled_from(
        ["add", "add", "add", "correct", "correct", "revert", "withdraw", "units", "suite", "wait"]
    ),
    st.sampled_from([Kind.GOOD] * 6 + [Kind.TAKEN, *Kind]),
    st.integers(0, 50),
)
HISTORIES = st.lists(ACTIONS, min_size=3, max_size=10)
