"""A comparison as Markdown, for a comment on a pull request: a table, and details that fold.

Bounded: what does not fit is left out, and said. Values are code spans, so that no value of the
data is read as markup.
"""

import re
from collections.abc import Iterable, Sequence

from orchestration.comparison import words
from orchestration.comparison.value import ColumnChange, ModelDiff, VersionDiff

# The forges take 65,536 characters, and a byte is not always one.
LONGEST = 48_000
_MOST_MODELS = 60
_MOST_ROWS = 25


def as_markdown(diff: VersionDiff, *, title: str = "Data changes", longest: int = LONGEST) -> str:
    """The whole comment; never longer than `longest` plus a closing line."""
    sides = f"Before: {words.told(diff.before)}. After: {words.told(diff.after)}."
    lines = [
        f"### {title}: {span(diff.before.name)} → {span(diff.after.name)}",
        "",
        f"Pipeline {span(diff.before.pipeline)}. {sides}",
        "",
    ]
    if diff.differing:
        lines += [*_summary(diff.differing), ""]
    else:
        lines += ["Readers would see the same rows in the same columns.", ""]
    if diff.same:
        names = ", ".join(span(name) for name in diff.same[:_MOST_MODELS])
        lines += [f"The same: {names}{_more(len(diff.same) - _MOST_MODELS)}.", ""]
    text = "\n".join(lines) + "\n"
    left_out = 0
    for model in diff.differing:
        block = "\n".join(_details(model)) + "\n"
        if len(text) + len(block) > longest:
            left_out += 1
        else:
            text += block
    if left_out:
        text += (
            f"\nDetails of {left_out} models are left out here: "
            f"{span(f'sluice diff {diff.before.name} {diff.after.name}')} shows them.\n"
        )
    return text


def span(text: str) -> str:
    """A code span, also inside a table, whatever the text contains."""
    flat = " ".join(text.split()).replace("|", "\\|")
    if not flat:
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if "`" in flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def _summary(models: Sequence[ModelDiff]) -> list[str]:
    rows = [
        [
            span(model.model),
            {"added": "new", "removed": "gone"}.get(model.change, ""),
            words.rows(model.rows_before, model.rows_after),
            *map(words.number, (model.counts.added, model.counts.removed, model.counts.changed)),
            words.schema_summary(model.shape),
        ]
        for model in models
    ]
    heads = ["model", "", "rows", "added", "removed", "changed", "schema"]
    return table(heads, rows, _MOST_MODELS, "model")


def _details(model: ModelDiff) -> list[str]:
    lines = [f"- {line}" for line in (*words.schema(model.shape), *words.how_compared(model))]
    if model.columns:
        lines += ["", *_columns(model, model.columns)]
    for word, rows in (("Added", model.added_examples), ("Removed", model.removed_examples)):
        if words.tells(rows):
            shown = ", ".join(span(words.key(model, row)) for row in rows)
            lines += ["", f"{word}, for example: {shown}"]
    if model.partitions:
        rows_of = [
            [
                span(part.partition),
                words.rows(part.rows_before, part.rows_after),
                *map(words.number, (part.counts.added, part.counts.removed, part.counts.changed)),
            ]
            for part in model.partitions
        ]
        heads = ["partition", "rows", "added", "removed", "changed"]
        lines += ["", *table(heads, rows_of, _MOST_ROWS, "partition")]
    if not lines:
        return []
    told = {"added": "new", "removed": "gone"}.get(model.change) or words.counts(model.counts)
    head = f"<details><summary><b>{model.model}</b>: {told}</summary>"
    return [head, "", *lines, "", "</details>", ""]


def _columns(model: ModelDiff, changes: Iterable[ColumnChange]) -> list[str]:
    rows = [
        [span(change.column), words.number(change.rows), _examples(model, change)]
        for change in changes
    ]
    return table(["column", "rows that differ", "for example"], rows, _MOST_ROWS, "column")


def _examples(model: ModelDiff, change: ColumnChange) -> str:
    if change.is_hidden:
        return "values of a sensitive field are not shown"
    return "<br>".join(
        f"{span(words.key(model, row))}: {span(words.value(row.before))} → "
        f"{span(words.value(row.after))}"
        for row in change.examples
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], most: int, noun: str) -> list[str]:
    """At most `most` rows, and how many more there are."""
    aligned = ["--:" if head in _NUMBERS else "---" for head in heads]
    lines = [_row(heads), _row(aligned), *(_row(cells) for cells in rows[:most])]
    if len(rows) > most:
        left = len(rows) - most
        lines += ["", f"… and {left} more {noun}{'s' if left > 1 else ''}."]
    return lines


_NUMBERS = frozenset({"rows", "added", "removed", "changed", "rows that differ"})


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
