"""What building a version would come to, model by model, as a value: made from a plan, for people."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.plan import BuildPlan
from orchestration.warehouse.rebuilds import Rebuild


@dataclass(frozen=True)
class ModelOutlook:
    """`action` is build or reuse. Of a model with partitions also which of them would be built, how
    many are there already, and how many segments would become one; `because` is for a rebuild.
    """

    model: str
    action: str
    partitions: tuple[str, ...] | None = None
    reused: int | None = None
    merged: int = 0
    because: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "action": self.action,
            "partitions": None if self.partitions is None else list(self.partitions),
            "reused_partitions": self.reused,
            "merged_segments": self.merged,
            "because": list(self.because),
        }


def look_ahead(
    graph: ProjectGraph, plan: BuildPlan, rebuilds: Iterable[Rebuild]
) -> list[ModelOutlook]:
    """One entry for each model of the graph, in its order."""
    because = {rebuild.model: rebuild.causes for rebuild in rebuilds}
    built = {planned.model for planned in plan.build}
    merged = {planned.model: len(planned.merged) for planned in plan.merges}
    found = []
    for model in graph.models:
        name = model.name
        action = "build" if name in built else "reuse"
        if not model.is_partitioned:
            found.append(ModelOutlook(name, action))
            continue
        new = plan.new_partitions.get(name, ())
        shown = sum(len(piece.visible) for piece in plan.pieces[name])
        found.append(
            ModelOutlook(
                name, action, new, shown - len(new), merged.get(name, 0), because.get(name, ())
            )
        )
    return found
