"""Which command an operator is told, by how the run stands and what stopped it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from orchestration.errors import FailureKind
from orchestration.identity import RunId
from orchestration.model import Outcome, Run, TriggerKind
from orchestration.runs.diagnosis import Standing, advise, same_request

RUN = "r_0123456789abcdef"
ONE_DAY = {"first": "2013-01-05", "last": "2013-01-05", "count": 1}
TYPED = "sluice run --pipeline flights --partitions 2013-01-05"
REPLAY = f"sluice replay {RUN}"


def a_run(
    failure: tuple[str, str] | None = None,
    *,
    kind: TriggerKind = TriggerKind.MANUAL,
    publish: bool = True,
    outcome: Outcome | None = None,
    **request: Any,
) -> Run:
    return Run(
        run_id=RunId(RUN),
        pipeline="flights",
        trigger_kind=kind,
        trigger_key="k",
        code_id="c",
        code_commit=None,
        code_dirty=None,
        publish=publish,
        as_of=datetime(2013, 1, 6, tzinfo=UTC),
        correlation_id="x",
        workflow_id="local",
        status="failed",
        outcome=outcome or Outcome.FAILED,
        version_id=None,
        request={"days": ONE_DAY} | request,
        failure=failure
        and {
            "kind": failure[0],
            "stage": failure[1],
            "error_code": "x",
            "transient": False,
            "message": "x",
        },
    )


@pytest.mark.parametrize(
    ("run", "typed"),
    [
        (a_run(), TYPED),
        (a_run(refresh=True, publish=False), f"{TYPED} --refresh --no-publish"),
        (
            a_run(days={"first": "2013-01-05", "last": "2013-01-07", "count": 3}),
            "sluice run --pipeline flights --partitions 2013-01-05..2013-01-07",
        ),
        (a_run(days={"first": "2013-01-05", "last": "2013-01-07", "count": 2}), REPLAY),
        (a_run(days=None), REPLAY),
        (a_run(fetch_snapshots=True), REPLAY),
        (a_run(kind=TriggerKind.SCHEDULE), REPLAY),
    ],
)
def test_a_request_is_repeated_as_it_was_made_where_it_can_be_typed(run: Run, typed: str) -> None:
    assert same_request(run) == typed


@pytest.mark.parametrize("kind", FailureKind)
@pytest.mark.parametrize("standing", [Standing.FAILED, Standing.FINISHED])
def test_every_kind_of_failure_has_a_command_that_goes_on(
    kind: FailureKind, standing: Standing
) -> None:
    advice = advise(a_run((kind, "extract")), standing, None)
    assert advice.next.startswith(("sluice run ", "sluice replay "))
    assert advice.look
    assert ("--refresh" in advice.next) == (kind is FailureKind.QUALITY)


def test_a_gate_is_judged_again_and_a_degraded_run_fetched_again() -> None:
    gate = advise(a_run(("quality", "gate"), outcome=Outcome.HELD), Standing.FINISHED, None)
    assert gate.next == f"{REPLAY} --stage gate"
    degraded = advise(a_run(outcome=Outcome.DEGRADED), Standing.FINISHED, None)
    assert degraded.next == f"{TYPED} --refresh"


@pytest.mark.parametrize(
    ("standing", "typed"),
    [
        (Standing.RUNNING, f"sluice status {RUN}"),
        (Standing.CANCELLING, f"sluice cancel {RUN}"),
        (Standing.INTERRUPTED, TYPED),
        (Standing.CANCELLED, TYPED),
        (Standing.SUPERSEDED, "sluice status r_next"),
    ],
)
def test_a_run_that_has_not_failed_is_advised_by_how_it_stands(
    standing: Standing, typed: str
) -> None:
    assert advise(a_run(), standing, "r_next").next == typed
