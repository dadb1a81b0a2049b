"""What a partition came from, and which partitions a window went into, are the same said twice."""

from hypothesis import given
from hypothesis import strategies as st

from orchestration.publication.origins import Origins, TracedModel

DAYS = tuple(f"2024-01-0{number}" for number in range(1, 7))
WINDOWS = {"shop.orders": DAYS, "shop.returns": DAYS[1:4], "shop.customers": ("snapshot",)}


@st.composite
def projects(draw: st.DrawFn) -> dict[str, TracedModel]:
    """Models that read resources and each other: partitioned ones, views, and whole tables."""
    models: dict[str, TracedModel] = {}
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["partitioned", "view", "table"]))
        models[f"m_{number}"] = TracedModel(
            parents=tuple(sorted(draw(st.frozensets(st.sampled_from(sorted(models) or [""])))))
            if models
            else (),
            resources=tuple(sorted(draw(st.frozensets(st.sampled_from(sorted(WINDOWS)))))),
            is_view=kind != "table",
            partitions=DAYS if kind == "partitioned" else None,
            lookback=draw(st.integers(0, 3)) if kind == "partitioned" else 0,
        )
    return models


@given(models=projects())
def test_a_window_went_into_the_partitions_that_came_from_it(
    models: dict[str, TracedModel],
) -> None:
    origins = Origins(models, WINDOWS)
    for name, model in models.items():
        if model.partitions is None:
            continue
        for resource, windows in WINDOWS.items():
            for window in windows:
                forward = origins.partitions_with(name, (resource, window))
                back = {
                    day for day in DAYS if (resource, window) in origins.of_partition(name, day)
                }
                assert forward == back


@given(models=projects())
def test_everything_below_a_model_is_in_its_partitions_or_counts_as_a_whole(
    models: dict[str, TracedModel],
) -> None:
    origins = Origins(models, WINDOWS)
    for name, model in models.items():
        if model.partitions is None:
            assert origins.resources(name) >= origins.entire(name)
            continue
        in_parts = {resource for day in DAYS for resource, _ in origins.of_partition(name, day)}
        assert in_parts | origins.entire(name) == origins.resources(name)


def test_a_lookback_over_a_lookback_reaches_as_far_as_both() -> None:
    orders = TracedModel((), ("shop.orders",), is_view=True, partitions=DAYS)
    means = TracedModel(("orders",), (), is_view=True, partitions=DAYS, lookback=1)
    trend = TracedModel(("means",), (), is_view=True, partitions=DAYS, lookback=2)
    origins = Origins({"orders": orders, "means": means, "trend": trend}, WINDOWS)
    assert origins.of_partition("trend", DAYS[4]) == {("shop.orders", day) for day in DAYS[1:5]}
    assert origins.partitions_with("trend", ("shop.orders", DAYS[1])) == set(DAYS[1:5])


def test_what_a_whole_table_was_made_of_counts_as_a_whole_for_every_partition() -> None:
    prices = TracedModel((), ("shop.returns",), is_view=False)
    orders = TracedModel(("prices",), ("shop.orders",), is_view=True, partitions=DAYS)
    origins = Origins({"prices": prices, "orders": orders}, WINDOWS)
    assert origins.entire("orders") == {"shop.returns"}
    assert origins.of_partition("orders", DAYS[2]) == {("shop.orders", DAYS[2])}
    assert origins.partitions_with("orders", ("shop.returns", DAYS[2])) == frozenset()
