"""One preview from the working tree to the answer: plan, build, gates, difference.

Nothing is published and nothing outside the preview's schema is written, so it may be stopped at any
time; the next one starts over.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestration.code import Code, read_code
from orchestration.comparison.compare import compare_sides
from orchestration.comparison.sides import label_of
from orchestration.comparison.value import SideLabel, VersionDiff
from orchestration.pipelines.spec import PipelineSpec
from orchestration.preview.base import Base, read_base
from orchestration.preview.build import build_models
from orchestration.preview.gates import Gate, Judgement
from orchestration.preview.plan import PreviewPlan, Tree, plan_preview
from orchestration.preview.schema import held_schema
from orchestration.preview.sides import preview_sides
from orchestration.settings import Settings
from orchestration.stages.base import Progress
from orchestration.warehouse.analysts import add_stand_ins
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.project import load_graph, select_models
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.planning import keys_of, sources_of
from orchestration.warehouse.states import state_of


@dataclass(frozen=True)
class Preview:
    """What is asked for: a pipeline's models, those of `select`, in a schema."""

    settings: Settings
    warehouse: Warehouse
    pipeline: PipelineSpec
    schema: str
    select: Sequence[str]
    work_dir: Path
    progress: Progress


@dataclass(frozen=True)
class Planned:
    """A plan with what it was made from."""

    base: Base
    tree: Tree
    plan: PreviewPlan
    code: Code

    @property
    def before(self) -> SideLabel:
        return label_of(self.base.version)

    @property
    def after(self) -> SideLabel:
        return SideLabel(
            name=self.plan.places.schema,
            pipeline=self.base.version.pipeline,
            state="preview",
            commit=self.code.commit,
            dirty=self.code.dirty,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": self.plan.places.schema,
            "before": asdict(self.before),
            "after": asdict(self.after),
            "models": [model.as_json() for model in self.plan.models],
            "removed": list(self.plan.removed),
        }


@dataclass(frozen=True)
class Previewed:
    """What came of it. `refused` are the suites that would hold the version."""

    planned: Planned
    judgements: tuple[Judgement, ...]
    refused: tuple[str, ...]
    diff: VersionDiff
    duration_s: float

    def as_json(self) -> dict[str, Any]:
        return self.planned.as_json() | {
            "gates": [judgement.as_json() for judgement in self.judgements],
            "refused": list(self.refused),
            "diff": self.diff.as_json(),
            "duration_s": round(self.duration_s, 3),
        }


def plan(asked: Preview) -> Planned:
    """What would be built, and why; nothing is written.

    Raises `ConfigurationError` for a broken project, or when nothing is published yet.
    """
    with asked.warehouse.connect(Role.ANALYST, autocommit=True) as connection:
        base = read_base(connection, asked.pipeline.name)
    asked.progress.update("plan", "reading the dbt project")
    session = _session(asked, base)
    graph = load_graph(session, asked.pipeline.dbt.select)
    check_models(graph, asked.pipeline.publishes)
    selected = select_models(session, graph.manifest, asked.select) if asked.select else None
    with asked.warehouse.connect(
        Role.ANALYST, autocommit=True, **{"sluice.manifest": base.manifest.manifest_id}
    ) as connection:
        keys = keys_of(connection, graph, base.manifest)
        tree = Tree(graph, keys, state_of(connection, graph, keys), asked.pipeline.publishes)
        made = plan_preview(connection, base, tree, schema=asked.schema, selected=selected)
    return Planned(base, tree, made, read_code(asked.settings.project_dir, asked.pipeline))


def preview(asked: Preview) -> Previewed:
    """Builds the plan, judges it and compares it with what is published.

    Raises what `plan` raises, and for models that cannot be built what a run raises.
    """
    started = time.monotonic()
    planned = plan(asked)
    base, tree, made = planned.base, planned.tree, planned.plan
    session = _session(asked, base)
    with held_schema(asked.warehouse, asked.schema, base.manifest.manifest_id) as schema:
        asked.progress.update("build", _summary(made))
        sources = sources_of(schema.connection, tree.graph, base.manifest)
        build_models(schema, session, made, tree, base, sources)
        add_stand_ins(asked.warehouse, asked.schema)
        asked.progress.update("gate", "evaluating what changed")
        gate = Gate(schema.connection, asked.settings, asked.pipeline, base, made, tree, session)
        judgements = tuple(gate.judge())
        asked.progress.update("compare", f"with {base.version.version_id}")
        before, after = preview_sides(schema.connection, base, made, tree, planned.after)
        diff = compare_sides(schema.connection, before, after)
    refused = tuple(item.suite for item in judgements if gate.is_refused(item))
    return Previewed(planned, judgements, refused, diff, time.monotonic() - started)


def _session(asked: Preview, base: Base) -> DbtSession:
    """dbt as the analyst, its sources showing the published data."""
    return DbtSession(
        project_dir=asked.settings.dbt_project_dir,
        work_dir=asked.work_dir,
        url=asked.warehouse.url(Role.ANALYST, **{"sluice.manifest": base.manifest.manifest_id}),
        threads=asked.pipeline.stages.transform.threads,
        cache_dir=asked.settings.dbt_cache_dir,
    )


def _summary(made: PreviewPlan) -> str:
    build = [model for model in made.models if model.action == "build"]
    partitions = sum(len(model.partitions or ()) for model in build)
    some = f" ({partitions} partitions)" if partitions else ""
    return f"building {len(build)} models{some}"
