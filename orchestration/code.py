"""What decides a result besides data, as digests: dbt project, suites, contracts, pipeline file.

Reads files and asks git; imports nothing heavy, so that asking whether anything changed is cheap.
"""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from expectations.suite import suite_hash
from orchestration.identity import CodeId, digest
from orchestration.pipelines.spec import PipelineSpec

MainBranch = Literal["main", "origin/main"]
_MAIN_BRANCHES: dict[MainBranch, str] = {
    "main": "refs/heads/main",
    "origin/main": "refs/remotes/origin/main",
}
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DBT_FILES = {".sql", ".yml", ".yaml", ".csv", ".py", ".md"}
_DBT_GENERATED = {"target", "logs", "dbt_packages", "profiles.yml", ".user.yml"}


@dataclass(frozen=True)
class Code:
    """The code of one pipeline: a digest (64 hex) for each part, and where it came from."""

    dbt: str
    suites: str
    contracts: str
    pipeline: str
    commit: str | None
    dirty: bool | None

    @property
    def code_id(self) -> CodeId:
        parts = [self.dbt, self.suites, self.contracts, self.pipeline]
        return CodeId("c_" + digest(parts)[:16])


def read_code(project_dir: Path, pipeline: PipelineSpec) -> Code:
    """The code that a run of this pipeline would use now."""
    sources = sorted({resource.partition(".")[0] for resource in pipeline.resource_names})
    contracts = [project_dir / "ingestion" / "sources" / source for source in sources]
    commit, dirty = _git_state(project_dir)
    return Code(
        dbt=_digest_files(project_dir / "dbt_project", _dbt_files(project_dir / "dbt_project")),
        suites=digest(_suite_meanings(project_dir / "expectations" / "suites", pipeline)),
        contracts=_digest_files(
            project_dir, sorted(file for folder in contracts for file in folder.rglob("*.py"))
        ),
        pipeline=digest(pipeline.deciding_content()),
        commit=commit,
        dirty=dirty,
    )


def find_main_branch(project_dir: Path, commit: str | None) -> MainBranch | None:
    """The main branch that contains the commit, as this checkout knows it; None when none does.

    Neither does one when the commit is unknown here, or there is no git.
    """
    if commit is None or not _COMMIT.fullmatch(commit):
        return None
    for branch, reference in _MAIN_BRANCHES.items():
        try:
            _git(project_dir, "merge-base", "--is-ancestor", commit, reference)
        except (OSError, subprocess.SubprocessError):
            continue
        return branch
    return None


def _suite_meanings(folder: Path, pipeline: PipelineSpec) -> dict[str, str]:
    of_resources = {
        name for item in pipeline.resources for name in (item.suite, item.volume_suite) if name
    }
    names = {*pipeline.suites, *of_resources}
    files = {name: folder / f"{name}.yml" for name in sorted(names)}
    # A missing file is `sluice check`'s and the gate's to report; here it is only another code.
    return {name: suite_hash(file) if file.is_file() else "" for name, file in files.items()}


def _dbt_files(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix in _DBT_FILES
        and not _DBT_GENERATED & set(file.relative_to(folder).parts)
        and file.is_file()
    )


def _digest_files(root: Path, files: list[Path]) -> str:
    return digest(
        [
            (str(file.relative_to(root)), hashlib.sha256(file.read_bytes()).hexdigest())
            for file in files
        ]
    )


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether the tree differs from it); (None, None) outside a repository."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return commit, bool(_git(folder, "status", "--porcelain"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    )
    return done.stdout.strip()
