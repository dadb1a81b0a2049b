"""Random warehouses as facts, for tests of the retention plan; small, so that everything meets."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.facts import (
    ArtifactFact,
    CheckpointFact,
    ManifestFact,
    PipelineFacts,
    QuarantineFact,
    RelationFact,
    RunFact,
    StoreFacts,
    VersionFact,
)

NOW = datetime(2024, 6, 1, tzinfo=UTC)
RUNS = [f"r_{number}" for number in range(5)]
ARTIFACTS = [f"a_{number}" for number in range(8)]
MANIFESTS = [f"m_{number}" for number in range(4)]
VERSIONS = [f"v_{number}" for number in range(6)]
RELATIONS = [f"rel_{number}" for number in range(8)]
WINDOWS = [("s.days", "2024-01-01"), ("s.days", "2024-01-02"), ("s.whole", "snapshot")]
STATES = ["candidate", "passed", "held", "retired", "rejected"]

ages = st.sampled_from([0, 1, 20, 200]).map(lambda days: NOW - timedelta(days=days, hours=1))
policies = st.builds(
    Retention,
    previous_versions=st.integers(0, 3),
    candidate_days=st.sampled_from([0, 14]),
    run_days=st.sampled_from([1, 90]),
    quarantine_days=st.sampled_from([0, 90]),
)


def subsets(names: list[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), max_size=4) if names else st.just(frozenset())


@st.composite
def pipelines(draw: st.DrawFn) -> PipelineFacts:
    """A pipeline whose rows refer to each other as the foreign keys demand."""
    artifacts = draw(st.lists(st.sampled_from(ARTIFACTS), unique=True))
    windows = {name: draw(st.sampled_from(WINDOWS)) for name in artifacts}
    manifests = draw(st.lists(st.sampled_from(MANIFESTS), unique=True, min_size=1))
    versions = draw(st.lists(st.sampled_from(VERSIONS), unique=True))
    published = draw(st.sampled_from([None, *versions]))
    return PipelineFacts(
        pipeline="p",
        now=NOW,
        published=published,
        rollback_to=draw(st.sampled_from([None, *VERSIONS])),
        versions=tuple(_version(draw, name, manifests, published) for name in versions),
        runs=tuple(
            _run(draw, name, artifacts)
            for name in draw(st.lists(st.sampled_from(RUNS), unique=True))
        ),
        manifests=tuple(
            ManifestFact(
                manifest_id=name,
                run_id=draw(st.sampled_from(RUNS)),
                artifacts=draw(subsets(artifacts)),
            )
            for name in manifests
        ),
        artifacts=tuple(
            ArtifactFact(
                artifact_id=name,
                window=windows[name],
                # One adopted artifact for each revision of a window.
                revision=number + 1,
                # Some are retries of what was fetched before.
                source_revision=draw(st.sampled_from([number + 1, max(1, number)])),
                state=(state := draw(st.sampled_from(["adopted"] * 3 + ["loading", "abandoned"]))),
                accepted=state == "adopted" and draw(st.booleans()),
                created_at=draw(ages),
            )
            for number, name in enumerate(artifacts)
        ),
        checkpoints=tuple(
            CheckpointFact(
                key=f"k_{number}",
                run_id=draw(st.sampled_from(RUNS)),
                output=draw(subsets([*artifacts, *versions])),
            )
            for number in range(draw(st.integers(0, 4)))
        ),
        quarantine=tuple(
            QuarantineFact(
                kind="record",
                number=number,
                artifact_id=draw(st.sampled_from(ARTIFACTS)),
                decided_at=draw(st.none() | ages),
            )
            for number in range(draw(st.integers(0, 3)))
        ),
    )


def _version(
    draw: st.DrawFn, name: str, manifests: list[str], published: str | None
) -> VersionFact:
    state = "published" if name == published else draw(st.sampled_from(STATES))
    once = state in {"published", "retired"}
    return VersionFact(
        version_id=name,
        pipeline="p",
        state=state,
        manifest_id=draw(st.sampled_from(manifests)),
        run_id=draw(st.sampled_from(RUNS)),
        created_at=draw(ages),
        publication=VERSIONS.index(name) * 7 % 5 if once else None,
        pinned=draw(st.booleans()) and draw(st.booleans()),
        has_schema=draw(st.booleans()),
    )


def _run(draw: st.DrawFn, name: str, artifacts: list[str]) -> RunFact:
    is_open = draw(st.booleans()) and draw(st.booleans())
    return RunFact(
        run_id=name,
        accepted_at=draw(ages),
        ended_at=None if is_open else draw(ages),
        is_open=is_open,
        may_resume=draw(st.booleans()),
        version_id=draw(st.none() | st.sampled_from(VERSIONS)),
        partitions=draw(
            st.frozensets(st.tuples(st.sampled_from(WINDOWS), st.integers(1, 8)), max_size=2)
        ),
        artifacts=draw(subsets(artifacts)),
    )


@st.composite
def stores(draw: st.DrawFn) -> StoreFacts:
    """A store in which relations stand only on older ones."""
    names = draw(st.lists(st.sampled_from(RELATIONS), unique=True))
    return StoreFacts(
        now=NOW,
        versions={
            version: draw(subsets(names))
            for version in draw(st.lists(st.sampled_from(VERSIONS), unique=True))
        },
        slots=draw(subsets(names)),
        open_runs=draw(subsets(RUNS)),
        relations=tuple(
            RelationFact(
                name=name,
                model="m",
                kind=draw(st.sampled_from(["table", "view"])) if number else "table",
                state=draw(st.sampled_from(["adopted"] * 4 + ["loading", "abandoned"])),
                run_id=draw(st.sampled_from([*RUNS, "r_old", "r_old", "r_old"])),
                created_at=draw(ages),
                exists=draw(st.booleans()),
                order=number,
                reads=draw(subsets(names[:number])),
                readers=("dev.view",) if draw(st.integers(0, 9)) == 0 else (),
            )
            for number, name in enumerate(names)
        ),
    )
