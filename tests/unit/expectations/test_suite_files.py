import json
from pathlib import Path

import pytest

from expectations import document
from expectations.document import SuiteError
from expectations.parameters import parameter_names, plain_values
from expectations.subject import artifact_rows_query
from expectations.suite import list_suites, load_suite, suite_hash
from expectations.volume import partition_volume_query

GOOD = """\
name: example
meta:
  owner: someone
  runbook: docs/runbooks/failed-gate.md
expectations:
  - type: expect_column_values_to_be_between
    kwargs: {column: speed, min_value: 0}
    severity: critical
    meta: {reason: "No speed is negative."}
  - type: expect_column_max_to_be_between
    kwargs:
      column: seen_at
      min_value: {$PARAMETER: "as_of - timedelta(hours=48)"}
    severity: warning
    meta: {reason: "Old.", owner: someone else}
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "example.yml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems_of(path: Path) -> list[tuple[int, str]]:
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_a_good_suite_says_what_it_reads_and_who_owns_it(write):
    suite = load_suite(write(GOOD))
    assert suite.columns == {"speed", "seen_at"}
    assert suite.parameters == {"as_of"}
    assert [item.owner for item in suite.expectations] == ["someone", "someone else"]
    assert [item.line for item in suite.expectations] == [6, 10]


def test_a_column_that_no_model_has_is_found_before_anything_runs(write):
    [problem] = load_suite(write(GOOD)).missing_columns({"seen_at"})
    assert (problem.line, "speed" in problem.message) == (6, True)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("    severity: critical\n", "", 6, "`severity` is missing"),
        ("severity: critical", "severity: fatal", 8, "`severity` is missing or unknown"),
        ('{reason: "No speed is negative."}', "{}", 6, "`reason` is missing"),
        ("  owner: someone\n", "", 5, "`owner` is missing"),
        ("name: example", "name: other", 1, "`name` must be `example`"),
        (
            "    kwargs: {column: speed",
            "    arguments: {column: speed",
            7,
            "unknown key `arguments`",
        ),
        ("as_of - timedelta(hours=48)", "asof - timedelta(hours=48)", 11, "parameter `asof`"),
        ("as_of - timedelta(hours=48)", "now() - timedelta(hours=48)", 11, "parameter `now`"),
        ("min_value: 0}", "min_value: 0, min_value: 1}", 7, "written twice"),
        ("min_value: 0}", "min_value: 0", 8, "not valid YAML"),
        ("min_value: 0}", "min_value: [{$PARAMETER: as_of}]}", 7, "must be the whole value"),
        ("expect_column_max_to_be_between", "unexpected_rows_expectation", 11, "`{batch}`"),
    ],
)
def test_a_mistake_is_reported_with_its_line(write, old, new, line, words):
    found = problems_of(write(GOOD.replace(old, new)))
    assert [at for at, message in found if words in message] == [line], found


def test_the_same_expectation_twice_is_refused(write):
    _, _, tail = GOOD.partition("expectations:\n")
    first = tail.partition("  - type: expect_column_max")[0]
    assert any("the same expectation" in message for _, message in problems_of(write(GOOD + first)))


def test_the_hash_ignores_comments_formatting_and_order_but_no_bound(write):
    before = suite_hash(write(GOOD))
    head, first, second = GOOD.replace("  - type", "\0  - type").split("\0")
    reordered = f"# a comment\n{head}{second}\n{first.replace('min_value: 0', 'min_value:   0')}"
    assert suite_hash(write(reordered)) == before
    assert suite_hash(write(GOOD.replace("min_value: 0", "min_value: 1"))) != before
    assert suite_hash(write(GOOD.replace("severity: warning", "severity: info"))) != before


def test_time_stamps_in_a_suite_stay_text(write):
    suite = load_suite(write(GOOD.replace("min_value: 0", "min_value: 2013-01-01T00:00:00Z")))
    assert suite.expectations[0].kwargs["min_value"] == "2013-01-01T00:00:00Z"


@pytest.mark.parametrize("path", list_suites(), ids=lambda path: path.stem)
def test_every_suite_of_the_project_loads_and_can_be_serialised(path):
    suite = load_suite(path)
    assert suite.expectations
    json.dumps([dict(item.kwargs) for item in suite.expectations])


def test_parameters_are_found_in_expressions_and_moments_need_a_zone():
    assert parameter_names("input_rows_flights__weather * 0.9") == {"input_rows_flights__weather"}
    assert parameter_names("as_of - timedelta(hours=48, minutes=1)") == {"as_of"}
    from datetime import UTC, date, datetime

    assert plain_values({"as_of": datetime(2013, 1, 1, tzinfo=UTC), "first_day": date(2013, 1, 1)})
    with pytest.raises(ValueError, match="no time zone"):
        plain_values({"as_of": datetime(2013, 1, 1)})


def test_queries_take_only_names_that_artifacts_can_have():
    assert artifact_rows_query("staging", "t", []).endswith("where false")
    assert "'a1', 'a2'" in artifact_rows_query("staging", "t", ["a1", "a2"])
    for wrong in ("x'; drop table t; --", "a:b", ""):
        with pytest.raises(ValueError, match="characters"):
            artifact_rows_query("staging", "t", [wrong])
        with pytest.raises(ValueError, match="characters"):
            partition_volume_query("staging", "t", {"a1": wrong})


def test_a_file_is_parsed_once_for_each_content_and_readers_share_nothing(
    write, monkeypatch: pytest.MonkeyPatch
):
    parses = []
    real = document._Loader.get_single_node
    monkeypatch.setattr(
        document._Loader, "get_single_node", lambda self: parses.append(1) or real(self)
    )
    path = write(GOOD)
    expected = suite_hash(path)
    load_suite(path).expectations[0].kwargs["min_value"] = -1
    assert load_suite(path).expectations[0].kwargs["min_value"] == 0
    assert suite_hash(path) == expected
    assert len(parses) == 1
    write(GOOD.replace("min_value: 0", "min_value: 1"))
    assert load_suite(path).expectations[0].kwargs["min_value"] == 1
    assert len(parses) == 2
