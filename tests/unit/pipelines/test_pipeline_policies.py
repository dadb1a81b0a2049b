"""What a pipeline says about one resource, one stage, and about its own identity."""

import json
from pathlib import Path

import pytest

from orchestration.errors import ConfigurationError
from orchestration.model import StageName
from orchestration.pipelines.cron import check_cron
from orchestration.pipelines.files import get_pipeline, load_pipeline
from orchestration.pipelines.spec import PipelineSpec

PIPELINES = Path(__file__).parents[3] / "orchestration" / "pipelines"


@pytest.fixture
def flights() -> PipelineSpec:
    return get_pipeline(PIPELINES, "flights")


def edited(folder: Path, old: str, new: str) -> PipelineSpec:
    text = (PIPELINES / "flights.yml").read_text()
    assert old in text
    path = folder / "flights.yml"
    path.write_text(text.replace(old, new, 1))
    return load_pipeline(path)


def test_a_resource_says_single_words_of_acceptance_differently(flights: PipelineSpec) -> None:
    shared = flights.stages.validation.acceptance
    weather = flights.acceptance_of("flights.weather")
    assert weather.max_quarantined_share != shared.max_quarantined_share
    assert weather.min_records == shared.min_records
    assert flights.acceptance_of("flights.flights").max_quarantined_share == (
        shared.max_quarantined_share
    )


def test_the_owner_of_a_resource_is_told_before_that_of_the_pipeline(flights: PipelineSpec) -> None:
    assert flights.owner_of(resource="flights.weather").name == "Weather data"
    assert flights.owner_of(StageName.EXTRACT, "flights.flights") == flights.owner


def test_every_stage_has_a_policy_with_acceptance(flights: PipelineSpec) -> None:
    for stage in StageName:
        policy = flights.stages.policy(stage)
        assert policy.budget_seconds > 0
        assert hasattr(policy, "acceptance")
        assert hasattr(policy, "on_failure")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("email: flight-data@example.com", "email: others@example.com"),
        ("Flights that left New York City", "Departures of New York City"),
        ('cron: "0 6 * * *"', 'cron: "0 7 * * *"'),
        ("budget_seconds: 1500", "budget_seconds: 1600"),
        ("# A day has 72 records", "# Each day has 72 records"),
        ("partitions_per_load: 31", "partitions_per_load: 31\n    plan: pro"),
        ("retention:", "tasks: {one_task_partitions: 5}\n\nretention:"),
    ],
)
def test_people_times_and_effort_do_not_decide_the_result(
    tmp_path: Path, flights: PipelineSpec, old: str, new: str
) -> None:
    assert edited(tmp_path, old, new).deciding_content() == flights.deciding_content()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_quarantined_share: 0.05", "max_quarantined_share: 0.04"),
        ("on_rejected: leave_out", "on_rejected: hold"),
        ("  - marts/dim_plane\n", ""),
        ("+dim_plane]", "+dim_plane, stg_flights__planes]"),
        ("on_failure: hold", "on_failure: fail"),
    ],
)
def test_policies_decide_the_result(
    tmp_path: Path, flights: PipelineSpec, old: str, new: str
) -> None:
    assert edited(tmp_path, old, new).deciding_content() != flights.deciding_content()


@pytest.mark.parametrize(
    "text", ["0 6 * * *", "*/15 0-6 1,15 * 1-5", "5  4 * * 0", "0-30/10 * * * 7"]
)
def test_cron_expressions_of_five_fields_are_read(text: str) -> None:
    assert check_cron(text) == " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    ["@daily", "0 6 * *", "0 6 * * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "5/2 * * * *",
     "*/0 * * * *", "0 6 * * MON", "a * * * *", ", * * * *"],
)  # fmt: skip
def test_what_is_no_cron_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cron|step"):
        check_cron(text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{drop: fct_flights.a, to: b, reason: r}", "has a `to` that means nothing"),
        ("{rename: fct_flights.a, reason: r}", "rename lacks `to`"),
        ("{drop: fct_flights.a, withdraw: dim_old, reason: r}", "says drop and withdraw"),
        ("{reason: r}", "says no change"),
        ("{drop: fct_flights.a}", "reason is missing"),
        ("{drop: fct_flights, reason: r}", "has the wrong form"),
        ("{drop: other_mart.a, reason: r}", "not published here"),
        ("{withdraw: fct_flights, reason: r}", "withdrawn and published"),
    ],
)
def test_an_entry_that_allows_a_change_of_shape_says_one_thing(
    tmp_path: Path, entry: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        edited(tmp_path, "\nsuites:\n", f"\nshape_changes: [{entry}]\n\nsuites:\n")


def test_a_change_of_shape_decides_the_result_and_its_reason_does_not(
    tmp_path: Path, flights: PipelineSpec
) -> None:
    entry = "\nshape_changes: [{drop: fct_flights.tail_number, reason: %s}]\n\nsuites:\n"
    one, other = (edited(tmp_path, "\nsuites:\n", entry % reason) for reason in "ab")
    assert one.deciding_content() == other.deciding_content()
    assert one.deciding_content() != flights.deciding_content()


def test_a_published_name_does_not_end_like_a_view_of_a_change_of_shape(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ends like the views of a change of shape"):
        edited(tmp_path, "dim_carrier, dim_airport, dim_plane]\n\n", "dim_plane__shape2]\n\n")


GATE = "acceptance: {artifact_exists: true, verdicts: [passed, warned]}\n    on_failure: hold"
POLICIES = "retention:\n  previous"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"marts/fct_trains": "warn"}, "marts/fct_trains is no suite of this pipeline"),
        ({"marts/fct_flights": "quarantine"}, "'quarantine' is not known; write hold or leave_out"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(
    tmp_path: Path, edits: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        edited(tmp_path, POLICIES, f"policies: {json.dumps(edits)}\n\n{POLICIES}")


@pytest.mark.parametrize(
    ("suite", "old", "new", "message"),
    [
        ("marts/fct_flights", GATE, GATE.replace("hold", "fail"), "gate.on_failure is fail"),
        ("marts/fct_flights", GATE, GATE.replace("warned]", "warned, failed]"), "accepts failed"),
        (
            "staging/flights__flights",
            "on_failure: quarantine",
            "on_failure: fail",
            "validate.on_failure is fail",
        ),
    ],
)
def test_a_policy_that_its_stage_leaves_no_room_for_is_refused(
    tmp_path: Path, suite: str, old: str, new: str, message: str
) -> None:
    text = (PIPELINES / "flights.yml").read_text()
    assert text.count(old) == 1
    text = text.replace(old, new) + f"policies: {{{suite}: leave_out}}\n"
    path = tmp_path / "flights.yml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as refused:
        load_pipeline(path)
    assert f"flights.yml:{text.count(chr(10))}: " in str(refused.value)


def test_a_policy_of_a_suite_decides_the_result_and_goes_before_that_of_its_stage(
    tmp_path: Path, flights: PipelineSpec
) -> None:
    said = "policies: {marts/fct_flights: leave_out}"
    spec = edited(tmp_path, POLICIES, f"{said}\n\n{POLICIES}")
    assert spec.policy_of("marts/fct_flights") == "leave_out"
    assert spec.policy_of("marts/dim_plane") == "hold"
    assert spec.policy_of("dbt data tests") == "hold"
    assert spec.deciding_content() != flights.deciding_content()
