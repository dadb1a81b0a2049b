"""A project that did not change is asked about once, and what is read back is what dbt said."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.warehouse.dbt import project
from orchestration.warehouse.dbt.cache import DiskCache
from orchestration.warehouse.dbt.graph import OutsideModel, ProjectGraph
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession

CHECKSUMS = {"shop.orders": "1" * 64}
_CHANGES_EACH_TIME = ("created_at", "metadata")
_WITHOUT_DBT = """
import json, sys
from pathlib import Path
from orchestration.warehouse.dbt import project
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.session import DbtSession
def refuse(session, arguments, manifest=None):
    raise AssertionError(f"dbt was asked to {arguments[0]}")
project.invoke = refuse
folder, work, url, cache = sys.argv[1:5]
session = DbtSession(Path(folder), Path(work), url, cache_dir=Path(cache))
keys = compute_keys(project.load_graph(session, ["*"]), json.loads(sys.argv[5]))
print(json.dumps({name: key.content_key for name, key in keys.items()}))
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that dbt was given."""
    commands: list[str] = []
    real = project.invoke

    def invoke(session: DbtSession, arguments: list[str], manifest: Any = None) -> Any:
        commands.append(arguments[0])
        return real(session, arguments, manifest)

    monkeypatch.setattr(project, "invoke", invoke)
    return commands


def keys(graph: ProjectGraph) -> dict[str, str]:
    return {name: key.content_key for name, key in compute_keys(graph, CHECKSUMS).items()}


def plain(value: Any) -> Any:
    """dbt's objects as JSON has them, without what differs each time that dbt parses."""
    if isinstance(value, Mapping):
        return {n: plain(v) for n, v in value.items() if n not in _CHANGES_EACH_TIME}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def manifest_of(graph: ProjectGraph) -> Any:
    copy = graph.manifest.deepcopy()
    copy.build_flat_graph()
    return plain(copy.to_dict())


def test_a_second_process_does_not_ask_dbt_and_finds_the_same_keys(answered: DbtSession) -> None:
    arguments = [answered.project_dir, answered.work_dir, answered.url, answered.cache_dir]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DBT, *map(str, arguments), json.dumps(CHECKSUMS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == keys(load_graph(answered, ["*"]))


def test_kept_and_fresh_answers_are_equal(session: DbtSession, asked: list[str]) -> None:
    fresh = load_graph(replace(session, cache_dir=None), ["*"])
    first = load_graph(session, ["*"])
    assert asked == ["parse", "ls", "compile"] * 2
    kept = load_graph(session, ["*"])
    assert len(asked) == 6
    assert fresh.models == first.models == kept.models
    assert keys(fresh) == keys(first) == keys(kept)
    assert set(keys(kept)) == {"fct_orders", "dim_customer"}
    assert manifest_of(fresh) == manifest_of(first) == manifest_of(kept)


def test_an_answer_serves_every_database_under_its_own_name(
    answered: DbtSession, asked: list[str]
) -> None:
    other = replace(answered, url="postgresql://somebody@elsewhere/thing")
    kept = load_graph(other, ["*"])
    assert not asked
    fresh = load_graph(replace(other, cache_dir=None), ["*"])
    assert manifest_of(kept) == manifest_of(fresh)
    assert kept.manifest.nodes["model.shop.fct_orders"].relation_name.startswith('"thing".')


def test_each_selection_is_asked_for_and_the_project_is_parsed_once(
    answered: DbtSession, asked: list[str]
) -> None:
    assert set(load_graph(answered, ["fct_orders"]).by_name) == {"fct_orders"}
    assert asked == ["ls", "compile"]
    outside = {"fct_orders": OutsideModel("fct_orders__1", "c" * 64)}
    assert set(load_graph(answered, ["*"], outside=outside).by_name) == {"dim_customer"}
    assert asked[2:] == ["compile"]


def test_an_edit_shows_at_once_and_its_undoing_too(answered: DbtSession, asked: list[str]) -> None:
    before = load_graph(answered, ["*"])
    file = answered.project_dir / "macros" / "euros.sql"
    text = file.read_text()
    file.write_text(text.replace("100.0", "1000.0"))
    edited = load_graph(answered, ["*"])
    assert "1000.0" in edited.model("fct_orders").compiled_code
    assert keys(edited)["fct_orders"] != keys(before)["fct_orders"]
    file.write_text(text)
    assert keys(load_graph(answered, ["*"])) == keys(before)
    assert asked.count("parse") == 1


def test_a_variable_shows_at_once(
    answered: DbtSession, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = answered.project_dir / "models" / "dim_customer.sql"
    file.write_text("select {{ env_var('DISCOUNT') }} as discount")
    for discount in ("3", "4", "3"):
        monkeypatch.setenv("DISCOUNT", discount)
        code = load_graph(answered, ["dim_customer"]).model("dim_customer").compiled_code
        assert code == f"select {discount} as discount"
    assert asked.count("parse") == 2


def test_what_depends_on_the_moment_is_compiled_each_time(
    answered: DbtSession, asked: list[str]
) -> None:
    file = answered.project_dir / "models" / "dim_customer.sql"
    file.write_text(
        "{{ config(meta={'depends_on_moment': ['run_started_at']}) }}"
        "select '{{ run_started_at }}' as moment"
    )
    moments = {load_graph(answered, ["*"]).model("dim_customer").compiled_code for _ in range(2)}
    assert len(moments) == 2
    assert asked == ["parse", "ls", "compile", "compile"]


def test_a_project_that_dbt_refuses_is_refused_each_time(
    answered: DbtSession, asked: list[str]
) -> None:
    file = answered.project_dir / "models" / "broken.sql"
    file.write_text("select 1 from {{ ref('no_such_model') }}")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="no_such_model"):
            load_graph(answered, ["*"])
    assert asked == ["parse", "parse"]


def test_a_project_edited_while_dbt_reads_it_is_not_kept(
    session: DbtSession, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = project.invoke
    file = session.project_dir / "macros" / "euros.sql"

    def edit_first(session: DbtSession, arguments: list[str], manifest: Any = None) -> Any:
        file.write_text(file.read_text().replace("100.0", "1000.0"))
        return counting(session, arguments, manifest)

    monkeypatch.setattr(project, "invoke", edit_first)
    load_graph(session, ["*"])
    monkeypatch.setattr(project, "invoke", counting)
    file.write_text(file.read_text().replace("1000.0", "100.0"))
    assert "1000.0" not in load_graph(session, ["*"]).model("fct_orders").compiled_code
    assert asked == ["parse", "ls", "compile"] * 2


def test_a_manifest_from_elsewhere_is_not_mixed_with_kept_answers(
    answered: DbtSession, asked: list[str]
) -> None:
    manifest = load_graph(answered, ["*"]).manifest
    load_graph(answered, ["*"], manifest=manifest)
    assert asked == ["ls", "compile"]


def test_damaged_files_cost_a_parse_and_are_written_again(
    answered: DbtSession, asked: list[str]
) -> None:
    expected = keys(load_graph(answered, ["*"]))
    assert answered.cache_dir is not None
    for file in answered.cache_dir.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    for _ in range(2):
        assert keys(load_graph(answered, ["*"])) == expected
        assert asked == ["parse", "ls", "compile"]


def test_well_formed_files_that_hold_something_else_cost_a_parse(
    answered: DbtSession, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = keys(load_graph(answered, ["*"]))
    monkeypatch.setattr(project.Answers, "key", "any")
    assert answered.cache_dir is not None
    DiskCache(answered.cache_dir).write(digest(["any", ["parse"]]), b"\x93\x01\x02\x03")
    assert keys(load_graph(answered, ["*"])) == expected
    assert asked == ["parse", "ls", "compile"]


def test_without_a_folder_nothing_is_kept(
    answered: DbtSession, asked: list[str], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "cache")
    load_graph(replace(answered, cache_dir=None), ["*"])
    assert asked == ["parse", "ls", "compile"]
    assert not (tmp_path / "cache").exists()
