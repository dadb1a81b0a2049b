"""An operator publishes what a run built: only what passed and is merged, and it is written down."""

from typing import Any

import pytest
from retention_rows import ask, change

from orchestration.errors import Busy, ConfigurationError, LeaseLost, SluiceError
from orchestration.identity import VersionId
from orchestration.publication.candidates import (
    BuiltBy,
    Origin,
    builders_of,
    publish_candidate,
)
from orchestration.publication.flip import Publication
from orchestration.publication.grace import Patience
from orchestration.publication.shape_rules import Allowed
from orchestration.runs.operating import hold_build_lease
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease

DAY = "flights.weather/2013-01-01"
MERGED = Origin("a" * 40, False, "main")
UNMERGED = Origin("b" * 40, False)


@pytest.fixture
def candidate(flights: Any) -> VersionId:
    flights.publish(flights.build({"fct": "select 1 as value"}, {DAY: 1}))
    return VersionId(flights.build({"fct": "select 2 as value"}, {DAY: 2}))


def publish(
    warehouse: Warehouse,
    version: VersionId,
    origin: Origin = MERGED,
    reason: str | None = None,
    *,
    overrule: bool = False,
    lease: Lease | None = None,
) -> Publication:
    with hold_build_lease(warehouse, "flights", on_wait=lambda _: None) as own:
        return publish_candidate(
            warehouse,
            version,
            origin,
            lease=lease or own,
            owner="owner@example.org",
            actor="ann",
            reason=reason,
            overrule=overrule,
            patience=Patience(),
            allowed=Allowed(),
        )


def actions(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return ask(
        warehouse,
        "select action, target, reason, actor from ops.operator_actions order by action_id",
    )


def test_a_merged_candidate_is_published_once_and_written_down(
    flights: Any, warehouse: Warehouse, candidate: VersionId
) -> None:
    done = publish(warehouse, candidate)
    assert (done.outcome, done.version_id) == ("published", candidate)
    assert flights.read("select value from analytics.fct") == [(2,)]
    written = [("publish", candidate, f"commit {'a' * 10} is in main", "ann")]
    assert actions(warehouse) == written
    assert (
        ask(warehouse, "select reason, actor from ops.publications order by 1 desc limit 1") != []
    )
    again = publish(warehouse, candidate, UNMERGED)
    assert (again.outcome, again.publication_id) == ("unchanged", done.publication_id)
    assert actions(warehouse) == written


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (UNMERGED, "its commit bbbbbbbbbb is not merged into main"),
        (Origin("a" * 40, True, None), "its code differed from commit aaaaaaaaaa"),
        (Origin("a" * 40, None, "main"), "its code differed from commit aaaaaaaaaa"),
        (Origin(None, None), "nobody knows what commit its code was"),
    ],
)
def test_code_that_is_not_merged_needs_somebody_who_says_why(
    flights: Any, warehouse: Warehouse, candidate: VersionId, origin: Origin, words: str
) -> None:
    for reason in (None, "a reason alone overrules nothing"):
        with pytest.raises(ConfigurationError, match=words) as caught:
            publish(warehouse, candidate, origin, reason)
        assert caught.value.code == "unmerged"
        assert "--allow-unmerged --reason" in caught.value.message
    assert actions(warehouse) == []
    publish(warehouse, candidate, origin, "hot fix", overrule=True)
    assert flights.read("select value from analytics.fct") == [(2,)]
    assert actions(warehouse) == [
        (
            "publish",
            candidate,
            f"hot fix (unmerged: {words}"
            + (", as far as this checkout knows)" if origin is UNMERGED else ")"),
            "ann",
        )
    ]


@pytest.mark.parametrize(
    ("state", "words", "code"),
    [
        (
            "held",
            "waits for a decision, since its gate did not pass; see: sluice gates show r",
            "not_passed",
        ),
        ("rejected", "it was rejected; see: sluice gates show r", "not_passed"),
        (
            "candidate",
            "its gate has not come to an end; go on with its run: sluice replay r",
            "not_passed",
        ),
        (
            "retired",
            "was published before; to go back to it: sluice rollback v_",
            "published_before",
        ),
    ],
)
def test_what_did_not_pass_is_refused_in_words_whatever_overrules(
    flights: Any, warehouse: Warehouse, candidate: VersionId, state: str, words: str, code: str
) -> None:
    change(warehouse, "update ops.versions set state = %s where version_id = %s", state, candidate)
    with pytest.raises(SluiceError, match=words) as caught:
        publish(warehouse, candidate, reason="please", overrule=True)
    assert caught.value.code == code
    assert flights.read("select value from analytics.fct") == [(1,)]


def test_a_candidate_that_lacks_what_was_published_meanwhile_is_refused(
    flights: Any, warehouse: Warehouse, candidate: VersionId
) -> None:
    flights.publish(flights.build({"fct": "select 3 as value"}, {DAY: 3}))
    with pytest.raises(Busy, match="run the pipeline again") as caught:
        publish(warehouse, candidate)
    assert caught.value.code == "rebase_needed"
    assert flights.read("select value from analytics.fct") == [(3,)]


def test_an_operator_who_lost_the_lease_publishes_nothing(
    flights: Any, warehouse: Warehouse, candidate: VersionId
) -> None:
    with pytest.raises(LeaseLost):
        publish(warehouse, candidate, lease=Lease("build/flights", 1))
    assert flights.read("select value from analytics.fct") == [(1,)]
    assert actions(warehouse) == []


def test_every_run_that_came_to_a_version_tells_where_its_code_came_from(
    warehouse: Warehouse, candidate: VersionId
) -> None:
    change(
        warehouse,
        "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, code_commit, "
        "code_dirty, request, as_of, correlation_id, workflow_id, version_id) values "
        "('r_1', 'flights', 'manual', 'k', 'c_1', %s, false, '{}', now(), 'c', 'w', %s)",
        *("c" * 40, candidate),
    )
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        assert builders_of(connection, candidate) == [
            BuiltBy("c", None, None),
            BuiltBy("c_1", "c" * 40, False),
        ]
