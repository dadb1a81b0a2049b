"""Whatever happened before: every version is what dbt would build from its artifacts alone, as a whole.

Random histories of loads, corrections, empty, held and approved days, refreshes and edits there and
back, with so few segments allowed that they are merged all the time. Sluice's side and the other one
are both built by dbt in a few of them, by the same SQL without dbt in many.
SLUICE_TEST_VERSIONS=50 takes fifty of the former, and ten times as many of the latter.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from market import FILES, Built, Market, Row, day, make_project, orders

from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession, invoke
from orchestration.warehouse.dbt.statements import Writer, _model, _source
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.segments import layout
from orchestration.warehouse.segments.arrange import arrange_segments
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.segments.texts import resolve, written
from orchestration.warehouse.store import register_loading

DATABASE = "versions"
EXAMPLES = int(os.environ.get("SLUICE_TEST_VERSIONS", "2"))
CUSTOMERS = [
    [("ann", "Oslo"), ("bob", "Rome"), ("eve", "Nowhere")],
    [("ann", "Rome"), ("bob", "Rome"), ("eve", "Oslo")],
]
EDITS: Sequence[Mapping[str, tuple[str, str]]] = (
    {},
    {
        "models/marts/int_priced.sql": ("100.0", "50.0"),
        "models/marts/mean_week.sql": ("lookback=6", "lookback=8"),
    },
    {"models/marts/big_orders.sql": ("euros >= 1", "euros >= 10")},
)

Step = tuple[str, int, int]
# What happens, to which day, and with how many rows (or which snapshot, or which code).
steps = st.tuples(
    st.sampled_from(
        ["night", "night", "night", "hold", "approve", "correct", "correct", "empty", "leave_out",
         "refresh", "customers", "code"]
    ),
    st.integers(0, 6),
    st.integers(0, 4),
)  # fmt: skip


@dataclass
class History:
    """One warehouse, and all that was ever built in it."""

    market: Market
    graphs: Sequence[ProjectGraph]
    with_dbt: bool
    code: int = 0
    last: int = 0
    held: list[int] = field(default_factory=list)
    versions: list[tuple[int, Manifest, Built]] = field(default_factory=list)
    rebuilt: dict[tuple[int, str], str] = field(default_factory=dict)

    def happen(self, step: Step) -> None:
        what, number, count = step
        known = sorted(name for resource, name in self.market.accepted if resource == "shop.orders")
        chosen = known[number % len(known)] if known else None
        match what:
            case "night" | "hold":
                self.last += 1
                if what == "night":
                    self.market.put(orders(self.last, count), day(self.last))
                else:
                    self.held.append(self.last)
            case "approve" if self.held:
                name = self.held.pop(number % len(self.held))
                self.market.put(orders(name, count), day(name))
            case "correct" if chosen:
                name = int(chosen[-2:])
                self.market.put(orders(name, count, cents=100 * number), chosen)
            case "empty" if chosen:
                self.market.put([], chosen)
            case "leave_out" if chosen:
                del self.market.accepted["shop.orders", chosen]
            case "refresh" if chosen:
                self.refresh(chosen)
            case "customers":
                self.market.put(CUSTOMERS[number % 2])
            case "code":
                self.code = count % len(self.graphs)

    def refresh(self, window: str) -> None:
        artifact = self.market.accepted["shop.orders", window]
        with self.market.warehouse.connect() as owner:
            rows = owner.execute(
                "select order_id, placed_on::text, customer, cents from staging.shop__orders "
                "where _artifact_id = %s order by 1 desc",
                [artifact.artifact_id],
            ).fetchall()
        assert self.market.put(rows, window).checksum == artifact.checksum

    def build(self) -> None:
        writer = self.market.prepare(graph=self.graphs[self.code])
        lease = self.market.lease()
        if self.with_dbt:
            self.market.make(writer, lease)
        else:
            make_by_hand(self.market, writer, lease)
        adoption = self.market.adopt(writer, lease)
        assert adoption.orphaned == ()
        relations = {**writer.plan.relations, **adoption.adopted}
        manifest = self.market.manifest()
        built = Built(writer.graph, writer.keys, writer.plan, relations, manifest)
        self.versions.append((self.code, manifest, built))
        self.compare(len(self.versions) - 1)
        for pieces in writer.plan.pieces.values():
            assert len(pieces) <= layout.MOST_SEGMENTS

    def compare(self, number: int) -> None:
        """Compares a version, old or new, with what is built from the same artifacts as a whole."""
        code, manifest, built = self.versions[number]
        schema = self.rebuild(code, manifest)
        setting = {"sluice.manifest": manifest.manifest_id}
        for model in self.graphs[code].models:
            stored = self.all_rows(f"store.{built.relations[model.name]}", setting)
            whole = self.all_rows(f"{schema}.{model.name}", setting)
            assert stored == whole, f"{model.name} of version {number}"
            if model.is_partitioned:
                assert sum(
                    v.row_count for v in self.market.visible(built, model.name).values()
                ) == (len(whole))

    def all_rows(self, relation: str, setting: Mapping[str, str]) -> list[Row]:
        with self.market.warehouse.connect(**setting) as owner:
            return owner.execute(f"select t::text from {relation} t order by 1".encode()).fetchall()

    def rebuild(self, code: int, manifest: Manifest) -> str:
        """The schema in which everything was built as a whole, by plain dbt or as it would do it."""
        key = (code, manifest.manifest_id)
        if key not in self.rebuilt:
            self.rebuilt[key] = f"rebuilt_{len(self.rebuilt)}"
            make = rebuild_with_dbt if self.with_dbt else rebuild_by_hand
            make(self.market, self.graphs[code], manifest, self.rebuilt[key])
        return self.rebuilt[key]


def rebuild_with_dbt(market: Market, graph: ProjectGraph, manifest: Manifest, schema: str) -> None:
    """A plain `dbt build` of the project with another target schema."""
    copy = graph.manifest.deepcopy()
    for node in copy.nodes.values():
        node.schema = schema
        if getattr(node, "relation_name", None):
            node.relation_name = f'"{node.database}"."{schema}"."{node.alias}"'
    url = market.warehouse.url(**{"sluice.manifest": manifest.manifest_id})
    session = DbtSession(market.project_dir, market.work_dir, url)
    done = invoke(session, ["run"], copy)
    done.raise_if_broken("plain dbt")
    assert {str(result.status) for result in done.result.results} == {"success"}


def rebuild_by_hand(market: Market, graph: ProjectGraph, manifest: Manifest, schema: str) -> None:
    setting = {"sluice.manifest": manifest.manifest_id}
    with market.warehouse.connect(**setting) as owner:
        owner.execute(f"create schema {schema}".encode())
        for model in graph.models:
            found = {_model(name): written(schema, name) for name in model.parents}
            found |= {
                _source(name): written("live", name.replace(".", "__")) for name in model.resources
            }
            code = resolve(model.compiled_code, found) if model.compiled_code else SEED
            owner.execute(f"create table {schema}.{model.name} as {code}".encode())


SEED = "select * from (values ('Oslo'::text, 'north'::text), ('Rome', 'south')) as v (city, region)"


def make_by_hand(market: Market, writer: Writer, lease: Lease) -> None:
    """What `Market.make` does, with the statements that dbt would run."""
    with market.connect(manifest=market.manifest()) as connection:
        register_loading(connection, writer.plan.build, run_id="r_1", lease=lease)
        arrange_segments(connection, writer)
        for planned in writer.plan.by_dbt:
            statements = writer.build(planned)
            with connection.transaction():
                for text in statements.before:
                    connection.execute(text.encode())
                code = statements.code or SEED
                connection.execute(
                    f"create {planned.kind} store.{planned.relation_name} as {code}".encode()
                )
                for text in statements.after:
                    connection.execute(text.encode())
        check_independence(connection, writer, lease)


@pytest.fixture(scope="module")
def graphs(
    server: EmbeddedServer,
    market_template: str,
    tmp_path_factory: pytest.TempPathFactory,
    dbt_answers: Path,
) -> list[ProjectGraph]:
    """Each state of the code, parsed once; all databases of these tests have one name."""
    found = []
    for edits in EDITS:
        folder = tmp_path_factory.mktemp("state")
        files = dict(FILES)
        for name, (old, new) in edits.items():
            assert old in files[name]
            files[name] = files[name].replace(old, new)
        url = Warehouse(server.url(database=DATABASE)).url()
        session = DbtSession(make_project(folder, files), folder / "work", url, 4, dbt_answers)
        found.append(load_graph(session, ["*"]))
    return found


@pytest.fixture
def histories(
    server: EmbeddedServer, market_template: str, tmp_path: Path, graphs: list[ProjectGraph],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator["Histories"]:  # fmt: skip
    monkeypatch.setattr(layout, "MOST_SEGMENTS", 3)
    made = Histories(server, market_template, tmp_path, graphs)
    yield made
    made.drop()


@dataclass
class Histories:
    """Makes histories, one at a time, each in a database of its own."""

    server: EmbeddedServer
    template: str
    folder: Path
    graphs: list[ProjectGraph]

    def begin(self, *, with_dbt: bool) -> History:
        self.drop()
        with self.superuser() as connection:
            connection.execute(
                f"create database {DATABASE} template {self.template} owner sluice_owner".encode()
            )
        market = Market(
            Warehouse(self.server.url(database=DATABASE)),
            make_project(self.folder),
            self.folder / "work",
        )
        market.put(CUSTOMERS[0])
        return History(market, self.graphs, with_dbt)

    def drop(self) -> None:
        with self.superuser() as connection:
            connection.execute(f"drop database if exists {DATABASE} with (force)".encode())

    def superuser(self) -> psycopg.Connection:
        return psycopg.connect(self.server.superuser_url("postgres"), autocommit=True)


def live_through(histories: Histories, events: Sequence[Step], *, with_dbt: bool) -> None:
    history = histories.begin(with_dbt=with_dbt)
    for step in events:
        history.happen(step)
        history.build()
    # What came later changed nothing of what was there before, so going back is safe.
    for number in range(len(history.versions)):
        history.compare(number)


REUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.slow
@settings(
    max_examples=EXAMPLES, suppress_health_check=REUSED, phases=[Phase.generate], derandomize=True
)
@given(events=st.lists(steps, min_size=5, max_size=6))
def test_every_version_is_what_dbt_builds_from_its_artifacts(
    histories: Histories, events: list[Step]
) -> None:
    live_through(histories, events, with_dbt=True)


@pytest.mark.slow
@settings(max_examples=10 * EXAMPLES, suppress_health_check=REUSED)
@given(events=st.lists(steps, min_size=5, max_size=12))
def test_every_version_is_what_its_models_say_of_its_artifacts(
    histories: Histories, events: list[Step]
) -> None:
    live_through(histories, events, with_dbt=False)


@pytest.mark.slow
def test_a_day_that_is_approved_late_is_there_beside_the_later_ones(histories: Histories) -> None:
    history = histories.begin(with_dbt=False)
    for _ in range(9):
        history.happen(("night", 0, 3))
    history.build()
    for what in ("hold", "night", "approve"):
        history.happen((what, 0, 3))
        history.build()
    [without, later, both] = [
        sorted(history.market.visible(built, "fct_orders")) for _, _, built in history.versions[1:]
    ]
    assert without == [day(number) for number in range(1, 10)]
    assert later == [*without, day(11)]
    assert both == [*without, day(10), day(11)]
    # The late day, and the day after it that looks back at it.
    built = history.versions[-1][2]
    assert built.partitions["fct_orders"] == (day(10),)
    assert built.partitions["mean_week"] == (day(10), day(11))
