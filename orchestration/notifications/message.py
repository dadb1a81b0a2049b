"""What an owner is told, in plain text: what happened, its class, the run, a link, what to type.

Made of a row of the outbox alone. Nothing in it is a value of the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WHAT = {
    "published": "a new version is published",
    "rolled_back": "an earlier version is published again",
    "quarantined": "records were kept out of what is published",
    "degraded": "published without some partitions",
    "warned": "published although suites failed, as the pipeline says",
    "held": "held: readers see what they saw before",
    "failed": "failed: readers see what they saw before",
    "recovered": "published again after it had failed or was held",
}


@dataclass(frozen=True)
class Message:
    """A row of the outbox; `key` is the same however often it is told."""

    outbox_id: int
    kind: str
    owner: str
    key: str
    payload: Mapping[str, Any]
    pipeline: str
    run_id: str | None
    correlation_id: str | None

    @property
    def is_wanted(self) -> bool:
        """Whether the pipeline asked to be told; what it did not ask for only stands in the log."""
        return bool(self.payload.get("alert", True))

    @property
    def title(self) -> str:
        return f"{self.pipeline}: {_WHAT.get(self.kind, self.kind)}"

    def body(self, console_url: str | None) -> str:
        """One line a fact; the last one is the key by which a repeat is known."""
        facts = [*self._failure(), *self._counts(), *self._links(console_url)]
        facts.append(("Key", self.key))
        return "\n".join(f"{name}: {value}" for name, value in facts if value)

    def _failure(self) -> list[tuple[str, Any]]:
        payload = self.payload
        if "error_code" not in payload:
            return [("Version", payload.get("version_id")), ("Reason", payload.get("reason"))]
        passing = "may pass by itself" if payload.get("transient") else "needs somebody"
        return [
            ("Stage", payload.get("stage")),
            ("Class", f"{payload['kind']} ({payload['error_code']}), {passing}"),
            ("What", payload["message"]),
        ]

    def _counts(self) -> list[tuple[str, Any]]:
        rules = [
            f"{item['count']} {item['resource']} {item['rule']}"
            for item in self.payload.get("rules", [])
        ]
        return [
            ("Records kept out", "; ".join(rules)),
            ("Left out", ", ".join(self.payload.get("partitions", []))),
            ("Before", ", ".join(self.payload.get("after", []))),
        ]

    def _links(self, console_url: str | None) -> list[tuple[str, Any]]:
        if self.run_id is None:
            return []
        report = f"{console_url}/reports/{self.run_id}" if console_url else None
        return [
            ("Run", self.run_id),
            ("Request", self.correlation_id),
            ("Report", report or f"sluice report {self.run_id}"),
            ("Look", self.payload.get("look")),
            ("Next", self.payload.get("next") or f"sluice status {self.run_id}"),
        ]
