"""What must stay, and why. Pure functions over facts; a reason is a sentence for people.

Everything follows from a few roots: what is published, pinned, held, asked for by the policy, or
needed by a run that is not over; and for every window what a new run would start from.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.facts import (
    ArtifactFact,
    PipelineFacts,
    RelationFact,
    StoreFacts,
    VersionFact,
    Window,
)


class Reason(StrEnum):
    """Why a version is kept; of several the first one that holds."""

    PUBLISHED = "it is published"
    PINNED = "it is pinned"
    HELD = "it waits for a decision"
    ROLLBACK = "a rollback goes there"
    PREVIOUS = "one of the previous versions"
    OPEN_RUN = "a run that is not over needs it"
    RECENT = "it is a recent candidate"


def open_runs(facts: PipelineFacts, policy: Retention) -> set[str]:
    """Runs that go on or may be resumed; a failed one for as long as runs are kept."""
    oldest = facts.now - timedelta(days=policy.run_days)
    return {
        run.run_id
        for run in facts.runs
        if run.is_open or (run.may_resume and (run.ended_at is None or run.ended_at > oldest))
    }


def kept_versions(facts: PipelineFacts, policy: Retention) -> dict[str, Reason]:
    """version → why it is kept."""
    running = open_runs(facts, policy)
    brought = {run.version_id for run in facts.runs if run.run_id in running}
    previous = _previous(facts, policy.previous_versions)
    youngest = facts.now - timedelta(days=policy.candidate_days)
    kept = {}
    for version in facts.versions:
        is_candidate = version.state in {"candidate", "passed", "rejected"}
        reasons = {
            Reason.PUBLISHED: version.version_id == facts.published or version.state == "published",
            Reason.PINNED: version.pinned,
            Reason.HELD: version.state == "held",
            Reason.ROLLBACK: version.version_id == facts.rollback_to,
            Reason.PREVIOUS: version.version_id in previous,
            Reason.OPEN_RUN: version.run_id in running or version.version_id in brought,
            Reason.RECENT: is_candidate and version.created_at > youngest,
        }
        because = next((reason for reason, holds in reasons.items() if holds), None)
        if because is not None:
            kept[version.version_id] = because
    return kept


def needs_schema(version: VersionFact) -> bool:
    """Whether schema v_<id> has readers: a gate, a reviewer, or whoever pinned the version."""
    return version.pinned or version.state in {"candidate", "held", "rejected"}


def needed_manifests(
    facts: PipelineFacts, versions: Collection[str], running: Collection[str]
) -> set[str]:
    """Those of kept versions and of open runs."""
    of_versions = {item.manifest_id for item in facts.versions if item.version_id in versions}
    return of_versions | {item.manifest_id for item in facts.manifests if item.run_id in running}


def needed_artifacts(
    facts: PipelineFacts, manifests: Collection[str], running: Collection[str]
) -> set[str]:
    """Those that a kept manifest or an open run has, and the newest ones of every window.

    The newest accepted one is what a new run starts from, the newest of all what it asks for. What was
    fetched later is newer than any retry of what was fetched before.
    """
    needed = set().union(
        *(item.artifacts for item in facts.manifests if item.manifest_id in manifests)
    )
    asked = set().union(*(run.partitions for run in facts.runs if run.run_id in running))
    adopted = [item for item in facts.artifacts if item.state == "adopted"]
    needed |= {item.artifact_id for item in adopted if (item.window, item.revision) in asked}
    newest = _newest(adopted)
    accepted = _newest(item for item in adopted if item.accepted)
    return needed | {item.artifact_id for item in (*newest.values(), *accepted.values())}


def kept_runs(
    facts: PipelineFacts, policy: Retention, versions: Collection[str], running: Collection[str]
) -> set[str]:
    """Open ones, young ones, those that made a kept version, and the latest."""
    oldest = facts.now - timedelta(days=policy.run_days)
    makers = {item.run_id for item in facts.versions if item.version_id in versions}
    latest = max(facts.runs, key=lambda run: run.accepted_at, default=None)
    return {
        run.run_id
        for run in facts.runs
        if run.run_id in running
        or run.run_id in makers
        or run is latest
        or run.ended_at is None
        or run.ended_at > oldest
    }


def needed_relations(facts: StoreFacts, dropped_versions: Collection[str]) -> set[str]:
    """Relations of versions, slots and open runs, those that others read, and all below these."""
    roots = set(facts.slots).union(
        *(names for version, names in facts.versions.items() if version not in dropped_versions)
    )
    by_name = {item.name: item for item in facts.relations}
    roots |= {
        item.name
        for item in facts.relations
        if item.state == "loading" or item.readers or item.run_id in facts.open_runs
    }
    return _with_all_below(roots, by_name)


def _with_all_below(roots: Iterable[str], by_name: Mapping[str, RelationFact]) -> set[str]:
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(by_name[name].reads if name in by_name else ())
    return needed


def _previous(facts: PipelineFacts, count: int) -> set[str]:
    others = [
        (version.publication, version.version_id)
        for version in facts.versions
        if version.publication is not None and version.state == "retired"
    ]
    return {version for _, version in sorted(others, reverse=True)[:count]}


def _newest(artifacts: Iterable[ArtifactFact]) -> dict[Window, ArtifactFact]:
    newest: dict[Window, ArtifactFact] = {}
    for item in artifacts:
        if item.window not in newest or _rank(item) > _rank(newest[item.window]):
            newest[item.window] = item
    return newest


def _rank(item: ArtifactFact) -> tuple[int, int]:
    return item.source_revision, item.revision
