"""A preview as a comment on a pull request: what readers would see first, how it came about folded."""

from collections.abc import Iterator

from orchestration.comparison.markdown import LONGEST, span, table
from orchestration.comparison.markdown import as_markdown as diff_as_markdown
from orchestration.preview import words
from orchestration.preview.preview import Planned, Previewed

_MOST_ROWS = 40


def plan_as_markdown(planned: Planned) -> str:
    return "\n".join(_plan(planned)) + "\n"


def as_markdown(found: Previewed) -> str:
    """The whole comment, bounded like that of a comparison."""
    own = "\n".join([*_verdict(found), "", *_folded(found)]) + "\n"
    room = max(LONGEST - len(own), 2000)
    return diff_as_markdown(found.diff, title="Preview", longest=room) + "\n" + own


def _verdict(found: Previewed) -> Iterator[str]:
    if lines := words.breaks(found.diff):
        yield "**Publishing this takes something away from readers:**"
        yield ""
        yield from (f"- {line}" for line in lines[:_MOST_ROWS])
        yield ""
    if found.refused:
        yield f"**A run would hold this version: {', '.join(found.refused)}.**"
    else:
        yield "All gates let it through."
    if failed := words.failures(found.judgements):
        rows = [[span(suite), severity, span(remark)] for suite, severity, remark in failed]
        yield ""
        yield from table(["did not hold", "severity", "what"], rows, _MOST_ROWS, "rule")


def _folded(found: Previewed) -> Iterator[str]:
    yield "<details><summary>What was built, and why</summary>"
    yield ""
    yield from _plan(found.planned)
    yield ""
    yield "</details>"


def _plan(planned: Planned) -> Iterator[str]:
    rows = [[span(model), what, why] for model, what, why in words.told(planned.plan)]
    if rows:
        yield from table(["model", "what happens", "why"], rows, _MOST_ROWS, "model")
    else:
        yield "No model changed."
    if same := words.unchanged(planned.plan):
        yield ""
        yield f"Reused as published: {', '.join(map(span, same[:_MOST_ROWS]))}."
