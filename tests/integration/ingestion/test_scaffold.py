import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingestion.errors import IngestionConfigurationError
from ingestion.scaffold import create_source

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project without what it was told to ignore."""
    root = tmp_path / "project"
    for folder in ("ingestion", "dbt_project", "expectations"):
        ignored = shutil.ignore_patterns("target", "logs", "__pycache__", "profiles.yml")
        shutil.copytree(PROJECT / folder, root / folder, ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", root)
    return root


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=root, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_new_source_passes_its_own_test_and_the_projects_checks(project: Path) -> None:
    written = create_source("harbour_fees", project)
    assert len(written) == len(set(written)) == 8
    python = [str(path) for path in written if path.suffix == ".py"]
    (test,) = [path for path in python if "/tests/" in path]
    for command in (
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        [sys.executable, "-m", "ruff", "check", "--no-cache", *python],
        [sys.executable, "-m", "ruff", "format", "--no-cache", "--check", *python],
    ):
        done = run(project, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_dbt_parses_a_project_with_a_new_source(project: Path) -> None:
    create_source("harbour_fees", project)
    (project / "profiles.yml").write_text(
        "sluice:\n  target: dev\n  outputs:\n    dev: {type: postgres, host: localhost, user: x, "
        "password: x, port: 5432, dbname: x, schema: dev_x}\n"
    )
    done = run(
        project,
        *(sys.executable, "-c", "from dbt.cli.main import cli; cli()", "parse", "--no-use-colors"),
        *("--project-dir", "dbt_project", "--profiles-dir", "."),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_sources_suites_are_suites(project: Path) -> None:
    from expectations.suite import load_suite

    suites = [path for path in create_source("harbour_fees", project) if "suites" in path.parts]
    assert [load_suite(path).name for path in suites] == [
        "harbour_fees__items",
        "harbour_fees__items__volume",
    ]


def test_nothing_that_exists_is_overwritten(project: Path) -> None:
    create_source("harbour_fees", project)
    contract = project / "ingestion/sources/harbour_fees/items.py"
    contract.write_text("mine")
    (project / "expectations/suites/staging/harbour_fees__items.yml").unlink()
    with pytest.raises(IngestionConfigurationError, match="exists already"):
        create_source("harbour_fees", project)
    assert contract.read_text() == "mine"
    assert not (project / "expectations/suites/staging/harbour_fees__items.yml").exists()


@pytest.mark.parametrize(
    "name", ["", "Flights", "1st", "a-b", "a__b", "_a", "a_", "../x", "a" * 21]
)
def test_a_name_that_cannot_be_a_table_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name for a source"):
        create_source(name, tmp_path)
    assert list(tmp_path.iterdir()) == []
