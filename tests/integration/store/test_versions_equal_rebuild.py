"""Whatever happened before: every version is what dbt would build from its artifacts alone, as a whole.

Random histories of loads, corrections, empty, held and approved days, refreshes, prunes and edits there
and back, with so few segments allowed that they are merged all the time. Sluice's side and the other one
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
from market import FILES, SEED, Built, Market, Row, day, make_project, orders, rebuild_with_dbt

from orchestration.publication.retention.drop_store import StoreDrop
from orchestration.publication.retention.plan import plan_store
from orchestration.publication.retention.read import read_store
from orchestration.publication.retention.report import Pruned
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import _model, _source
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.segments import layout
from orchestration.warehouse.segments.texts import resolve, written
from orchestration.warehouse.versions import VersionRecord, record_version

DATABASE = "versions"
EXAMPLES = int(os.environ.get("SLUICE_TEST_VERSIONS", "1"))
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
         "refresh", "customers", "code", "prune"]
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
    versions: list[tuple[int, Built]] = field(default_factory=list)
    rebuilt: dict[tuple[int, str], str] = field(default_factory=dict)

    def happen(self, step: Step) -> None:
        what, number, count = step
        known = sorted(name for resource, name in self.market.accepted if resource == "shop.orders")
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
            case "customers":
                self.market.put(CUSTOMERS[number % 2])
            case "code":
                self.code = count % len(self.graphs)
            case "prune":
                self.prune()
            case _ if known:
                self.change(what, known[number % len(known)], number, count)

    def change(self, what: str, window: str, number: int, count: int) -> None:
        match what:
            case "correct":
                self.market.put(orders(int(window[-2:]), count, cents=100 * number), window)
            case "empty":
                self.market.put([], window)
            case "leave_out":
                del self.market.accepted["shop.orders", window]
            case "refresh":
                self.refresh(window)

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
        built = self.market.build(graph=self.graphs[self.code], by_hand=not self.with_dbt)
        self.versions.append((self.code, built))
        self.compare(len(self.versions) - 1)
        for pieces in built.plan.pieces.values():
            assert len(pieces) <= layout.MOST_SEGMENTS

    def prune(self) -> None:
        """Forgets all but the last two versions, and drops what nothing else stands on."""
        self.versions = self.versions[-2:]
        lease = self.market.lease()
        with self.market.warehouse.connect() as owner:
            owner.execute("delete from ops.versions")
        with self.market.connect() as connection:
            for number, (_, built) in enumerate(self.versions):
                version = VersionRecord(
                    f"v_{number:016d}", "shop", built.manifest.manifest_id, "r_1", "c_1"
                )
                assert record_version(connection, version, built.version_models(), lease)
        done = Pruned()
        with (
            self.market.warehouse.connect(Role.RUNNER, autocommit=True) as runner,
            self.market.warehouse.connect(Role.PUBLISHER, autocommit=True) as observer,
        ):
            plan = plan_store(read_store(runner, {}))
            for _ in StoreDrop(runner, observer, [lease], done).steps(plan):
                pass
        assert done.left == []
        with self.market.warehouse.connect() as owner:
            needed = [artifact.artifact_id for artifact in self.market.accepted.values()]
            for table in ("shop__orders", "shop__customers"):
                owner.execute(
                    f"delete from staging.{table} where _artifact_id <> all (%s) and _artifact_id not "
                    "in (select artifact_id from ops.manifest_artifacts where manifest_id = any(%s))",
                    [needed, [built.manifest.manifest_id for _, built in self.versions]],
                )

    def compare(self, number: int) -> None:
        """Compares a version, old or new, with what is built from the same artifacts as a whole."""
        code, built = self.versions[number]
        manifest = built.manifest
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
        sorted(history.market.visible(built, "fct_orders")) for _, built in history.versions[1:]
    ]
    assert without == [day(number) for number in range(1, 10)]
    assert later == [*without, day(11)]
    assert both == [*without, day(10), day(11)]
    # The late day, and the day after it that looks back at it.
    built = history.versions[-1][1]
    assert built.partitions["fct_orders"] == (day(10),)
    assert built.partitions["mean_week"] == (day(10), day(11))
