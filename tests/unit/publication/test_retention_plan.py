"""The plan of a prune: nothing that is needed is in it, and everything else is."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from retention_worlds import NOW, VERSIONS, pipelines, policies, stores

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.facts import (
    ArtifactFact,
    PipelineFacts,
    RelationFact,
    RunFact,
    StoreFacts,
    VersionFact,
)
from orchestration.publication.retention.needs import Reason
from orchestration.publication.retention.plan import (
    PipelinePlan,
    StorePlan,
    plan_pipeline,
    plan_store,
)


def days_ago(count: float) -> datetime:
    return NOW - timedelta(days=count)


def is_over(run: RunFact, policy: Retention) -> bool:
    """Nobody drives it, and nobody can go on with it any more."""
    if run.is_open:
        return False
    return not run.may_resume or run.ended_at <= days_ago(policy.run_days)  # type: ignore[operator]


def version_is_needed(version: VersionFact, facts: PipelineFacts, policy: Retention) -> bool:
    """Said in other words than the code: by counting who comes before, and run by run."""
    if version.state in {"published", "held"} or version.pinned:
        return True
    if version.version_id == facts.rollback_to:
        return True
    if version.state == "retired":
        later = [
            other
            for other in facts.versions
            if other.state == "retired"
            and (other.publication, other.version_id) > (version.publication, version.version_id)  # type: ignore[operator]
        ]
        if len(later) < policy.previous_versions:
            return True
    elif version.created_at > days_ago(policy.candidate_days):
        return True
    going_on = [run for run in facts.runs if not is_over(run, policy)]
    return any(
        version.version_id == run.version_id or version.run_id == run.run_id for run in going_on
    )


def artifact_is_needed(
    artifact: ArtifactFact, facts: PipelineFacts, policy: Retention, versions: set[str]
) -> bool:
    going_on = {run.run_id for run in facts.runs if not is_over(run, policy)}
    for manifest in facts.manifests:
        has_it = artifact.artifact_id in manifest.artifacts
        is_kept = manifest.run_id in going_on or any(
            version.manifest_id == manifest.manifest_id and version.version_id in versions
            for version in facts.versions
        )
        if has_it and is_kept:
            return True
    for run in facts.runs:
        if run.run_id in going_on and (artifact.window, artifact.revision) in run.partitions:
            return True
    rivals = [
        other
        for other in facts.artifacts
        if other.state == "adopted"
        and other.window == artifact.window
        and other.revision > artifact.revision
    ]
    return not rivals or (artifact.accepted and not any(other.accepted for other in rivals))


@given(facts=pipelines(), policy=policies)
def test_of_a_pipeline_what_is_needed_stays_and_everything_else_goes(
    facts: PipelineFacts, policy: Retention
) -> None:
    plan = plan_pipeline(facts, policy)
    gone = {version.version_id for version in plan.versions}
    needed = {
        version.version_id
        for version in facts.versions
        if version_is_needed(version, facts, policy)
    }
    assert gone == {version.version_id for version in facts.versions} - needed
    assert plan.kept.keys() == needed

    adopted = [item for item in facts.artifacts if item.state == "adopted"]
    assert {item.artifact_id for item in plan.artifacts} == {
        item.artifact_id for item in adopted if not artifact_is_needed(item, facts, policy, needed)
    }
    for version in facts.versions:
        assert (version.manifest_id in plan.manifests) <= (version.version_id in gone)
    for manifest in facts.manifests:
        is_kept = manifest.manifest_id not in plan.manifests
        lost = {item.artifact_id for item in plan.artifacts} & manifest.artifacts
        assert not (is_kept and lost)


@given(facts=pipelines(), policy=policies)
def test_runs_are_forgotten_when_they_are_old_over_and_made_nothing_that_is_kept(
    facts: PipelineFacts, policy: Retention
) -> None:
    plan = plan_pipeline(facts, policy)
    makers = {version.run_id for version in facts.versions if version.version_id in plan.kept}
    for run in facts.runs:
        is_latest = run.accepted_at == max(other.accepted_at for other in facts.runs)
        is_young = run.ended_at is None or run.ended_at > days_ago(policy.run_days)
        if is_young or not is_over(run, policy) or run.run_id in makers:
            assert run.run_id not in plan.runs
        elif not is_latest:
            assert run.run_id in plan.runs
    assert len(plan.runs) < len(facts.runs) or not facts.runs


@given(facts=pipelines(), policy=policies)
def test_held_quarantine_stays_and_so_do_checkpoints_of_what_is_kept(
    facts: PipelineFacts, policy: Retention
) -> None:
    plan = plan_pipeline(facts, policy)
    for entry in facts.quarantine:
        is_old = entry.decided_at is not None and entry.decided_at <= days_ago(
            policy.quarantine_days
        )
        assert (entry in plan.quarantine) == is_old
    gone = {item.artifact_id for item in plan.artifacts}
    kept = {
        item.artifact_id
        for item in facts.artifacts
        if item.state == "adopted" and item.artifact_id not in gone
    }
    known_runs = {run.run_id for run in facts.runs} - set(plan.runs)
    for checkpoint in facts.checkpoints:
        tells_of_something = checkpoint.output & (kept | plan.kept.keys())
        goes = checkpoint.run_id not in known_runs and not tells_of_something
        assert (checkpoint.key in plan.checkpoints) == goes


@given(facts=pipelines(), policy=policies)
def test_no_line_is_left_of_an_artifact_only_when_nothing_tells_of_it(
    facts: PipelineFacts, policy: Retention
) -> None:
    plan = plan_pipeline(facts, policy)
    without_rows = {item.artifact_id for item in plan.artifacts} | {
        item.artifact_id
        for item in facts.artifacts
        if item.state == "abandoned" and item.created_at < days_ago(7)
    }
    told = {name for run in facts.runs if run.run_id not in plan.runs for name in run.artifacts} | {
        entry.artifact_id for entry in facts.quarantine
    }
    assert {item.artifact_id for item in plan.forgotten_artifacts} == without_rows - told


@given(facts=pipelines(), policy=policies)
def test_what_a_dead_prune_had_marked_loses_its_rows(
    facts: PipelineFacts, policy: Retention
) -> None:
    marked = after(facts, plan_pipeline(facts, policy))
    plan = plan_pipeline(marked, policy)
    assert set(plan.marked) == {item for item in marked.artifacts if item.state == "dropped"}
    emptied = replace(
        marked, artifacts=tuple(replace(item, is_empty=True) for item in marked.artifacts)
    )
    assert plan_pipeline(emptied, policy).marked == ()


def after(facts: PipelineFacts, plan: PipelinePlan) -> PipelineFacts:
    """The facts once the plan was carried out."""
    dropped = {item.artifact_id for item in plan.artifacts}
    forgotten = {item.artifact_id for item in plan.forgotten_artifacts}
    return replace(
        facts,
        versions=tuple(item for item in facts.versions if item not in plan.versions),
        runs=tuple(item for item in facts.runs if item.run_id not in plan.runs),
        manifests=tuple(item for item in facts.manifests if item.manifest_id not in plan.manifests),
        artifacts=tuple(
            replace(item, state="dropped", accepted=False) if item.artifact_id in dropped else item
            for item in facts.artifacts
            if item.artifact_id not in forgotten
        ),
        checkpoints=tuple(item for item in facts.checkpoints if item.key not in plan.checkpoints),
        # What it held is erased; the decision stays.
        quarantine=tuple(
            replace(item, decided_at=None) if item in plan.quarantine else item
            for item in facts.quarantine
        ),
    )


@given(facts=pipelines(), policy=policies)
def test_a_second_prune_drops_no_version_manifest_artifact_or_run(
    facts: PipelineFacts, policy: Retention
) -> None:
    again = plan_pipeline(after(facts, plan_pipeline(facts, policy)), policy)
    assert not again.versions
    assert not again.manifests
    assert not again.artifacts
    assert not again.runs
    assert not again.quarantine
    assert not again.forgotten_artifacts


def relation_is_needed(
    relation: RelationFact, facts: StoreFacts, dropped: frozenset[str], *, with_readers: bool = True
) -> bool:
    """By looking upwards: somebody stands on it, directly or through others."""
    if relation.state == "loading" or relation.run_id in facts.open_runs:
        return True
    if relation.name in facts.slots or (with_readers and relation.readers):
        return True
    if any(
        relation.name in names
        for version, names in facts.versions.items()
        if version not in dropped
    ):
        return True
    return any(
        relation_is_needed(upper, facts, dropped, with_readers=with_readers)
        for upper in facts.relations
        if relation.name in upper.reads
    )


@given(facts=stores(), dropped=st.frozensets(st.sampled_from(VERSIONS)))
def test_of_the_store_what_is_needed_stays_and_everything_else_goes(
    facts: StoreFacts, dropped: frozenset[str]
) -> None:
    plan = plan_store(facts, dropped)
    going = {
        item.name
        for item in facts.relations
        if item.state == "adopted" and not relation_is_needed(item, facts, dropped)
    }
    assert {item.name for item in plan.relations} == going
    assert {item.name for item in plan.in_use} == {
        item.name
        for item in facts.relations
        if item.state == "adopted"
        and item.name not in going
        and not relation_is_needed(item, facts, dropped, with_readers=False)
    }


@given(facts=stores())
def test_views_go_before_tables_and_younger_ones_before_older(facts: StoreFacts) -> None:
    plan: StorePlan = plan_store(facts, facts.versions)
    order = [(item.kind == "table", -item.order) for item in plan.relations]
    assert order == sorted(order)


def test_the_reason_that_is_told_is_the_strongest() -> None:
    version = VersionFact(
        version_id="v_1",
        pipeline="p",
        state="published",
        manifest_id="m_1",
        run_id="r_1",
        created_at=NOW,
        publication=1,
        pinned=True,
    )
    facts = PipelineFacts(pipeline="p", now=NOW, published="v_1", versions=(version,))
    assert plan_pipeline(facts, Retention()).kept == {"v_1": Reason.PUBLISHED}
    pinned = replace(facts, published=None, versions=(replace(version, state="retired"),))
    assert plan_pipeline(pinned, Retention()).kept == {"v_1": Reason.PINNED}
