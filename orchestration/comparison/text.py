"""A comparison for a terminal, or for a file: the same words, colours only where somebody looks."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestration.comparison import words
from orchestration.comparison.value import ColumnChange, Example, ModelDiff, VersionDiff

_MOST_PARTITIONS = 10
_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}


def as_text(diff: VersionDiff) -> RenderableType:
    """What to hand to a rich console."""
    parts: list[RenderableType] = [_head(diff)]
    for model in diff.differing:
        parts += [Text(""), *_model(model)]
    if not diff.differing:
        parts += [Text(""), Text("Readers would see the same rows in the same columns.")]
    if diff.same:
        parts += [Text(""), Text(f"The same: {', '.join(diff.same)}", style="dim")]
    return Group(*parts)


def _head(diff: VersionDiff) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for word, label in (("before", diff.before), ("after", diff.after)):
        table.add_row(word, Text(label.name, style="bold"), words.told(label))
    return table


def _model(model: ModelDiff) -> Iterator[RenderableType]:
    told = {"added": "new model", "removed": "no longer there"}.get(model.change, "")
    yield Text.assemble(
        (model.model, "bold"),
        f"  {words.rows(model.rows_before, model.rows_after)} rows  ",
        (told, "bold") if told else _counts(model),
    )
    for line in words.schema(model.shape):
        yield _indented(Text(line, style="cyan"))
    for line in words.how_compared(model):
        yield _indented(Text(line, style="dim"))
    if model.columns:
        yield _indented(_columns(model))
    for word, rows in (("added", model.added_examples), ("removed", model.removed_examples)):
        if words.tells(rows):
            shown = "; ".join(words.key(model, row) for row in rows)
            yield _indented(Text(f"{word}, for example: {shown}", style=_STYLES[word]))
    if model.partitions:
        yield _indented(_partitions(model))
    if (left := len(model.partitions) - _MOST_PARTITIONS) > 0:
        yield _indented(Text(f"and {left} more partitions; --json has all of them", style="dim"))


def _counts(model: ModelDiff) -> Text:
    found = model.counts
    parts = [
        Text(f"{words.number(value)} {word}", style=_STYLES[word])
        for value, word in (
            (found.added, "added"),
            (found.removed, "removed"),
            (found.changed, "changed"),
        )
        if value
    ]
    return Text(", ").join(parts) if parts else Text("same rows", style="dim")


def _columns(model: ModelDiff) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("column")
    table.add_column("rows that differ", justify="right")
    table.add_column("for example", overflow="fold")
    for change in model.columns:
        table.add_row(Text(change.column), words.number(change.rows), _examples(model, change))
    return table


def _examples(model: ModelDiff, change: ColumnChange) -> Text:
    if change.is_hidden:
        return Text("values of a sensitive field are not shown", style="dim")
    return Text("\n").join(_example(model, row) for row in change.examples)


def _example(model: ModelDiff, row: Example) -> Text:
    return Text.assemble(
        (words.key(model, row), "dim"),
        f"  {words.value(row.before)} → {words.value(row.after)}",
    )


def _partitions(model: ModelDiff) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("partition")
    for name in ("rows", "added", "removed", "changed"):
        table.add_column(name, justify="right")
    for part in model.partitions[:_MOST_PARTITIONS]:
        table.add_row(
            Text(part.partition),
            words.rows(part.rows_before, part.rows_after),
            *map(words.number, (part.counts.added, part.counts.removed, part.counts.changed)),
        )
    return table


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))
