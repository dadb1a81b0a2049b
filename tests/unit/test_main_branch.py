"""Whether a commit is in the main branch, as a checkout knows it."""

import subprocess
from pathlib import Path

import pytest

from orchestration.code import find_main_branch

_AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *_AUTHOR, *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-b", "main")
    commit(folder, "first")
    return folder


def test_a_commit_is_merged_when_main_contains_it(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    second = commit(repository, "second")
    git(repository, "checkout", "-b", "feature")
    third = commit(repository, "third")
    assert find_main_branch(repository, first) == "main"
    assert find_main_branch(repository, second) == "main"
    assert find_main_branch(repository, third) is None
    git(repository, "checkout", "main")
    git(repository, "merge", "--ff-only", "feature")
    assert find_main_branch(repository, third) == "main"


def test_the_main_branch_of_the_origin_counts_too(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", str(repository), str(clone))
    git(clone, "checkout", "-b", "feature")
    git(clone, "branch", "-D", "main")
    merged = commit(repository, "merged elsewhere")
    assert find_main_branch(clone, merged) is None
    git(clone, "fetch")
    assert find_main_branch(clone, merged) == "origin/main"


def test_a_tag_that_is_called_main_is_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-b", "feature")
    unmerged = commit(repository, "second")
    git(repository, "tag", "main")
    assert find_main_branch(repository, unmerged) is None


@pytest.mark.parametrize("name", [None, "", "main", "--help", "f" * 40, "0123abc", "HEAD"])
def test_what_is_no_known_commit_is_not_merged(repository: Path, name: str | None) -> None:
    assert find_main_branch(repository, name) is None


def test_without_a_repository_nothing_is_merged(repository: Path, tmp_path: Path) -> None:
    known = git(repository, "rev-parse", "HEAD")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert find_main_branch(elsewhere, known) is None
    git(repository, "branch", "-m", "trunk")
    assert find_main_branch(repository, known) is None
