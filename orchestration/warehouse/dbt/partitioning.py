"""What a model with partition_by must be, so that its partitions can be built one at a time."""

from collections.abc import Iterator

from orchestration.warehouse.dbt.graph import PARTITION_COLUMN, ModelNode, ProjectGraph

_MOST_LOOKBACK = 1000


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
    if model.contract_columns[-1:] != (PARTITION_COLUMN,):
        yield (
            f"{title}: has partition_by, so enforce its contract and name {PARTITION_COLUMN} "
            "(data_type text) as the last column"
        )
    if model.depends_on_moment:
        yield f"{title}: has partition_by, so it may not depend on the moment; choose one of the two"


def unsettled_readers(graph: ProjectGraph) -> Iterator[str]:
    """Models whose SQL is only known when it runs, and that read partitioned ones."""
    for model in graph.models:
        read = [name for name in model.parents if name in graph.by_name]
        partitioned = [name for name in read if graph.model(name).is_partitioned]
        if model.depends_on_moment and partitioned:
            yield (
                f"{model.title}: depends on the moment and reads {', '.join(partitioned)}, which has "
                "partition_by; take one of the two out"
            )
