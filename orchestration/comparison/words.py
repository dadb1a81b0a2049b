"""How parts of a comparison are put into words, the same in every format."""

from orchestration.comparison.value import HIDDEN, Example, ModelDiff, RowCounts, SideLabel
from orchestration.publication.shapes import ShapeChange


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def rows(before: int | None, after: int | None) -> str:
    """`2,754 → 3,654`, or one number when both are the same."""
    return number(after) if before == after else f"{number(before)} → {number(after)}"


def counts(found: RowCounts) -> str:
    """`900 added, 58 changed`; `same rows` when nothing differs."""
    parts = [
        f"{number(value)} {word}"
        for value, word in (
            (found.added, "added"),
            (found.removed, "removed"),
            (found.changed, "changed"),
        )
        if value
    ]
    return ", ".join(parts) or "same rows"


def told(label: SideLabel) -> str:
    """`published, commit 0f3ab12345 with local changes`."""
    return f"{label.state}, {code(label)}"


def code(label: SideLabel) -> str:
    """`commit 0f3ab12345 with local changes`."""
    if label.commit is None:
        return "no commit known"
    return f"commit {label.commit[:10]}{' with local changes' if label.dirty else ''}"


def schema(shape: ShapeChange) -> list[str]:
    """One line for each column that was added, dropped or retyped."""
    return [
        *(f"column {column.name} ({column.type}) added" for column in shape.added),
        *(f"column {column.name} ({column.type}) dropped" for column in shape.dropped),
        *(
            f"column {before.name} retyped from {before.type} to {after.type}"
            for before, after in shape.retyped
        ),
    ]


def schema_summary(shape: ShapeChange) -> str:
    """`1 column added, 2 dropped`; empty when the columns are the same."""
    parts = [
        f"{len(columns)} {word}"
        for columns, word in (
            (shape.added, "added"),
            (shape.dropped, "dropped"),
            (shape.retyped, "retyped"),
        )
        if columns
    ]
    return f"columns: {', '.join(parts)}" if parts else ""


def how_compared(model: ModelDiff) -> list[str]:
    """What a reader has to know to read the counts."""
    lines: list[str] = []
    if model.change != "changed":
        return lines
    if model.key:
        declared = "primary key" if model.key_source == "primary_key" else "unique test"
        lines.append(f"rows are matched by {', '.join(model.key)} ({declared})")
    elif model.counts.total:
        lines.append(
            "no key is declared, so rows are compared whole and none counts as changed; a unique "
            "test or a primary key says which rows belong together"
        )
    if model.duplicate_keys:
        lines.append(
            f"{number(model.duplicate_keys)} keys are on several rows; those rows are compared whole"
        )
    if model.partitions or model.partitions_same:
        total = len(model.partitions) + model.partitions_same
        lines.append(f"{len(model.partitions)} of {total} partitions differ; only those were read")
    return lines


def key(model: ModelDiff, row: Example) -> str:
    """`flight_key=1f0a` or `flight_date=2013-01-01, carrier=UA`."""
    return ", ".join(f"{name}={value(part)}" for name, part in zip(model.key, row.key, strict=True))


def value(shown: str | None) -> str:
    return "null" if shown is None else shown


def tells(rows: tuple[Example, ...]) -> bool:
    """Whether the examples say which rows they are, that is, some part of their key is shown."""
    return any(part != HIDDEN for row in rows for part in row.key)
