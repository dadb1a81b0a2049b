"""What someone asks for: a pipeline, a trigger and some partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingestion.partitions import Partition
from orchestration.model import StageName, TriggerKind


@dataclass(frozen=True)
class RunRequest:
    """A request to bring partitions of a pipeline to publication.

    `days` are the windows of resources kept by day (`2013-01-01`, …). `trigger_key` is None for a
    manual request: then it follows from the days. With `refresh` everything is fetched again, under
    a new revision. `fetch_snapshots` asks for a new revision of the small whole tables too.
    `revisions` asks for exactly these partitions instead of days, under a `trigger_key`;
    `stop_after` ends the run before anything is built. `windows` asks for exactly these windows of
    (resource, window) instead of days, and says of each whether it is fetched anew; snapshots that
    are there already come with them.
    """

    pipeline: str
    days: Sequence[str]
    trigger_kind: TriggerKind = TriggerKind.MANUAL
    trigger_key: str | None = None
    refresh: bool = False
    fetch_snapshots: bool = False
    publish: bool = True
    revisions: Sequence[Partition] = ()
    windows: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    stop_after: StageName | None = None
    as_of: datetime | None = None
    correlation_id: str | None = None
    workflow_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        days = sorted(self.days)
        exact = {
            "revisions": [str(item) for item in self.revisions],
            "windows": [
                {"resource": resource, "window": window, "anew": anew}
                for (resource, window), anew in sorted(self.windows.items())
            ],
            "stop_after": self.stop_after,
        }
        return {name: value for name, value in exact.items() if value} | {
            "days": {"first": days[0], "last": days[-1], "count": len(days)} if days else None,
            "refresh": self.refresh,
            "fetch_snapshots": self.fetch_snapshots,
            "publish": self.publish,
        }
