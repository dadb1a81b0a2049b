"""Pipeline files: the shipped one is valid, and whatever is wrong is said with its line."""

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from orchestration.errors import ConfigurationError
from orchestration.pipelines.files import (
    PipelineFileError,
    get_pipeline,
    load_pipeline,
    load_pipelines,
)
from orchestration.pipelines.schema import SCHEMA_FILE, schema_text

PIPELINES = Path(__file__).parents[3] / "orchestration" / "pipelines"
SMALLEST = """\
name: small
description: Weather alone.
owner: {name: Weather, email: weather@example.com}
reviewer: {name: Review, email: review@example.com}
resources:
  - name: flights.weather
dbt: {select: [+fct_weather_hourly]}
publishes: [fct_weather_hourly]
stages:
  extract:
    acceptance: {schema_versions: ["1"]}
"""


def write(folder: Path, text: str, name: str = "small.yml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(path: Path) -> list[tuple[int, str, str]]:
    with pytest.raises(PipelineFileError) as caught:
        load_pipeline(path)
    return [(p.line, p.message, p.hint) for p in caught.value.problems]


def test_the_shipped_pipelines_are_valid() -> None:
    assert "flights" in load_pipelines(PIPELINES)


def test_the_shipped_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run python -m orchestration.pipelines.schema"


def test_every_shipped_pipeline_satisfies_the_schema_and_names_it_for_editors() -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    for path in PIPELINES.glob("*.yml"):
        jsonschema.validate(YAML(typ="safe").load(path.read_text()), schema)
        first_line = path.read_text().splitlines()[0]
        assert first_line == "# yaml-language-server: $schema=./pipeline.schema.json"


def test_the_schema_refuses_a_word_that_nobody_evaluates() -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    document = YAML(typ="safe").load(SMALLEST)
    jsonschema.validate(document, schema)
    document["stages"]["extract"]["acceptance"]["looks_nice"] = True
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_the_smallest_file_gets_every_stage_with_defaults(tmp_path: Path) -> None:
    spec = load_pipeline(write(tmp_path, SMALLEST))
    assert spec.stages.validation.on_failure == "quarantine"
    assert spec.stages.publish.grace_seconds == 60
    assert spec.schedule is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("name: Weather, email: weather@example.com", "name: Weather", 3, ["owner.email", "add"]),
        ("weather@example.com", "nobody", 3, ["owner.email", "nobody"]),
        ("resources:", "ressources:", 5, ["did you mean `resources`?"]),
        ("flights.weather", "weather", 6, ["resources.0.name", "'weather'"]),
        (
            "- name: flights.weather",
            "- name: flights.weather\n    on_rejected: drop",
            7,
            ["'drop'", "write hold or leave_out"],
        ),
        ("select: [+fct_weather_hourly]", "select: []", 7, ["dbt.select is empty"]),
        ("publishes: [fct", "publishes: [a, a, fct", 8, ["named more than once: a"]),
        ("extract:", "extract:\n    budget_seconds: soon", 11, ["budget_seconds", "'soon'"]),
        ('schema_versions: ["1"]', "", 11, ["schema_versions is missing"]),
        (
            '{schema_versions: ["1"]}',
            '{schema_versions: ["1"]}\n  gate: {on_failure: ignore}',
            12,
            ["stages.gate.on_failure", "write hold or leave_out or warn or fail"],
        ),
        (
            "resources:",
            'schedule: {cron: "0 25 * * *"}\nresources:',
            5,
            ["'25' cannot be the hour of a cron expression"],
        ),
        (
            "resources:",
            'schedule: {cron: "0 6 * * *", time_zone: Mars/Base}\nresources:',
            5,
            ["Mars/Base", "America/New_York"],
        ),
        ("dbt: {select", "dbt: {selec: [x], select", 7, ["did you mean `select`?"]),
    ],
)
def test_a_problem_names_its_line_and_what_to_do(
    tmp_path: Path, old: str, new: str, line: int, words: list[str]
) -> None:
    assert old in SMALLEST
    problems = problems_of(write(tmp_path, SMALLEST.replace(old, new, 1)))
    texts = [f"{message}; {hint}" for at, message, hint in problems if at == line]
    assert any(all(word in text for word in words) for text in texts), problems


def test_all_problems_of_a_file_are_reported_at_once_in_order(tmp_path: Path) -> None:
    broken = SMALLEST.replace("weather@example.com", "x").replace("publishes", "publish")
    lines = [line for line, _, _ in problems_of(write(tmp_path, broken))]
    assert len(lines) == 3
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: small\nname: small\n", 2),
        ("name: [small\n", 2),
        ("- a\n- b\n", 1),
        ("", 1),
        ("name: \x00\n", 1),
    ],
)
def test_a_file_that_is_no_yaml_mapping_is_one_problem(
    tmp_path: Path, text: str, line: int
) -> None:
    (problem,) = problems_of(write(tmp_path, text))
    assert problem[0] == line


def test_the_file_is_called_like_its_pipeline(tmp_path: Path) -> None:
    ((line, message, hint),) = problems_of(write(tmp_path, SMALLEST, "other.yml"))
    assert (line, "'small'" in message, "small.yml" in hint) == (1, True, True)


def test_a_broken_file_does_not_stop_another_pipeline(tmp_path: Path) -> None:
    write(tmp_path, SMALLEST)
    write(tmp_path, "name: broken\n", "broken.yml")
    assert get_pipeline(tmp_path, "small").name == "small"
    with pytest.raises(PipelineFileError, match=r"broken\.yml:1: description is missing"):
        load_pipelines(tmp_path)


def test_an_unknown_pipeline_is_answered_with_the_known_names(tmp_path: Path) -> None:
    write(tmp_path, SMALLEST)
    with pytest.raises(ConfigurationError, match="choose one of: small"):
        get_pipeline(tmp_path, "smal")
