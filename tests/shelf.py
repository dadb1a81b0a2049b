"""Versions of one partitioned model, made by hand, and the gate that judges them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from late_work import Silence
from psycopg import sql
from psycopg.types.json import Jsonb

from orchestration.code import Code
from orchestration.identity import ArtifactId, RunId, VersionId, digest, manifest_id, version_id
from orchestration.model import Run, TriggerKind
from orchestration.pipelines.acceptance import Verdict
from orchestration.pipelines.files import get_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.budget import Budget
from orchestration.runs.leases import try_acquire
from orchestration.settings import Settings
from orchestration.stages.base import StageContext
from orchestration.stages.judging import Judging
from orchestration.stages.under_test import UnderTest, read_under_test
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.partitions import segments_with
from orchestration.warehouse.segments.layout import Piece, lay_out
from orchestration.warehouse.segments.texts import segment_views

PIPELINE = "flights"
RESOURCE = "demo.readings"
COLUMNS = ("key", "speed", "unit", "seen_at", "_partition")
TYPES = ("bigint", "double precision", "text", "timestamp with time zone", "text")
SHOWN = [{"name": n, "type": t} for n, t in zip(COLUMNS[:-1], TYPES[:-1], strict=True)]
NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)

SQL = "unexpected_rows_expectation"
BETWEEN = "expect_column_values_to_be_between"
SUITE = [
    "expect_column_values_to_not_be_null | critical | {column: key}",
    "expect_column_values_to_be_unique | critical | {column: key}",
    "expect_compound_columns_to_be_unique | critical | {column_list: [seen_at, unit]}",
    f"{BETWEEN} | critical | {{column: speed, min_value: 0, max_value: 100}}",
    f"{BETWEEN} | warning | {{column: speed, max_value: 80}}",
    (
        f"{SQL} | critical | {{unexpected_rows_query: 'select _partition, unit from {{batch}} where unit"
        " not in (select u.unit from units as u)'} | columns: [unit], reads: [units], scope: changed"
    ),
    (
        "expect_table_row_count_to_equal | critical | {value: {$PARAMETER: input_rows_demo__readings}}"
        " | scope: changed"
    ),
    (
        "expect_column_max_to_be_between | critical"
        " | {column: seen_at, min_value: {$PARAMETER: 'as_of - timedelta(hours=48)'}}"
    ),
    (
        "expect_column_max_to_be_between | critical"
        " | {column: seen_at, max_value: {$PARAMETER: 'as_of + timedelta(hours=24)'}}"
    ),
    "expect_column_mean_to_be_between | critical | {column: speed, max_value: 60}",
]
STRICT = [line.replace("max_value: 100", "max_value: 50") for line in SUITE]


Row = tuple[int | None, float, str, datetime]


@dataclass(frozen=True)
class Content:
    """The rows of one partition, and how many rows of the source they were made from."""

    rows: tuple[Row, ...]
    loaded: int

    @property
    def checksum(self) -> str:
        return digest([[str(value) for value in row] for row in self.rows] + [self.loaded])


def content(rows: Iterable[Row], loaded: int | None = None) -> Content:
    kept = tuple(rows)
    return Content(kept, len(kept) if loaded is None else loaded)


def rows(*keys: int, speed: float = 10, unit: str = "m", seen: datetime = NOON) -> list[Row]:
    return [(key, speed, unit, seen - timedelta(seconds=key)) for key in keys]


@dataclass
class Shelf:
    """`lines` is the suite of the model, in the short form of `write_suite`."""

    warehouse: Warehouse
    runner: psycopg.Connection
    owner: psycopg.Connection
    builder: psycopg.Connection
    suites_dir: Path
    lease: Lease
    runs: int = 0
    under: dict[VersionId, UnderTest] = field(default_factory=dict)

    def write_suite(self, *lines: str) -> None:
        """Each line is `type | severity | kwargs | more meta`."""
        text = "name: readings\nmeta: {owner: someone, runbook: docs/runbooks/failed-gate.md}\n"
        text += "expectations:\n"
        for line in lines:
            kind, severity, kwargs, *meta = (part.strip() for part in line.split(" | "))
            more = f", {meta[0]}" if meta else ""
            text += f"  - type: {kind}\n    kwargs: {kwargs}\n    severity: {severity}\n"
            text += f"    meta: {{reason: Because.{more}}}\n"
        (self.suites_dir / "readings.yml").write_text(text)

    def version(
        self,
        partitions: Mapping[str, Content],
        units: Iterable[str],
        more: Mapping[str, tuple[str, str]] | None = None,
    ) -> VersionId:
        """A version that shows these partitions, on the segments that are there and a new one.

        `more` has other models: name → relation, content key.
        """
        artifacts = [self._artifact(window, held) for window, held in partitions.items()]
        manifest = self._manifest(artifacts)
        models = {"readings": self._readings(partitions), "units": self._units(sorted(units))}
        models |= more or {}
        keys = {model: key for model, (_, key) in models.items()}
        found = version_id(PIPELINE, manifest.manifest_id, keys, keys)
        if found not in self.under:
            self.owner.execute(
                "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id) "
                "values (%s, %s, %s, 'r', 'c')",
                [found, PIPELINE, manifest.manifest_id],
            )
            for model, (relation, key) in models.items():
                self.owner.execute(
                    "insert into ops.version_models values (%s, %s, %s, %s, true, '{}', %s)",
                    [found, model, relation, key, [RESOURCE] if model == "readings" else []],
                )
            self.under[found] = read_under_test(self.runner, found, manifest)
        return found

    def judging(
        self, version: VersionId, as_of: datetime = NOON, accepted: tuple[str, ...] | None = None
    ) -> Judging:
        """A gate of a run of its own, before it has looked at anything."""
        self.runs += 1
        return Judging(self._context(f"r_{self.runs}", as_of, accepted), self.under[version])

    def judge(
        self, version: VersionId, as_of: datetime = NOON, accepted: tuple[str, ...] | None = None
    ) -> Judging:
        """What a gate of a run of its own says of the suite, and keeps."""
        judging = self.judging(version, as_of, accepted)
        judging.evaluate_suites()
        with self.runner.transaction():
            judging.record(self.lease)
        return judging

    def judge_everything(self, version: VersionId, as_of: datetime = NOON) -> Judging:
        """What a gate says that remembers nothing; nothing is kept."""
        judging = Forgetful(self._context("r_fresh", as_of, None), self.under[version])
        judging.evaluate_suites()
        return judging

    def _context(self, run: str, as_of: datetime, accepted: tuple[str, ...] | None) -> StageContext:
        pipeline = get_pipeline(Settings().pipelines_dir, PIPELINE)
        settings = Settings().model_copy(update={"project_dir": self.suites_dir.parents[1]})
        stages = pipeline.stages
        if accepted is not None:
            verdicts = tuple(map(Verdict, accepted))
            policy = stages.gate.acceptance.model_copy(update={"verdicts": verdicts})
            stages = stages.model_copy(
                update={"gate": stages.gate.model_copy(update={"acceptance": policy})}
            )
        spec: PipelineSpec = pipeline.model_copy(update={"suites": ("readings",), "stages": stages})
        return StageContext(
            settings=settings,
            warehouse=self.warehouse,
            pipeline=spec,
            run=run_of(run, as_of),
            code=Code("d", "s", "c", "p", commit=None, dirty=None),
            connection=self.runner,
            run_lease=self.lease,
            progress=Silence(),
            check_leases=lambda: None,
            read_checkpoints=lambda _: {},
            budget=Budget(600),
            partitions=[],
            work_dir=Path(),
        )

    def _artifact(self, window: str, held: Content) -> Artifact:
        artifact_id = ArtifactId(f"a_{digest([window, held.checksum])[:16]}")
        partition = f"{RESOURCE}/{window}@{int(held.checksum[:6], 16) + 1}"
        self.owner.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
            "acceptance) values (%s, %s, %s, %s, 1, %s, 'r', 'l', 1, 'adopted', %s, %s, 0, %s, "
            "'accepted') on conflict do nothing",
            [
                *(artifact_id, PIPELINE, RESOURCE, window, partition),
                *(held.loaded, held.loaded, held.checksum),
            ],
        )
        return Artifact(
            *(artifact_id, PIPELINE, RESOURCE, window, 1, partition, "r", "adopted"),
            *(held.loaded, held.loaded, 0, held.checksum, "1", [], NOON, "accepted", None),
        )

    def _manifest(self, artifacts: list[Artifact]) -> Manifest:
        found = manifest_id(
            PIPELINE,
            [(a.resource, a.window_name, a.loaded or 0, a.checksum or "") for a in artifacts],
        )
        new = self.owner.execute(
            "insert into ops.manifests values (%s, %s, 'r') on conflict do nothing returning 1",
            [found, PIPELINE],
        ).fetchone()
        for artifact in artifacts if new else ():
            self.owner.execute(
                "insert into ops.manifest_artifacts values (%s, %s, %s, %s)",
                [found, artifact.resource, artifact.window_name, artifact.artifact_id],
            )
        return Manifest(found, PIPELINE, tuple(artifacts))

    def _readings(self, partitions: Mapping[str, Content]) -> tuple[str, str]:
        """(view over segments, content key)."""
        keys = {window: digest([window, held.checksum]) for window, held in partitions.items()}
        key = digest(["readings", keys])
        relation = f"readings__{key[:12]}"
        if self._is_adopted(relation):
            return relation, key
        layout = lay_out(keys, segments_with(self.builder, keys.values()))
        pieces = [*layout.pieces, *layout.merge]
        if layout.missing or not pieces:
            missing = {window: partitions[window] for window in layout.missing}
            name = self._segment(missing, keys)
            pieces.append(Piece(name, layout.missing))
        for text in segment_views(relation, COLUMNS, pieces):
            self.builder.execute(text.encode())
        for view in (relation, f"{relation}__live"):
            self.builder.execute("select ops.seal_relation(%s)", [view])
        self.adopt(relation, "readings", key, "view", SHOWN)
        for piece in pieces:
            self.owner.execute(
                "insert into ops.view_segments values (%s, %s, %s)",
                [relation, piece.segment, list(piece.hidden)],
            )
        return relation, key

    def _segment(self, partitions: Mapping[str, Content], keys: Mapping[str, str]) -> str:
        key = digest(["segment", {window: keys[window] for window in partitions}])
        name = f"readings__{key[:12]}"
        if self._is_adopted(name):
            return name
        columns = ", ".join(f"{n} {t}" for n, t in zip(COLUMNS, TYPES, strict=True))
        self.builder.execute(f"create table store.{name} ({columns})".encode())
        with self.builder.cursor().copy(f"copy store.{name} from stdin".encode()) as copy:
            for window, held in partitions.items():
                for row in held.rows:
                    copy.write_row((*row, window))
        self.builder.execute(f"create index on store.{name} (key)".encode())
        self.builder.execute(f"create index on store.{name} (seen_at, unit)".encode())
        self.builder.execute(f"analyze store.{name}".encode())
        self.builder.execute("select ops.seal_relation(%s)", [name])
        self.adopt(name, "readings", key, "table", SHOWN)
        for window, held in partitions.items():
            self.owner.execute(
                "insert into ops.segment_partitions values (%s, %s, %s, %s)",
                [name, window, keys[window], len(held.rows)],
            )
        return name

    def _units(self, units: list[str]) -> tuple[str, str]:
        key = digest(["units", units])
        name = f"units__{key[:12]}"
        if not self._is_adopted(name):
            self.builder.execute(
                sql.SQL("create table {} as select unnest({}::text[]) as unit").format(
                    sql.Identifier("store", name), sql.Literal(units)
                )
            )
            self.builder.execute("select ops.seal_relation(%s)", [name])
            self.adopt(name, "units", key, "table", [{"name": "unit", "type": "text"}])
        return name, key

    def _is_adopted(self, relation: str) -> bool:
        found = self.owner.execute(
            "select 1 from ops.relations where relation_name = %s", [relation]
        ).fetchone()
        return found is not None

    def adopt(
        self, relation: str, model: str, key: str, kind: str, columns: list[dict[str, str]]
    ) -> None:
        """Writes a relation of the store down."""
        self.owner.execute(
            "insert into ops.relations (relation_name, model, content_key, kind, run_id, "
            "lease_name, fence, state, row_count, columns) "
            "values (%s, %s, %s, %s, 'r', 'l', 1, 'adopted', 0, %s)",
            [relation, model, key, kind, Jsonb(columns)],
        )


class Forgetful(Judging):
    """A gate without a memory: everything is due, and all of it."""

    def _find_bases(self, rules: Any, accepted: Any) -> None: ...


def make_shelf(warehouse: Warehouse, runner: psycopg.Connection, folder: Path) -> Shelf:
    lease = try_acquire(runner, build_lease(PIPELINE))
    assert lease is not None
    owner = warehouse.connect(autocommit=True)
    # Nobody extends it while a test works.
    owner.execute("update ops.leases set expires_at = clock_timestamp() + interval '1 day'")
    suites = folder / "expectations" / "suites"
    suites.mkdir(parents=True, exist_ok=True)
    builder = warehouse.connect(Role.TRANSFORMER, autocommit=True)
    return Shelf(warehouse, runner, owner, builder, suites, lease)


def run_of(run_id: str, as_of: datetime = NOON) -> Run:
    return Run(
        run_id=RunId(run_id),
        pipeline=PIPELINE,
        trigger_kind=TriggerKind.MANUAL,
        trigger_key="k",
        code_id="c",
        code_commit=None,
        code_dirty=None,
        publish=True,
        as_of=as_of,
        correlation_id="c",
        workflow_id="w",
        status="running",
        outcome=None,
        version_id=None,
    )
