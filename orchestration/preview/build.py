"""Builds a preview with dbt as the analyst, in a schema that nobody else builds in."""

from collections.abc import Iterator

from orchestration.preview.base import Base
from orchestration.preview.plan import PreviewPlan, Tree
from orchestration.preview.schema import PreviewSchema
from orchestration.warehouse.dbt.build import BuildResult, run_build
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Sources, Writer
from orchestration.warehouse.names import qualified, statement
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.segments.texts import live_name


def build_models(
    schema: PreviewSchema,
    session: DbtSession,
    plan: PreviewPlan,
    tree: Tree,
    base: Base,
    sources: Sources,
) -> BuildResult:
    """Builds what the plan says; what stood in the schema under these names is gone first.

    What is reused and not published is shown by a view; for the rest there are stand-ins.
    Raises `TransformFailure` and `ConfigurationError` like a run, also for a model whose partitions
    depend on each other.
    """
    connection = schema.connection
    writer = Writer(tree.graph, tree.keys, plan.build, sources, plan.places)
    reused = _reused_views(schema.name, plan, base)
    built = [planned.relation_name for planned in plan.build.build]
    schema.make_room([*built, *reused])
    result = run_build(session, writer)
    with connection.transaction():
        for text in (*writer.views_without_build(), *reused.values()):
            connection.execute(text.encode())
    check_independence(connection, writer, None)
    schema.mark([*built, *map(live_name, built), *reused])
    for table in _tables(plan):
        connection.execute(statement("analyze {table}", table=qualified(schema.name, table)))
    return result


def _reused_views(schema: str, plan: PreviewPlan, base: Base) -> dict[str, str]:
    """model → statement for a view over its relation in the store."""
    return {
        planned.model: statement(
            "create view {view} as select * from {relation}",
            view=qualified(schema, planned.model),
            relation=plan.places.qualified(planned.relation_name),
        ).as_string(None)
        for planned in plan.build.reuse
        if planned.model in plan.changed
        or (planned.kind == "table" and not base.models[planned.model].published)
    }


def _tables(plan: PreviewPlan) -> Iterator[str]:
    for planned in plan.build.by_dbt:
        if planned.kind == "table":
            yield planned.relation_name
