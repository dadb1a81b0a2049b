"""What Prometheus reads is its text format, whatever the names in it contain."""

from prometheus_client.parser import text_string_to_metric_families

from orchestration.runs.exposition import as_prometheus
from orchestration.runs.metrics import Metrics

ODD = 'a "quoted"\\name\nin two lines'
STAGE = {
    "pipeline": ODD,
    "stage": "extract",
    "dataset": "flights.flights",
    "attempts": 3,
    "retries": 1,
    "succeeded": 2,
    "total_s": 3.5,
    "p50_s": 1.75,
    "p95_s": 2.0,
    "last_s": 1.5,
    "records": 842,
    "p50_per_s": None,
    "last_per_s": None,
}


def test_labels_are_escaped_and_what_is_not_known_is_left_out() -> None:
    text = as_prometheus(Metrics([STAGE], [], [], []))
    assert text.endswith("\n")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert "sluice_stage_records_per_second" not in families
    durations = families["sluice_stage_duration_seconds"]
    assert durations.type == "summary"
    assert {sample.labels["pipeline"] for sample in durations.samples} == {ODD}
    found = {
        (sample.name, sample.labels.get("quantile")): sample.value for sample in durations.samples
    }
    assert found == {
        ("sluice_stage_duration_seconds", "0.5"): 1.75,
        ("sluice_stage_duration_seconds", "0.95"): 2.0,
        ("sluice_stage_duration_seconds_sum", None): 3.5,
        ("sluice_stage_duration_seconds_count", None): 2.0,
    }


def test_nothing_that_ran_is_an_empty_page() -> None:
    assert as_prometheus(Metrics([], [], [], [])) == ""
