"""What a model with partition_by must be, so that its partitions can be built one at a time."""

from collections.abc import Iterator

from orchestration.warehouse.dbt.graph import PARTITION_COLUMN, ModelNode, ProjectGraph

_MOST_LOOKBACK = 1000
# A view that slots read says in this column which rows a version shows.
_RESERVED_COLUMN = "_live"


def partition_refusals(model: ModelNode) -> Iterator[str]:
    """What is wrong with the model's partition_by and lookback; nothing for one without them."""
    title = model.title
    if not model.is_partitioned:
        if model.lookback:
            yield f"{title}: has lookback without partition_by; add that, or take lookback out"
        return
    if model.partition_by != PARTITION_COLUMN:
        yield (
            f"{title}: partition_by is {model.partition_by!r}; write "
            f"partition_by='{PARTITION_COLUMN}', the column that every source has"
        )
    if model.materialized != "versioned":
        yield f"{title}: has partition_by, so materialize it as 'versioned'"
    is_number = isinstance(model.lookback, int) and not isinstance(model.lookback, bool)
    if not is_number or not 0 <= model.lookback <= _MOST_LOOKBACK:
        yield f"{title}: lookback is {model.lookback!r}; write a number from 0 to {_MOST_LOOKBACK}"
    yield from _column_refusals(model)
    if model.depends_on_moment:
        yield f"{title}: has partition_by, so it may not depend on the moment; choose one of the two"


def _column_refusals(model: ModelNode) -> Iterator[str]:
    columns = model.contract_columns
    if columns[-1:] != (PARTITION_COLUMN,) or model.contract_types[-1].lower() != "text":
        yield (
            f"{model.title}: has partition_by, so enforce its contract and name {PARTITION_COLUMN} "
            "(data_type text) as the last column"
        )
    if _RESERVED_COLUMN in columns:
        yield f"{model.title}: has partition_by, so {_RESERVED_COLUMN} is taken; rename that column"


def unsettled_readers(graph: ProjectGraph) -> Iterator[str]:
    """Pairs of models of which one has partition_by, and the other one's SQL is only known later."""
    for model in graph.models:
        read = [graph.model(name) for name in model.parents if name in graph.by_name]
        partitioned = [parent.name for parent in read if parent.is_partitioned]
        if model.depends_on_moment and partitioned:
            yield (
                f"{model.title}: depends on the moment and reads {', '.join(partitioned)}, which has "
                "partition_by; take one of the two out"
            )
        unsettled = sorted(_unsettled_views(graph, model)) if model.is_partitioned else []
        if unsettled:
            yield (
                f"{model.title}: has partition_by and reads {', '.join(unsettled)}, a view that "
                "depends on the moment; materialize that one as 'versioned', or take one of the two out"
            )


def _unsettled_views(graph: ProjectGraph, model: ModelNode) -> set[str]:
    """The views below the model, through views alone, whose rows depend on the moment."""
    found: set[str] = set()
    for name in model.parents:
        parent = graph.by_name.get(name)
        if parent is None or parent.kind != "view":
            continue
        if parent.depends_on_moment:
            found.add(name)
        found |= _unsettled_views(graph, parent)
    return found
