"""dbt's data tests on what changed come out as on everything; their SQL is run as dbt would run it."""

from pathlib import Path

import pytest
from demo_project import DataTests, make_project
from effort import few
from hypothesis import given
from shelf import Shelf, content, rows
from world import HISTORIES, Action, Kind, World

from orchestration.warehouse.dbt.graph import ProjectGraph


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def graph(project: Path) -> ProjectGraph:
    return make_project(project)


@pytest.fixture
def data_tests(shelf: Shelf, graph: ProjectGraph, project: Path) -> DataTests:
    return DataTests(shelf, graph, project)


def test_a_key_and_a_null_of_another_night_are_found(data_tests: DataTests) -> None:
    world = World()
    for day in range(1, 25):
        world.put(f"2024-01-{day:02}", content(rows(*range(100 * day, 100 * day + 20))))
    world.put("2024-01-25", world.make(Kind.KEYLESS, 0))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert [name for name, passes in found.items() if not passes] == ["known_key"]

    world.put("2024-01-26", world.make(Kind.KEYLESS, 0))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert not found["no_two_alike"]
    assert found["unique_key"]

    world.put("2024-01-26", content(rows(1_000_001, 105)))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert not found["unique_key"]


@pytest.mark.slow
@few(3)
@given(actions=HISTORIES)
def test_whatever_happens_data_tests_come_out_as_on_everything(
    data_tests: DataTests, actions: list[Action]
) -> None:
    data_tests.shelf.owner.execute("truncate ops.judgements")
    world = World()
    world.put("2024-01-01", world.make(Kind.GOOD, 0))
    for action in actions:
        world.act(*action)
        if world.days:
            found, everything = data_tests.judge(data_tests.version(world))
            assert found == everything, action
