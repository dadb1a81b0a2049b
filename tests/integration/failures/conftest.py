"""Partitions to load and models to build, small enough to be broken in many ways."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ingestion.client import SourceClient
from ingestion.demo_api.server import DemoServer
from ingestion.fetch import fetch_partition
from ingestion.load import LoadItem, load_spooled_partitions
from ingestion.partitions import SNAPSHOT, Partition
from ingestion.sources import get_resource, get_source
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import Again, run_build
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.plan import BuildPlan, plan_build
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer

PROJECT = """
name: shop
profile: sluice
config-version: 2
version: 1.0.0
models: {+materialized: table}
"""
SOURCES = """
version: 2
sources:
  - name: shop
    schema: live
    tables:
"""
# What a model may not do itself, its sources do when they are read.
VIEWS = {
    "die": "select pg_terminate_backend(pg_backend_pid())::text as a, pg_sleep(5)::text as b",
    "sleep": "select pg_sleep(5)::text as a",
    "secret": "select 'eve@example.org'::text as a",
    "locked": "select 1 as a",
}


@pytest.fixture(scope="session")
def spooled(tmp_path_factory: pytest.TempPathFactory) -> LoadItem:
    """The snapshot of airlines, fetched once."""
    folder = tmp_path_factory.mktemp("spool")
    resource = get_resource("flights.airlines")
    partition = Partition(resource.full_name, SNAPSHOT)
    with DemoServer() as demo:
        environ = {
            "SLUICE_FLIGHTS_API_URL": demo.url,
            "SLUICE_FLIGHTS_API_TOKEN": demo.token,
            "SLUICE_PSEUDONYM_KEY": "a key for tests",
        }
        with SourceClient(get_source("flights"), environ) as client:
            fetched = fetch_partition(
                resource,
                partition,
                environ=environ,
                run_id="r_test",
                spool_dir=folder,
                client=client,
            )
    return LoadItem("a_1", partition, "r_test", fetched, folder)


@pytest.fixture
def load(warehouse: Warehouse, spooled: LoadItem, tmp_path: Path) -> Callable[[str | None], None]:
    """Loads the snapshot as the extractor; into another warehouse, when its URL is given."""

    def run(url: str | None = None) -> None:
        load_spooled_partitions(
            url or warehouse.bulk_url(Role.EXTRACTOR), [spooled], work_dir=tmp_path / "work"
        )

    return run


@pytest.fixture
def build(warehouse: Warehouse, tmp_path: Path) -> Callable[..., BuildPlan]:
    """Builds a dbt project whose models are given by name, with session settings.

    Its sources are `VIEWS` and `nothing`; the transformer may not read `locked`.
    """
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text(PROJECT)
    tables = "".join(
        f"      - {{name: {name}, identifier: shop__{name}}}\n" for name in (*VIEWS, "nothing")
    )
    (project / "models" / "sources.yml").write_text(SOURCES + tables)
    with warehouse.connect(autocommit=True) as owner:
        for name, query in VIEWS.items():
            owner.execute(f"create view live.shop__{name} as {query}")
            if name != "locked":
                owner.execute(f"grant select on live.shop__{name} to sluice_transformer")

    def run(
        models: dict[str, str],
        url: str | None = None,
        again: Again = lambda _tries, _failures: False,
        **settings: str,
    ) -> BuildPlan:
        for name, text in models.items():
            (project / "models" / f"{name}.sql").write_text(text)
        session = DbtSession(
            project, tmp_path / "dbt", warehouse.url(Role.TRANSFORMER, **settings), threads=2
        )
        graph = load_graph(session, ["*"])
        checksums = dict.fromkeys(graph.resources, "1" * 64)
        keys = compute_keys(graph, checksums)
        plan = plan_build(graph, keys, "attempt", lambda _: {})
        session = DbtSession(project, tmp_path / "dbt", url or session.url)
        run_build(session, Writer(graph, keys, plan), again=again)
        return plan

    return run
