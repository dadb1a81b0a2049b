"""A small dbt project whose models have partitions, its warehouse, and a builder that the tests drive.

Orders come by day, customers as snapshots. Everything from the manifest to the adopted relations is
done by the same functions, in the same order, as the transform stage does it.
"""

import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psycopg

from ingestion.partitions import SNAPSHOT
from orchestration.identity import ArtifactId, digest, manifest_id
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.plan import BuildPlan
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession, invoke
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.live import ensure_live_views
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.partitions import VisiblePartition, visible_partitions
from orchestration.warehouse.planning import keys_of, plan_now, sources_of
from orchestration.warehouse.segments.arrange import arrange_segments
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.store import Adoption, adopt_relations, register_loading
from orchestration.warehouse.versions import VersionModel

CHECKOUT = Path(__file__).resolve().parent.parent
ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
COLUMNS = {
    ORDERS: {"order_id": "bigint", "placed_on": "date", "customer": "varchar", "cents": "bigint"},
    CUSTOMERS: {"customer": "varchar", "city": "varchar"},
}
BOOKKEEPING = ["_artifact_id", "_partition", "_run_id", "_source_ref"]
Row = tuple[Any, ...]

FILES = {
    "dbt_project.yml": """
name: market
profile: sluice
config-version: 2
version: 1.0.0
model-paths: [models]
macro-paths: [macros]
seed-paths: [seeds]
models:
  market:
    staging: {+materialized: view}
    marts: {+materialized: versioned}
""",
    "seeds/regions.csv": "city,region\nOslo,north\nRome,south\n",
    "models/staging/sources.yml": """
version: 2
sources:
  - name: shop
    schema: live
    tables:
      - {name: orders, identifier: shop__orders}
      - {name: customers, identifier: shop__customers}
""",
    "models/staging/stg_orders.sql": """
select
    order_id, placed_on, cast(customer as text) as customer, cents,
    cast(_partition as text) as _partition
from {{ source('shop', 'orders') }} -- the last line is a comment
""",
    "models/staging/stg_customers.sql": """
select cast(customer as text) as customer, cast(city as text) as city
from {{ source('shop', 'customers') }}
""",
    "models/marts/int_priced.sql": """
{{ config(materialized='ephemeral') }}
select order_id, placed_on, customer, cast(cents / 100.0 as numeric(12, 2)) as euros, _partition
from {{ ref('stg_orders') }}
""",
    "models/marts/fct_orders.sql": """
{{ config(
    partition_by='_partition', indexes=[{'columns': ['order_id'], 'unique': true}],
    persist_docs={'relation': true, 'columns': true}
) }}
select order_id, placed_on, customer, euros, _partition from {{ ref('int_priced') }} -- all of them
""",
    "models/marts/big_orders.sql": """
{{ config(materialized='view') }}
select * from {{ ref('fct_orders') }} where euros >= 1
""",
    "models/marts/dim_customer.sql": """
with customers as (select * from {{ ref('stg_customers') }}),
regions as (select * from {{ ref('regions') }})
select c.customer, r.region from customers as c left join regions as r on r.city = c.city
""",
    "models/marts/agg_daily.sql": """
{{ config(partition_by='_partition') }}
with orders as (select * from {{ ref('big_orders') }}),
customers as (select * from {{ ref('dim_customer') }})
select
    o.placed_on, c.region, count(*) as orders, sum(o.euros) as euros,
    avg(cast(o.euros as double precision)) as mean_euros, o._partition
from orders as o
left join customers as c on c.customer = o.customer
group by o.placed_on, c.region, o._partition
""",
    "models/marts/mean_week.sql": """
{{ config(partition_by='_partition', lookback=6) }}
with days as (
    select placed_on, sum(euros) as euros, _partition
    from {{ ref('fct_orders') }} group by placed_on, _partition
)
select
    placed_on,
    sum(euros) over (
        order by placed_on range between interval '6 days' preceding and current row
    ) / 7 as mean_euros,
    _partition
from days
""",
    "models/marts/sum_customers.sql": """
select customer, sum(euros) as euros from {{ ref('fct_orders') }} group by customer
""",
    "models/marts/models.yml": """
version: 2
models:
  - name: fct_orders
    description: One row per order.
    config: {contract: {enforced: true}}
    columns:
      - name: order_id
        data_type: bigint
        description: The number on the receipt.
        constraints: [{type: not_null}]
      - {name: placed_on, data_type: date}
      - {name: customer, data_type: text}
      - {name: euros, data_type: "numeric(12, 2)"}
      - {name: _partition, data_type: text}
    constraints: [{type: check, expression: euros > -1000, name: cheap}]
  - name: agg_daily
    config: {contract: {enforced: true}}
    columns:
      - {name: placed_on, data_type: date}
      - {name: region, data_type: text}
      - {name: orders, data_type: bigint}
      - {name: euros, data_type: numeric}
      - {name: mean_euros, data_type: double precision}
      - {name: _partition, data_type: text}
  - name: mean_week
    config: {contract: {enforced: true}}
    columns:
      - {name: placed_on, data_type: date}
      - {name: mean_euros, data_type: numeric}
      - {name: _partition, data_type: text}
""",
}
# What dbt makes of the seed.
SEED = "select * from (values ('Oslo'::text, 'north'::text), ('Rome', 'south')) as v (city, region)"


def day(number: int) -> str:
    """The window of the n-th day, from 1."""
    return str(date(2024, 1, 1) + timedelta(days=number - 1))


def orders(number: int, count: int = 3, *, cents: int = 500) -> list[Row]:
    """Orders of the n-th day: order_id, placed_on, customer, cents."""
    return [
        (100 * number + i, day(number), ("ann", "bob", "eve")[i % 3], cents * (i + 1))
        for i in range(count)
    ]


@dataclass(frozen=True)
class Built:
    """What one build came to."""

    graph: ProjectGraph
    keys: Mapping[str, ModelKeys]
    plan: BuildPlan
    relations: Mapping[str, str]
    manifest: Manifest

    @property
    def by_dbt(self) -> set[str]:
        """The models that dbt built anything of."""
        return {planned.model for planned in self.plan.by_dbt}

    def version_models(self) -> list[VersionModel]:
        """What is written down of the version."""
        return [
            VersionModel(
                model.name, self.relations[model.name], self.keys[model.name].content_key,
                model.kind == "table", model.parents, model.resources,
            )
            for model in self.graph.models
        ]  # fmt: skip

    @property
    def partitions(self) -> dict[str, tuple[str, ...]]:
        """model → partitions that dbt built."""
        return dict(self.plan.new_partitions)


@dataclass
class Market:
    """The project, the artifacts that are accepted now, and one builder."""

    warehouse: Warehouse
    project_dir: Path
    work_dir: Path
    cache_dir: Path | None = None
    accepted: dict[tuple[str, str], Artifact] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.project_dir / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def write(self, path: str, text: str) -> None:
        (self.project_dir / path).parent.mkdir(parents=True, exist_ok=True)
        (self.project_dir / path).write_text(text)

    def put(self, rows: Sequence[Row], window: str = SNAPSHOT, resource: str = "") -> Artifact:
        """A new revision of a window (or snapshot), accepted at once."""
        resource = resource or (CUSTOMERS if window == SNAPSHOT else ORDERS)
        revision = self.revisions.get(f"{resource}/{window}", 0) + 1
        self.revisions[f"{resource}/{window}"] = revision
        partition = f"{resource}/{window}@{revision}"
        artifact = Artifact(
            ArtifactId(f"a_{digest(partition)[:12]}"), "shop", resource, window, revision, partition,
            "r_1", "adopted", len(rows), len(rows), 0, digest(sorted(map(list, rows))), "1", [], None,
            "accepted", None,
        )  # fmt: skip
        self._load(artifact, rows)
        self.accepted[resource, window] = artifact
        return artifact

    def take(self, numbers: Iterable[int]) -> None:
        """Ordinary orders of these days."""
        for number in numbers:
            self.put(orders(number), day(number))

    def leave_out(self, number: int) -> Artifact:
        return self.accepted.pop((ORDERS, day(number)))

    def manifest(self) -> Manifest:
        """What is accepted now, written down."""
        artifacts = tuple(self.accepted[name] for name in sorted(self.accepted))
        identity = manifest_id(
            "shop",
            [(a.resource, a.window_name, a.loaded or 0, a.checksum or "") for a in artifacts],
        )
        with self.warehouse.connect() as owner:
            inserted = owner.execute(
                "insert into ops.manifests values (%s, 'shop', 'r_1') on conflict do nothing "
                "returning 1",
                [identity],
            ).fetchone()
            if inserted:
                owner.cursor().executemany(
                    "insert into ops.manifest_artifacts values (%s, %s, %s, %s)",
                    [[identity, a.resource, a.window_name, a.artifact_id] for a in artifacts],
                )
        return Manifest(identity, "shop", artifacts)

    def session(self, manifest: Manifest, role: Role = Role.TRANSFORMER) -> DbtSession:
        url = self.warehouse.url(role, **{"sluice.manifest": manifest.manifest_id})
        return DbtSession(self.project_dir, self.work_dir, url, 4, self.cache_dir)

    def graph(self, *selection: str, manifest: Manifest | None = None) -> ProjectGraph:
        return load_graph(self.session(manifest or self.manifest()), selection or ("*",))

    def lease(self, name: str = "build/shop", seconds: int = 600) -> Lease:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            row = connection.execute(
                "select coalesce(ops.acquire_lease(%s, 'me', make_interval(secs => %s)), "
                "(select fence from ops.leases where name = %s))",
                [name, seconds, name],
            ).fetchone()
            assert row is not None
            return Lease(name, row[0])

    def prepare(self, *selection: str, graph: ProjectGraph | None = None) -> Writer:
        """Everything up to a plan; nothing is written."""
        manifest = self.manifest()
        graph = graph or self.graph(*selection, manifest=manifest)
        with self.connect(manifest=manifest) as connection:
            keys = keys_of(connection, graph, manifest)
            plan = plan_now(connection, graph, keys, secrets.token_hex(8))
            return Writer(graph, keys, plan, sources_of(connection, graph, manifest))

    def make(self, writer: Writer, lease: Lease) -> None:
        """Everything from a plan to what may be adopted."""
        manifest = self.manifest()
        with self.connect() as connection:
            register_loading(connection, writer.plan.build, run_id="r_1", lease=lease)
            arrange_segments(connection, writer)
            run_build(self.session(manifest), writer)
            check_independence(connection, writer, lease)

    def make_by_hand(self, writer: Writer, lease: Lease) -> None:
        """The same with the statements that dbt would run, for graphs that need no dbt."""
        with self.connect(manifest=self.manifest()) as connection:
            register_loading(connection, writer.plan.build, run_id="r_1", lease=lease)
            arrange_segments(connection, writer)
            for planned in writer.plan.by_dbt:
                statements = writer.build(planned)
                code = statements.code or SEED
                name = f"store.{planned.relation_name}"
                with connection.transaction():
                    for text in statements.before:
                        connection.execute(text.encode())
                    connection.execute(f"create {planned.kind} {name} as {code}".encode())
                    for text in statements.after:
                        connection.execute(text.encode())
            check_independence(connection, writer, lease)

    def adopt(self, writer: Writer, lease: Lease) -> Adoption:
        with self.connect() as connection:
            return adopt_relations(connection, writer.plan.build, lease)

    def build(
        self, *selection: str, graph: ProjectGraph | None = None, by_hand: bool = False
    ) -> Built:
        """One version, from what is accepted to adopted relations."""
        writer = self.prepare(*selection, graph=graph)
        lease = self.lease()
        (self.make_by_hand if by_hand else self.make)(writer, lease)
        adoption = self.adopt(writer, lease)
        assert adoption.orphaned == ()
        relations = {**writer.plan.relations, **adoption.adopted}
        return Built(writer.graph, writer.keys, writer.plan, relations, self.manifest())

    def rows(self, relation: str, role: Role = Role.GATE, **settings: str) -> list[Row]:
        with self.warehouse.connect(role, **settings) as connection:
            return connection.execute(f"select * from {relation} order by 1, 2".encode()).fetchall()

    def stored(self, built: Built, model: str) -> list[Row]:
        return self.rows(
            f"store.{built.relations[model]}", **{"sluice.manifest": built.manifest.manifest_id}
        )

    def visible(self, built: Built, model: str) -> dict[str, VisiblePartition]:
        with self.warehouse.connect() as owner:
            return visible_partitions(owner, built.relations[model])

    def connect(self, manifest: Manifest | None = None) -> psycopg.Connection:
        settings = {"sluice.manifest": manifest.manifest_id} if manifest else {}
        return self.warehouse.connect(Role.TRANSFORMER, autocommit=True, **settings)

    def _load(self, artifact: Artifact, rows: Sequence[Row]) -> None:
        with self.warehouse.connect() as owner:
            owner.execute(
                "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
                "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum) "
                "values (%s, 'shop', %s, %s, %s, %s, 'r_1', 'x', 1, 'adopted', %s, %s, 0, %s)",
                [
                    *(artifact.artifact_id, artifact.resource, artifact.window_name),
                    *(artifact.revision, artifact.partition),
                    *(len(rows), len(rows), artifact.checksum),
                ],
            )
            table = artifact.resource.replace(".", "__")
            marks = ", ".join(["%s"] * (len(COLUMNS[artifact.resource]) + len(BOOKKEEPING)))
            owner.cursor().executemany(
                f"insert into staging.{table} values ({marks})".encode(),
                [(*row, artifact.artifact_id, artifact.partition, "r_1", "ref") for row in rows],
            )


def make_tables(warehouse: Warehouse) -> None:
    """The staging tables of the market and what schema live shows of them."""
    with warehouse.connect(autocommit=True) as owner:
        for resource, columns in COLUMNS.items():
            table = resource.replace(".", "__")
            wanted = columns | dict.fromkeys(BOOKKEEPING, "varchar")
            types = ", ".join(f"{name} {kind}" for name, kind in wanted.items())
            owner.execute(f"create table staging.{table} ({types})".encode())
            owner.execute(f"create index on staging.{table} (_artifact_id)".encode())
            owner.execute(
                f"grant select on staging.{table} to sluice_transformer, sluice_gate".encode()
            )
            ensure_live_views(owner, {resource: list(wanted)})


def make_project(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    project = folder / "a market"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text.lstrip())
    shutil.copytree(
        CHECKOUT / "dbt_project" / "macros" / "materializations",
        project / "macros" / "materializations",
        dirs_exist_ok=True,
    )
    return project


def rebuild_with_dbt(market: Market, graph: ProjectGraph, manifest: Manifest, schema: str) -> None:
    """A plain `dbt build` of the project with another target schema."""
    copy = graph.manifest.deepcopy()
    for node in copy.nodes.values():
        node.schema = schema
        if getattr(node, "relation_name", None):
            node.relation_name = f'"{node.database}"."{schema}"."{node.alias}"'
    url = market.warehouse.url(**{"sluice.manifest": manifest.manifest_id})
    session = DbtSession(market.project_dir, market.work_dir, url)
    done = invoke(session, ["build", "--resource-type", "model", "--resource-type", "seed"], copy)
    done.raise_if_broken("plain dbt")
    failed = [
        (result.node.name, result.message)
        for result in done.result.results
        if str(result.status) != "success"
    ]
    assert not failed, failed
