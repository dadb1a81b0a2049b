"""A small dbt project with a source, a macro, an ephemeral model and a test, and dbt's answers."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession

# Parsing and compiling open no connection, but dbt wants a profile that names one.
URL = "postgresql://nobody@localhost/nothing"
FILES = {
    "dbt_project.yml": """
name: shop
profile: sluice
config-version: 2
version: 1.0.0
models: {shop: {+materialized: table}}
""",
    "macros/euros.sql": "{% macro euros(cents) %}({{ cents }} / 100.0){% endmacro %}\n",
    "models/shop.yml": """
version: 2
sources:
  - name: shop
    schema: live
    tables: [{name: orders, identifier: shop__orders}]
models:
  - name: fct_orders
    config: {contract: {enforced: true}, meta: {since: 2024-01-31}}
    columns:
      - {name: customer, data_type: text, data_tests: [not_null]}
      - {name: euros, data_type: numeric}
""",
    "models/int_orders.sql": """
{{ config(materialized='ephemeral') }}
select customer, {{ euros('cents') }} as euros from {{ source('shop', 'orders') }}
""",
    "models/fct_orders.sql": "select customer, euros from {{ ref('int_orders') }}\n",
    "models/dim_customer.sql": "select distinct customer from {{ ref('fct_orders') }}\n",
}


def make_session(folder: Path) -> DbtSession:
    project = folder / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text.lstrip())
    return DbtSession(project, folder / "work", URL, cache_dir=folder / "cache")


@pytest.fixture
def session(tmp_path: Path) -> DbtSession:
    """A session on the project that keeps answers in `tmp_path`/cache, none so far."""
    return make_session(tmp_path)


@pytest.fixture(scope="session")
def first_session(tmp_path_factory: pytest.TempPathFactory) -> DbtSession:
    """A session like the other; dbt was asked about all models in it. Not to be changed."""
    session = make_session(tmp_path_factory.mktemp("first"))
    load_graph(session, ["*"])
    return session


@pytest.fixture
def answered(first_session: DbtSession, tmp_path: Path) -> DbtSession:
    """A session on a project of its own, with the answers of the first one."""
    assert first_session.cache_dir is not None
    shutil.copytree(first_session.cache_dir, tmp_path / "cache")
    return replace(make_session(tmp_path), cache_dir=tmp_path / "cache")
