"""How a preview's plan and gates are put into words, the same in every format."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestration.comparison.value import VersionDiff
from orchestration.preview.gates import Judgement
from orchestration.preview.plan import ModelPlan, PreviewPlan


def told(plan: PreviewPlan) -> list[tuple[str, str, str]]:
    """(model, what happens, why), for all that changed."""
    rows = [
        (model.model, what(model), "; ".join(map(str, model.reasons)))
        for model in plan.models
        if model.is_changed or model.action == "build"
    ]
    return rows + [(name, "no longer published", "it is not in the tree") for name in plan.removed]


def what(model: ModelPlan) -> str:
    """`build`, `build 4 partitions, reuse 55`, `reuse what an earlier run built`, `left out`."""
    match model.action:
        case "left_out":
            return "left out (not selected)"
        case "reuse":
            return "reuse what an earlier run built"
        case _ if model.partitions is None:
            return "build"
        case _:
            new = len(model.partitions or ())
            reused = f", reuse {model.partitions_reused}" if model.partitions_reused else ""
            return f"build {new} partition{'' if new == 1 else 's'}{reused}"


def unchanged(plan: PreviewPlan) -> list[str]:
    return [
        model.model for model in plan.models if not model.is_changed and model.action == "reuse"
    ]


def verdict(judgement: Judgement) -> str:
    if judgement.verdict is None:
        return f"{judgement.status.replace('_', ' ')} (as published)"
    return judgement.status


def remark(failed: Mapping[str, Any]) -> str:
    """`why (how many rows)` of an expectation that did not hold."""
    said = failed["type"] if failed.get("source") == "dbt" else failed.get("reason")
    columns = ", ".join(failed.get("columns") or ())
    count = failed.get("unexpected_count")
    return (
        f"{said or failed['type']}"
        + (f" [{columns}]" if columns else "")
        + (f" ({count:,} rows)" if isinstance(count, int) and count else "")
    )


def breaks(diff: VersionDiff) -> list[str]:
    """What publishing refuses, since people read it: columns and models that go or change type."""
    lines = []
    for model in diff.models:
        if model.change == "removed":
            lines.append(f"{model.model} is published and would be gone")
        lines += [f"{model.model}.{column.name} would be gone" for column in model.shape.dropped]
        lines += [
            f"{model.model}.{old.name} would be {new.type} and is {old.type}"
            for old, new in model.shape.retyped
        ]
    return lines


def failures(judgements: Sequence[Judgement]) -> list[tuple[str, str, str]]:
    """(suite, severity, remark) of everything that did not hold."""
    return [
        (judgement.suite, str(failed.get("severity")), remark(failed))
        for judgement in judgements
        if judgement.verdict is not None
        for failed in judgement.verdict["results"]
        if not failed["success"]
    ]
