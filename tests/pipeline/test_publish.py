"""`sluice run --no-publish`, then `sluice publish`: from an edit on a branch to readers."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice
from warm import WarmSluice

DAY = "2013-01-01"
_AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
MODEL = "dbt_project/models/marts/flights/dim_carrier.sql"


@pytest.fixture
def versioned(sluice: WarmSluice, tmp_path: Path) -> Sluice:
    """A project in a git repository of its own, on its main branch."""
    copy = sluice.copy_project(tmp_path / "project")
    (copy.project / ".gitignore").write_text("profiles.yml\n__pycache__\ntarget\nlogs\n.user.yml\n")
    git(copy, "init", "-b", "main")
    commit(copy, "all of it")
    return copy


def git(sluice: Sluice, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", sluice.project, *_AUTHOR, *arguments],
        check=True,
        capture_output=True,
    )


def commit(sluice: Sluice, text: str) -> None:
    git(sluice, "add", "--all")
    git(sluice, "commit", "-m", text)


def edit(sluice: Sluice) -> None:
    model = sluice.project / MODEL
    model.write_text(
        model.read_text().replace(
            "carrier_name\n    from", "upper(carrier_name) as carrier_name\n    from"
        )
    )
    assert "upper" in model.read_text()


def carrier(sluice: Sluice) -> Any:
    return sluice.query("select carrier_name from analytics.dim_carrier where carrier_code = 'UA'")


@pytest.mark.slow
def test_from_an_edit_on_a_branch_to_readers(versioned: Sluice) -> None:
    first = versioned.run(DAY, "--no-publish")
    assert first["outcome"] == "unchanged"
    assert versioned.json("status")["published"] == []
    done = versioned.json("publish", first["version"][:8])
    assert (done["outcome"], done["merged_into"]) == ("published", "main")
    assert carrier(versioned) == [("United Air Lines Inc.",)]
    assert versioned.json("publish", first["version"])["outcome"] == "unchanged"
    # A request that publishes is another run; it finds everything done.
    second = versioned.run(DAY)
    assert second["run_id"] != first["run_id"]
    assert (second["outcome"], second["version"]) == ("unchanged", first["version"])

    git(versioned, "checkout", "-b", "feature")
    edit(versioned)
    preview = versioned.run(DAY, "--no-publish")
    assert preview["version"] != first["version"]
    for step in ("dirty", "unmerged"):
        error = versioned.json("publish", preview["version"], code=78)["error"]
        assert error["code"] == "unmerged", step
        commit(versioned, "shout") if step == "dirty" else None
    assert carrier(versioned) == [("United Air Lines Inc.",)]
    git(versioned, "checkout", "main")
    git(versioned, "merge", "--ff-only", "feature")
    # It was built before it was committed; the same code is in main now.
    done = versioned.json("publish", preview["version"])
    assert (done["outcome"], done["previous"]) == ("published", first["version"])
    assert carrier(versioned) == [("UNITED AIR LINES INC.",)]
    [(reason, actor)] = versioned.query(
        "select reason, actor from ops.operator_actions where action = 'publish' "
        f"and target = '{preview['version']}'"
    )
    assert reason.startswith("commit ")
    assert actor

    error = versioned.json("publish", first["version"], code=78)["error"]
    assert error["code"] == "published_before"
    assert f"sluice rollback {first['version']}" in error["message"]
    error = versioned.json("publish", "v_ffff", code=78)["error"]
    assert error["code"] == "version_unknown"
    assert versioned.call("publish", first["version"], "--allow-unmerged").returncode == 2
