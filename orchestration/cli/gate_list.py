"""`sluice gates list`: the suites of each pipeline, what they are for, and what they said last."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from orchestration.cli.output import print_json, print_rows
from orchestration.cli.reading import reading
from orchestration.cli.session import read_settings
from orchestration.model import StageName
from orchestration.pipelines.files import chosen_pipelines
from orchestration.pipelines.spec import PipelineSpec
from orchestration.sql.rows import rows_of
from orchestration.stages.suites import read_suite
from orchestration.stages.version_tests import DBT_TESTS

_COLUMNS = [
    *("pipeline", "suite", "stage", "expectations", "owner", "policy"),
    *("verdict", "evaluated_at", "run_id"),
]


def list_suites(*, pipeline: str | None, as_json: bool) -> None:
    """Raises `ConfigurationError` for a pipeline or a suite file that is not as it should be."""
    settings = read_settings()
    pipelines = chosen_pipelines(settings.pipelines_dir, pipeline)
    with reading() as connection:
        rows = [
            row | _last(connection, row)
            for each in pipelines
            for row in _suites(each, settings.suites_dir)
        ]
    if as_json:
        print_json(rows)
        return
    print_rows("suites", _COLUMNS, rows, "no pipeline has a suite")


def _suites(pipeline: PipelineSpec, suites_dir: Path) -> Iterator[dict[str, Any]]:
    """Those on new partitions, those on versions, and dbt's data tests, which count as one."""
    of_resources = {
        name: pipeline.policies.get(name, item.on_rejected)
        for item in pipeline.resources
        for name in (item.suite, item.volume_suite)
        if name
    }
    of_versions = {name: pipeline.policy_of(name) for name in (*pipeline.suites, DBT_TESTS)}
    for stage, found in ((StageName.VALIDATE, of_resources), (StageName.GATE, of_versions)):
        for name, policy in found.items():
            suite = None if name == DBT_TESTS else read_suite(suites_dir, name)
            yield {
                "pipeline": pipeline.name,
                "suite": name,
                "stage": stage.value,
                "expectations": len(suite.expectations) if suite else None,
                "owner": suite.meta.get("owner") if suite else None,
                "policy": policy.value,
            }


def _last(connection: psycopg.Connection, suite: dict[str, Any]) -> dict[str, Any]:
    """Its latest verdict; nothing for a suite that was never evaluated."""
    found = rows_of(connection, "last_verdict", suite)
    return found[0] if found else {"verdict": None, "evaluated_at": None, "run_id": None}
