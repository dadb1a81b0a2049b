"""What dbt said to another process, about another database, is enough to build and to test."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestration.warehouse.connections import Role
from orchestration.warehouse.dbt import project
from orchestration.warehouse.dbt.data_tests import run_tests
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.project import load_graph


def test_models_are_built_and_tested_from_kept_answers(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = replace(shop.session(), cache_dir=tmp_path / "cache")
    load_graph(replace(session, url="postgresql://nobody@localhost/elsewhere"), ["*"])

    def refuse(_: Any, arguments: list[str], *__: Any) -> None:
        raise AssertionError(f"dbt was asked to {arguments[0]}")

    with monkeypatch.context() as patch:
        patch.setattr(project, "invoke", refuse)
        graph = load_graph(session, ["*"])
    assert compute_keys(graph, shop.checksums) == compute_keys(shop.graph(), shop.checksums)
    monkeypatch.setattr(type(shop), "graph", lambda *_: graph)
    _, _, plan = shop.build()
    assert {planned.model for planned in plan.build} == {model.name for model in graph.models}
    outcomes = run_tests(shop.session(Role.GATE), graph, plan.relations)
    assert [outcome.status for outcome in outcomes] == ["pass"] * 4
    with shop.warehouse.connect(Role.GATE, **{"sluice.manifest": shop.manifest}) as connection:
        relation = plan.relations["agg_daily"]
        rows = connection.execute(f"select orders from store.{relation} order by placed_on")
        assert rows.fetchall() == [(2,), (1,)]
