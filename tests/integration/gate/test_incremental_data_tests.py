"""dbt's data tests on what changed come out as on everything; their SQL is run as dbt would run it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from shelf import RESOURCE, Content, Shelf, content, rows
from world import HISTORIES, Action, Kind, World

from orchestration.identity import VersionId, digest
from orchestration.stages.version_tests import TestJudge as Judge
from orchestration.stages.version_tests import read_test_judge
from orchestration.warehouse.connections import Role
from orchestration.warehouse.content import Contents
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.test_rules import test_statement as statement_of
from orchestration.warehouse.judgements import Judged, find_bases, record_judgements
from orchestration.warehouse.live import ensure_live_views

FILES = {
    "dbt_project.yml": """
name: demo
profile: sluice
config-version: 2
version: 1.0.0
model-paths: [models]
test-paths: [tests]
""",
    "models/sources.yml": """
version: 2
sources:
  - name: demo
    schema: live
    tables: [{name: readings, identifier: demo__readings}]
""",
    "models/stg_readings.sql": "{{ config(materialized='view') }}\n"
    "select key, unit, cast(_partition as text) as _partition from {{ source('demo', 'readings') }}",
    "models/units.sql": "{{ config(materialized='table') }} select 'm' as unit",
    "models/readings.sql": """
{{ config(materialized='versioned', partition_by='_partition') }}
select key, speed, unit, seen_at, _partition from {{ source('demo', 'readings') }}
""",
    "macros/versioned.sql": "{% materialization versioned, adapter='postgres' %}"
    "{{ return(materialization_table_default()) }}{% endmaterialization %}",
    "models/models.yml": """
version: 2
models:
  - name: readings
    config: {contract: {enforced: true}}
    data_tests:
      - unique_combination: {name: no_two_alike, arguments: {columns: [key, unit]}}
    columns:
      - name: key
        data_type: bigint
        data_tests: [unique: {name: unique_key}, not_null: {name: known_key}]
      - {name: speed, data_type: double precision}
      - name: unit
        data_type: text
        data_tests:
          - relationships:
              name: known_unit
              arguments: {to: ref('units'), field: unit}
          - relationships:
              name: staged_unit
              arguments: {to: ref('stg_readings'), field: unit}
      - {name: seen_at, data_type: timestamptz}
      - {name: _partition, data_type: text}
""",
    "tests/generic/unique_combination.sql": "{% test unique_combination(model, columns) %}\n"
    "{{ config(meta={'scope': 'keys'}) }}\n"
    "select {{ columns | join(', ') }} from {{ model }} group by {{ columns | join(', ') }} "
    "having count(*) > 1\n{% endtest %}\n",
    "tests/nothing_is_lost.sql": """
{{ config(meta={'scope': 'changed'}) }}
select coalesce(s._partition, r._partition) from
  (select _partition, count(*) as n from {{ ref('stg_readings') }} group by 1) as s
full join (select _partition, count(*) as n from {{ ref('readings') }} group by 1) as r
  on r._partition = s._partition
where r.n is distinct from s.n
""",
    "tests/slow_on_the_whole.sql": "select avg(speed) from {{ ref('readings') }} having avg(speed) > 60",
    "tests/slow_each_day.sql": "{{ config(meta={'scope': 'changed'}) }}\n"
    "select _partition from {{ ref('readings') }} where speed > 100",
}
STAGED = "key bigint, speed double precision, unit varchar, seen_at timestamptz"
BOOKKEEPING = "_artifact_id varchar, _partition varchar, _run_id varchar, _source_ref varchar"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip())
    return folder


@pytest.fixture(scope="module")
def graph(project: Path) -> ProjectGraph:
    session = DbtSession(project, project / "work", "postgresql://nobody@localhost/nothing")
    return load_graph(session, ["*"])


class DataTests:
    """The data tests of the project on versions of a shelf."""

    def __init__(self, shelf: Shelf, graph: ProjectGraph, project: Path) -> None:
        self.shelf, self.graph = shelf, graph
        url = shelf.warehouse.url(Role.TRANSFORMER)
        self.session = DbtSession(project, project / "work", url, cache_dir=project / "cache")
        shelf.owner.execute(
            f"create table staging.demo__readings ({STAGED}, {BOOKKEEPING})".encode()
        )
        shelf.owner.execute("create index on staging.demo__readings (_artifact_id)")
        shelf.owner.execute(
            "grant select on staging.demo__readings to sluice_gate, sluice_transformer"
        )
        columns = [part.split()[0] for part in f"{STAGED}, {BOOKKEEPING}".split(", ")]
        ensure_live_views(shelf.owner, {RESOURCE: columns})
        shelf.builder.execute(
            "create view store.stg_readings__0 as select key, unit::text as unit, "
            "_partition::text as _partition from live.demo__readings"
        )
        shelf.builder.execute("select ops.seal_relation('stg_readings__0')")
        shelf.adopt("stg_readings__0", "stg_readings", "0" * 64, "view", [])

    def version(self, world: World) -> VersionId:
        """The version of the shelf, with its rows in staging and the staging view in it."""
        staged = digest({day: held.checksum for day, held in world.days.items()})
        version = self.shelf.version(
            world.days, world.units, {"stg_readings": ("stg_readings__0", staged)}
        )
        for artifact in self.shelf.under[version].manifest.artifacts:
            self._stage(artifact.artifact_id, artifact.partition, world.days[artifact.window_name])
        return version

    def _stage(self, artifact: str, partition: str, held: Content) -> None:
        known = self.shelf.owner.execute(
            "select 1 from staging.demo__readings where _artifact_id = %s limit 1", [artifact]
        ).fetchone()
        if known is not None:
            return
        staged = [*held.rows]
        if held.loaded > len(held.rows):
            staged += [(-held.loaded, 1.0, "m", held.rows[0][3])]
        for row in staged:
            self.shelf.owner.execute(
                "insert into staging.demo__readings values (%s, %s, %s, %s, %s, %s, 'r', '#')",
                [*row, artifact, partition],
            )

    def judge(self, version: VersionId) -> tuple[dict[str, bool], dict[str, bool]]:
        """test → whether it passes, on what is due and on everything; what passed is kept."""
        under = self.shelf.under[version]
        with self.shelf.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            judge: Judge = read_test_judge(connection, under, self.graph, self.session)
        rules = judge.rules()
        bases = find_bases(
            self.shelf.runner,
            Contents(self.shelf.runner),
            "flights",
            version,
            [each.rule for each in rules],
            ["passed"],
        )
        partly, wholly = {}, {}
        with self.shelf.warehouse.connect(
            Role.GATE, autocommit=True, **{"sluice.manifest": under.manifest.manifest_id}
        ) as gate:
            for each in rules:
                basis = bases.get(each.rule)
                for found, changed in (
                    (partly, basis.changed if basis else None),
                    (wholly, None),
                ):
                    query = statement_of(each.test, judge.writer, under.slices, changed)
                    nothing_due = changed is not None and not changed
                    found[each.test.name] = (
                        nothing_due
                        or not gate.execute(
                            f"select 1 from ({query}) as failing".encode()
                        ).fetchall()
                    )
        record_judgements(
            self.shelf.runner,
            self.shelf.lease,
            "flights",
            version,
            [
                Judged(each.rule, "passed", bases.get(each.rule), 0)
                for each in rules
                if partly[each.test.name]
            ],
        )
        return partly, wholly


@pytest.fixture
def data_tests(shelf: Shelf, graph: ProjectGraph, project: Path) -> DataTests:
    return DataTests(shelf, graph, project)


def test_a_key_and_a_null_of_another_night_are_found(data_tests: DataTests) -> None:
    world = World()
    for day in range(1, 25):
        world.put(f"2024-01-{day:02}", content(rows(*range(100 * day, 100 * day + 20))))
    world.put("2024-01-25", world.make(Kind.KEYLESS, 0))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert [name for name, passes in found.items() if not passes] == ["known_key"]

    world.put("2024-01-26", world.make(Kind.KEYLESS, 0))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert not found["no_two_alike"]
    assert found["unique_key"]

    world.put("2024-01-26", content(rows(1_000_001, 105)))
    found, everything = data_tests.judge(data_tests.version(world))
    assert found == everything
    assert not found["unique_key"]


@pytest.mark.slow
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=HISTORIES)
def test_whatever_happens_data_tests_come_out_as_on_everything(
    data_tests: DataTests, actions: list[Action]
) -> None:
    data_tests.shelf.owner.execute("truncate ops.judgements")
    world = World()
    world.put("2024-01-01", world.make(Kind.GOOD, 0))
    for action in actions:
        world.act(*action)
        if world.days:
            found, everything = data_tests.judge(data_tests.version(world))
            assert found == everything, action
