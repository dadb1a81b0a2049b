"""The key of dbt's answers: whatever may change an answer changes it, and nothing else need."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.warehouse.dbt import answers
from orchestration.warehouse.dbt.answers import project_key, read_state
from orchestration.warehouse.dbt.session import DbtSession

ELSEWHERE = "postgresql://somebody:secret@elsewhere:6543/thing"


def key(session: DbtSession) -> str:
    return project_key(session, read_state(session.project_dir))


def write(session: DbtSession, name: str, text: str) -> None:
    file = session.project_dir / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def append(name: str) -> Callable[[DbtSession], None]:
    def edit(session: DbtSession) -> None:
        write(session, name, (session.project_dir / name).read_text() + "\n")

    return edit


def add(name: str) -> Callable[[DbtSession], None]:
    return lambda session: write(session, name, "select 1 as one")


def remove(name: str) -> Callable[[DbtSession], None]:
    return lambda session: (session.project_dir / name).unlink()


def rename(session: DbtSession) -> None:
    file = session.project_dir / "models" / "dim_customer.sql"
    file.rename(file.with_name("dim_buyer.sql"))


def link_a_package(session: DbtSession) -> None:
    package = session.project_dir.parent / "package"
    (package / "macros").mkdir(parents=True)
    (package / "macros" / "tax.sql").write_text("{% macro tax() %}1.2{% endmacro %}")
    (session.project_dir / "dbt_packages").mkdir()
    (session.project_dir / "dbt_packages" / "tax").symlink_to(package)


EDITS = {
    "project file": append("dbt_project.yml"),
    "model": append("models/fct_orders.sql"),
    "ephemeral model": append("models/int_orders.sql"),
    "macro": append("macros/euros.sql"),
    "properties": append("models/shop.yml"),
    "seed": add("seeds/regions.csv"),
    "new model": add("models/one.sql"),
    "new model in a folder called target": add("models/target/one.sql"),
    "test": add("tests/one.sql"),
    "ignored files": add(".dbtignore"),
    "selectors": add("selectors.yml"),
    "docs": add("models/overview.md"),
    "package file": add("dbt_packages/tools/macros/one.sql"),
    "linked package": link_a_package,
    "removed model": remove("models/dim_customer.sql"),
    "renamed model": rename,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edit_asks_again(session: DbtSession, edit: Callable[[DbtSession], None]) -> None:
    before = key(session)
    edit(session)
    assert key(session) != before


def test_an_edit_behind_a_link_asks_again(session: DbtSession) -> None:
    link_a_package(session)
    before = key(session)
    (session.project_dir.parent / "package" / "macros" / "tax.sql").write_text("{# none #}")
    assert key(session) != before


def test_folders_linked_in_a_circle_are_read_once(session: DbtSession) -> None:
    (session.project_dir / "models" / "again").symlink_to(session.project_dir)
    names = list(read_state(session.project_dir).files)
    assert len(names) == len({Path(name).name for name in names})


def test_what_dbt_and_analysts_leave_behind_is_not_asked_about(session: DbtSession) -> None:
    before = key(session)
    for name in ("target/manifest.json", "logs/dbt.log", "profiles.yml", ".user.yml"):
        write(session, name, "generated")
    assert key(session) == before


@pytest.mark.parametrize(
    "asked",
    ["{{ env_var('DISCOUNT', '0') }}", '{{ env_var( "DISCOUNT" ) }}', "{{ env_var(name) }}"],
)
def test_a_variable_that_the_project_asks_for_asks_again(
    session: DbtSession, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCOUNT", raising=False)
    monkeypatch.delenv("UNRELATED", raising=False)
    plain = key(session)
    monkeypatch.setenv("DISCOUNT", "3")
    assert key(session) == plain
    write(
        session, "models/discount.sql", f"{{% set name = 'DISCOUNT' %}}select {asked} as discount"
    )
    three = key(session)
    monkeypatch.setenv("DISCOUNT", "4")
    four = key(session)
    monkeypatch.delenv("DISCOUNT")
    assert len({plain, three, four, key(session)}) == 4
    before = key(session)
    monkeypatch.setenv("UNRELATED", "1")
    assert (key(session) == before) == ("DISCOUNT" in asked)


def test_dbt_env_variables_always_count_and_hidden_ones_never(
    session: DbtSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key(session)
    monkeypatch.setenv("DBT_VERSION_CHECK", "false")
    assert key(session) == before
    monkeypatch.setenv("DBT_ENV_CUSTOM_ENV_TEAM", "blue")
    assert key(session) != before


def test_the_options_of_the_session_count_for_who_asks_for_them(session: DbtSession) -> None:
    other = replace(session, url=f"{session.url}?options=-c%20sluice.manifest%3Dm_1")
    assert key(other) == key(session)
    write(session, "models/options.sql", "select '{{ env_var('PGOPTIONS') }}' as options")
    assert key(other) != key(session)


SEES_CONNECTION = {
    "target": ("models/who.sql", "select '{{ target.user }}' as who"),
    "context": ("models/who.sql", "select '{{ context['tar' ~ 'get'].user }}' as who"),
    "database in YAML": ("models/raw.yml", "sources: [{name: raw, database: nothing}]"),
    "naming macro": (
        "macros/names.sql",
        "{% macro generate_database_name(a, b) %}{{ a }}{% endmacro %}",
    ),
}


@pytest.mark.parametrize(("name", "text"), SEES_CONNECTION.values(), ids=SEES_CONNECTION.keys())
def test_the_connection_counts_for_projects_that_can_see_it(
    session: DbtSession, name: str, text: str
) -> None:
    other = replace(session, url=ELSEWHERE)
    assert key(other) == key(session)
    write(session, name, text)
    assert key(other) != key(session)


def test_the_password_never_counts(session: DbtSession) -> None:
    write(session, "models/who.sql", "select '{{ target.user }}' as who")
    one, two = (replace(session, url=ELSEWHERE.replace("secret", word)) for word in ("a", "b"))
    assert key(one) == key(two)


def test_the_folder_counts_only_where_seeds_remember_it(
    session: DbtSession, tmp_path: Path
) -> None:
    copy = replace(session, project_dir=tmp_path / "copy")
    shutil.copytree(session.project_dir, copy.project_dir)
    assert key(copy) == key(session)
    for each in (copy, session):
        write(each, "seeds/regions.csv", "customer,region\nann,north\n")
    assert key(copy) != key(session)


def test_other_tools_ask_again(session: DbtSession, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = answers.version
    found = {key(session)}
    for tool in ("dbt-core", "dbt-adapters", "dbt-postgres"):
        monkeypatch.setattr(answers, "version", lambda n, t=tool: "9" if n == t else installed(n))
        found.add(key(session))
    monkeypatch.undo()
    for version_info in ((3, 10), (3, 99)):
        monkeypatch.setattr(answers.sys, "version_info", version_info)
        found.add(key(session))
    monkeypatch.undo()
    monkeypatch.setattr(answers, "_own_source", lambda: "edited")
    found.add(key(session))
    assert len(found) == 7
