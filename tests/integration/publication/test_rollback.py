from typing import Any

import pytest

from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Warehouse


def versions(flights: Any, count: int) -> list[Any]:
    built = [flights.build({"fct": f"select {number} as number"}) for number in range(count)]
    for version in built:
        flights.publish(version)
    return built


def number(flights: Any) -> Any:
    return flights.read("select number from analytics.fct")[0][0]


def test_a_rollback_shows_the_version_before(flights: Any, warehouse: Warehouse) -> None:
    built = versions(flights, 2)
    publication = flights.rollback()
    assert (publication.outcome, publication.version_id) == ("published", built[0])
    assert number(flights) == 0
    with warehouse.connect() as owner:
        assert owner.execute(
            "select kind, reason, actor from ops.publications order by publication_id desc limit 1"
        ).fetchone() == ("rollback", "it was wrong", "operator")
        rows = owner.execute("select action, target, reason, actor from ops.operator_actions")
        assert rows.fetchall() == [("rollback", built[0], "it was wrong", "operator")]


def test_rolling_back_twice_never_goes_forward(flights: Any) -> None:
    built = versions(flights, 4)
    assert [flights.rollback().version_id for _ in range(3)] == built[2::-1]
    with pytest.raises(ConfigurationError) as caught:
        flights.rollback()
    assert caught.value.code == "nothing_to_roll_back"


def test_back_and_forth_between_named_versions(flights: Any) -> None:
    built = versions(flights, 3)
    for index in (0, 2, 1, 2, 0):
        assert flights.rollback(built[index]).outcome == "published"
        assert number(flights) == index


def test_going_back_to_the_other_slot_replaces_no_view(flights: Any) -> None:
    built = versions(flights, 2)
    assert flights.prepare(built[0]).replaced == ()


def test_a_rollback_to_what_is_shown_is_no_publication(flights: Any, warehouse: Warehouse) -> None:
    built = versions(flights, 2)
    assert flights.rollback(built[1]).outcome == "unchanged"
    with warehouse.connect() as owner:
        assert owner.execute("select count(*) from ops.operator_actions").fetchone() == (0,)


def test_only_what_was_published_can_be_rolled_back_to(flights: Any) -> None:
    versions(flights, 1)
    with pytest.raises(ConfigurationError) as caught:
        flights.rollback(flights.build({"fct": "select 9 as number"}))
    assert caught.value.code == "never_published"


def test_a_rollback_may_go_to_an_older_manifest_and_a_narrower_shape(flights: Any) -> None:
    old = flights.build({"fct": "select 1 as number"}, {"flights.weather/2013-01-01": 1})
    flights.publish(old)
    flights.publish(
        flights.build(
            {"fct": "select 2 as number, 'x'::text as extra", "added": "select 1 as one"},
            {"flights.weather/2013-01-01": 2},
        )
    )
    flights.rollback()
    assert flights.read("select * from analytics.fct") == [(1, None)]
    with pytest.raises(Exception, match="not part of the published version"):
        flights.read("select * from analytics.added")
