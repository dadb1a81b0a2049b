"""A preview for a terminal: what is built and why, what the gates say, what readers would see."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestration.comparison.text import as_text as diff_as_text
from orchestration.comparison.words import code
from orchestration.preview import words
from orchestration.preview.preview import Planned, Previewed

_STYLES = {"failed": "red", "error": "red", "warned": "yellow", "passed": "green"}


def plan_as_text(planned: Planned) -> RenderableType:
    return Group(*_plan(planned))


def as_text(found: Previewed) -> RenderableType:
    planned = found.planned
    return Group(
        *_plan(planned),
        Text(""),
        *_gates(found),
        Text(""),
        diff_as_text(found.diff),
        *_breaks(found),
        Text(""),
        Text(f"Nothing was published. Look at it in schema {planned.plan.places.schema}."),
    )


def _plan(planned: Planned) -> Iterator[RenderableType]:
    plan = planned.plan
    yield Text.assemble(
        ("preview of the working tree", "bold"),
        f" ({code(planned.after)}) against {planned.before.name}, in {plan.places.schema}",
    )
    rows = words.told(plan)
    yield _table(["model", "what happens", "why"], rows) if rows else Text("no model changed")
    if same := words.unchanged(plan):
        yield Text(f"Reused as published: {', '.join(same)}", style="dim")


def _gates(found: Previewed) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False)
    table.add_column("gate")
    table.add_column("verdict")
    for judgement in found.judgements:
        style = _STYLES.get(judgement.status, "") if judgement.verdict is not None else "dim"
        table.add_row(judgement.suite, Text(words.verdict(judgement), style=style))
    yield table
    if failed := words.failures(found.judgements):
        yield _table(["did not hold", "severity", "what"], failed)
    if found.refused:
        yield Text(f"A run would hold this version: {', '.join(found.refused)}", style="bold red")


def _breaks(found: Previewed) -> Iterator[RenderableType]:
    if lines := words.breaks(found.diff):
        yield Text("")
        yield Text("Publishing this takes something away from readers:", style="bold red")
        yield from (Text(f"  {line}") for line in lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
