"""What a preview says: verdicts, what publishing would take away, one bounded comment."""

import pytest

from orchestration.comparison.markdown import LONGEST
from orchestration.comparison.value import ModelDiff, RowCounts, SideLabel, VersionDiff
from orchestration.preview.gates import Judgement
from orchestration.preview.words import breaks, failures, remark, verdict
from orchestration.publication.shapes import Column, ShapeChange

LABEL = SideLabel("v_1", "flights", "published")


@pytest.mark.parametrize(
    ("judgement", "said"),
    [
        (Judgement("marts/fct", "passed"), "passed (as published)"),
        (Judgement("marts/fct", "failed", {"results": []}), "failed"),
        (Judgement("marts/fct", "left_out"), "left out (as published)"),
    ],
)
def test_a_verdict_that_was_not_asked_for_again_says_so(judgement: Judgement, said: str) -> None:
    assert verdict(judgement) == said


def test_what_did_not_hold_is_said_in_the_words_of_the_rule() -> None:
    held = {"type": "x", "success": True, "severity": "critical"}
    suite = {
        "type": "expect_x",
        "success": False,
        "severity": "critical",
        "reason": "Minutes are whole.",
        "columns": ["delay"],
        "unexpected_count": 1200,
    }
    test = {"source": "dbt", "type": "is_unique", "success": False, "severity": "warning"}
    assert remark(suite) == "Minutes are whole. [delay] (1,200 rows)"
    assert remark(test) == "is_unique"
    judgements = [
        Judgement("marts/fct", "failed", {"results": [held, suite]}),
        Judgement("dbt data tests", "warned", {"results": [test]}),
        Judgement("marts/dim", "failed"),
    ]
    assert [row[:2] for row in failures(judgements)] == [
        ("marts/fct", "critical"),
        ("dbt data tests", "warning"),
    ]
    assert Judgement("marts/fct", "failed", {"results": [held, suite]}).as_json() == {
        "suite": "marts/fct",
        "status": "failed",
        "judged": True,
        "failed": [suite],
    }


def test_what_readers_would_lose_is_listed() -> None:
    shape = ShapeChange(
        added=(Column("new", "text"),),
        dropped=(Column("city", "text"),),
        retyped=((Column("cents", "integer"), Column("cents", "bigint")),),
    )
    diff = VersionDiff(
        LABEL,
        LABEL,
        (
            ModelDiff("dim", "removed", 3),
            ModelDiff("fct", "changed", 3, 3, shape, counts=RowCounts()),
            ModelDiff("new", "added", None, 3),
        ),
    )
    assert breaks(diff) == [
        "dim is published and would be gone",
        "fct.city would be gone",
        "fct.cents would be bigint and is integer",
    ]
    assert LONGEST < 65_536
