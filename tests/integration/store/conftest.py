"""A warehouse for the store, and a small dbt project that the tests may edit."""

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from market import Market, make_tables
from market import make_project as make_market_project

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys, compute_keys
from orchestration.warehouse.dbt.plan import BuildPlan, plan_build
from orchestration.warehouse.dbt.project import load_graph, parse_project
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.live import ensure_live_views
from orchestration.warehouse.store import (
    Adoption,
    adopt_relations,
    adopted_relations,
    register_loading,
)

CHECKOUT = Path(__file__).resolve().parents[3]
MANIFEST = "m_" + "1" * 16
ORDER_COLUMNS = ["order_id", "placed_on", "customer", "cents"]
BOOKKEEPING = ["_artifact_id", "_partition", "_run_id", "_source_ref"]

PROJECT_FILES = {
    "dbt_project.yml": """
name: shop
profile: sluice
config-version: 2
version: 1.0.0
model-paths: [models]
macro-paths: [macros]
seed-paths: [seeds]
test-paths: [tests]
models:
  shop:
    staging: {+materialized: view}
    marts: {+materialized: versioned}
""",
    "seeds/regions.csv": "customer,region\nann,north\nbob,south\n",
    "macros/euros.sql": "{% macro euros(cents) %}({{ cents }} / 100.0){% endmacro %}\n",
    "models/staging/sources.yml": """
version: 2
sources:
  - name: shop
    schema: live
    tables:
      - name: orders
        identifier: shop__orders
""",
    "models/staging/stg_shop__orders.sql": """
select order_id, placed_on, customer, cents from {{ source('shop', 'orders') }}
""",
    "models/marts/int_shop__priced.sql": """
{{ config(materialized='ephemeral') }}
select order_id, placed_on, customer, {{ euros('cents') }} as euros
from {{ ref('stg_shop__orders') }}
""",
    "models/marts/fct_orders.sql": """
{{ config(indexes=[{'columns': ['order_id'], 'unique': true}]) }}
select order_id, placed_on, customer, cast(euros as numeric) as euros
from {{ ref('int_shop__priced') }}
""",
    "models/marts/agg_daily.sql": """
select placed_on, count(*) as orders, sum(euros) as euros
from {{ ref('fct_orders') }}
group by placed_on
""",
    "models/marts/dim_customer.sql": """
select distinct o.customer, r.region
from {{ ref('stg_shop__orders') }} as o
left join {{ ref('regions') }} as r on r.customer = o.customer
""",
    "models/marts/rpt_days.sql": """
{{ config(materialized='view') }}
select placed_on, orders from {{ ref('agg_daily') }}
""",
    "models/marts/models.yml": """
version: 2
models:
  - name: fct_orders
    description: One row per order.
    config: {contract: {enforced: true}}
    columns:
      - {name: order_id, data_type: bigint, constraints: [{type: not_null}], data_tests: [unique]}
      - {name: placed_on, data_type: date}
      - {name: customer, data_type: text, data_tests: [not_null]}
      - {name: euros, data_type: numeric}
  - name: agg_daily
    columns:
      - name: orders
        data_tests:
          - accepted_values: {arguments: {values: [1, 2], quote: false}, config: {severity: warn}}
""",
    "tests/orders_cost_something.sql": "select * from {{ ref('fct_orders') }} where euros < 0\n",
}


@pytest.fixture(scope="session")
def shop_template(server: EmbeddedServer, template: str) -> str:
    name = "shop_template"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} owner sluice_owner")
    with Warehouse(server.url(database=name)).connect(autocommit=True) as owner:
        owner.execute(
            "create table staging.shop__orders (order_id bigint, placed_on date, customer varchar, "
            "cents bigint, _artifact_id varchar, _partition varchar, _run_id varchar, "
            "_source_ref varchar)"
        )
        owner.execute("create index on staging.shop__orders (_artifact_id)")
        ensure_live_views(owner, {"shop.orders": [*ORDER_COLUMNS, *BOOKKEEPING]})
    return name


@pytest.fixture
def warehouse(server: EmbeddedServer, shop_template: str) -> Iterator[Warehouse]:
    name = f"store_{secrets.token_hex(6)}"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name} template {shop_template} owner sluice_owner")
        yield Warehouse(server.url(database=name))
        connection.execute(f"drop database {name} with (force)")


def put_orders(
    warehouse: Warehouse, manifest: str, artifact: str, rows: list[tuple[Any, ...]]
) -> None:
    """One artifact of shop.orders, in one manifest of pipeline shop."""
    with warehouse.connect() as owner:
        owner.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence) values (%s, 'shop', 'shop.orders', %s, 1, %s, "
            "'r_1', 'x', 1)",
            [artifact, artifact, artifact],
        )
        owner.execute(
            "insert into ops.manifests values (%s, 'shop', 'r_1') on conflict do nothing",
            [manifest],
        )
        owner.execute(
            "insert into ops.manifest_artifacts values (%s, 'shop.orders', %s, %s)",
            [manifest, artifact, artifact],
        )
        with owner.cursor() as cursor:
            cursor.executemany(
                "insert into staging.shop__orders values (%s, %s, %s, %s, %s, 'p', 'r_1', 'ref')",
                [(*row, artifact) for row in rows],
            )


@dataclass
class Shop:
    """The project, its warehouse, and one builder."""

    warehouse: Warehouse
    project_dir: Path
    work_dir: Path
    manifest: str = MANIFEST
    attempts: int = 0
    pristine: Any = None
    checksums: dict[str, str] = field(default_factory=lambda: {"shop.orders": "1" * 64})

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.project_dir / path
        text = file.read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def write(self, path: str, text: str) -> None:
        self.pristine = None
        (self.project_dir / path).parent.mkdir(parents=True, exist_ok=True)
        (self.project_dir / path).write_text(text)

    def session(self, role: Role = Role.TRANSFORMER, **settings: str) -> DbtSession:
        url = self.warehouse.url(role, **{"sluice.manifest": self.manifest, **settings})
        return DbtSession(self.project_dir, self.work_dir, url)

    def graph(self, *selection: str) -> ProjectGraph:
        return load_graph(self.session(), selection or ("*",), manifest=self.pristine)

    def lease(self, name: str = "build/shop", seconds: int = 600) -> Lease:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            row = connection.execute(
                "select ops.acquire_lease(%s, 'me', make_interval(secs => %s))", [name, seconds]
            ).fetchone()
            assert row is not None
            if row[0] is None:
                row = connection.execute(
                    "select fence from ops.leases where name = %s", [name]
                ).fetchone()
            assert row is not None
            return Lease(name, row[0])

    def plan(self, graph: ProjectGraph) -> tuple[dict[str, ModelKeys], BuildPlan]:
        keys = compute_keys(graph, self.checksums)
        self.attempts += 1
        with self.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            plan = plan_build(
                graph,
                keys,
                f"attempt {self.attempts}",
                lambda wanted: adopted_relations(connection, wanted),
            )
        return keys, plan

    def start(self, plan: BuildPlan, lease: Lease) -> None:
        with self.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            register_loading(connection, plan.build, run_id="r_1", lease=lease)

    def adopt(self, plan: BuildPlan, lease: Lease) -> Adoption:
        with self.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            return adopt_relations(connection, plan.build, lease)

    def build(self, *selection: str) -> tuple[ProjectGraph, dict[str, ModelKeys], BuildPlan]:
        """Everything from parsing to adoption; returns what was planned."""
        graph = self.graph(*selection)
        keys, plan = self.plan(graph)
        lease = self.lease()
        self.start(plan, lease)
        run_build(self.session(), Writer(graph, keys, plan))
        self.adopt(plan, lease)
        return graph, keys, plan


def make_project(folder: Path) -> Path:
    project = folder / "a project"
    for name, text in PROJECT_FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text.lstrip())
    shutil.copytree(
        CHECKOUT / "dbt_project" / "macros" / "materializations",
        project / "macros" / "materializations",
    )
    return project


@pytest.fixture(scope="session")
def pristine(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The unedited project, parsed once: parsing is most of what a build costs."""
    folder = tmp_path_factory.mktemp("pristine")
    url = Warehouse(server.url()).url(Role.TRANSFORMER)
    return parse_project(DbtSession(make_project(folder), folder / "work", url))


@pytest.fixture
def shop(warehouse: Warehouse, pristine: Any, tmp_path: Path) -> Shop:
    project = make_project(tmp_path)
    parsed = pristine.deepcopy()
    for node in (*parsed.nodes.values(), *parsed.sources.values()):
        node.database = warehouse.database
    put_orders(
        warehouse,
        MANIFEST,
        "a_1",
        [
            (1, "2024-01-01", "ann", 1000),
            (2, "2024-01-01", "bob", 250),
            (3, "2024-01-02", "ann", 1),
        ],
    )
    put_orders(warehouse, "m_" + "2" * 16, "a_2", [(9, "2024-02-01", "eve", 5)])
    return Shop(warehouse, project, tmp_path / "work", pristine=parsed)


@pytest.fixture(scope="session")
def market_template(server: EmbeddedServer, template: str) -> str:
    name = "market_template"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} owner sluice_owner")
    make_tables(Warehouse(server.url(database=name)))
    return name


@pytest.fixture(scope="session")
def dbt_answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What dbt said about projects, for all tests: parsing is most of what a build costs."""
    folder = tmp_path_factory.mktemp("dbt") / "answers"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def market(
    server: EmbeddedServer, market_template: str, tmp_path: Path, dbt_answers: Path
) -> Iterator[Market]:
    """A market with three customers; its days are the test's own."""
    name = f"market_{secrets.token_hex(6)}"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name} template {market_template} owner sluice_owner")
        made = Market(
            Warehouse(server.url(database=name)),
            make_market_project(tmp_path),
            tmp_path / "work",
            dbt_answers,
        )
        made.put([("ann", "Oslo"), ("bob", "Rome"), ("eve", "Nowhere")])
        yield made
        connection.execute(f"drop database {name} with (force)")
