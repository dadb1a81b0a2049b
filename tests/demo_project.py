"""A small dbt project on the model of a shelf, and its data tests on the shelf's versions."""

from dataclasses import replace
from pathlib import Path

from shelf import RESOURCE, Content, Shelf
from world import World

from orchestration.identity import VersionId, digest
from orchestration.stages.version_tests import TestJudge, read_test_judge
from orchestration.warehouse.connections import Role
from orchestration.warehouse.content import Contents
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.test_rules import test_statement
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
NO_WAREHOUSE = "postgresql://nobody@localhost/nothing"
STAGED = "key bigint, speed double precision, unit varchar, seen_at timestamptz"
BOOKKEEPING = "_artifact_id varchar, _partition varchar, _run_id varchar, _source_ref varchar"


def make_project(
    folder: Path, more: dict[str, str] | None = None, url: str = NO_WAREHOUSE
) -> ProjectGraph:
    """Writes the project, with `more` files, and reads it; dbt runs it in the database of `url`."""
    for name, text in (FILES | (more or {})).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip())
    session = DbtSession(folder, folder / "work", url)
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
        judge = self._judge(version)
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
                    query = test_statement(each.test, judge.writer, under.slices, changed)
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

    def run_by_dbt(self, version: VersionId) -> dict[str, str]:
        """test → what dbt says of it, on everything."""
        judge = self._judge(version)
        manifest = self.shelf.under[version].manifest.manifest_id
        url = self.shelf.warehouse.url(Role.GATE, **{"sluice.manifest": manifest})
        outcomes = judge.run(replace(self.session, url=url), judge.rules(), {})
        return {outcome.name: outcome.status for outcome in outcomes}

    def _judge(self, version: VersionId) -> TestJudge:
        with self.shelf.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            return read_test_judge(connection, self.shelf.under[version], self.graph, self.session)
