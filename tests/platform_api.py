"""A stand-in for the workflow platform's public API: it answers starts of tasks, or does not."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from http_service import HttpService


@dataclass
class PlatformApi(HttpService):
    """`starts` are the tasks that were started, each once for a key; `status` is what starts answer
    (202 starts), after `delay_s`."""

    status: int = 202
    delay_s: float = 0.0
    starts: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    _by_key: dict[str, str] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RENDER_LOCAL_DEV_URL": self.url,
            "RENDER_API_KEY": "a-key-of-the-platform",
            "SLUICE_WORKFLOW": "sluice-runs",
        }

    def inputs(self, task: str) -> list[Any]:
        """The inputs of the starts of one task, in order."""
        return [item["input"] for item in self.starts if item["task"] == f"sluice-runs/{task}"]

    def start(self, order: dict[str, Any]) -> str:
        with self._guard:
            key = order.get("idempotencyKey")
            if key is not None and key in self._by_key:
                return self._by_key[key]
            self.starts.append(order)
            name = f"trn-{len(self.starts)}"
            if key is not None:
                self._by_key[key] = name
            return name

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked += 1
        # Slow is not refused: what was asked for happens, and the answer is not waited for.
        name = self.start(body) if self.status == 202 else ""
        time.sleep(self.delay_s)
        if not name:
            return self.status, {"message": "no"}
        return self.status, {
            "id": name, "taskId": "tsk-1", "status": "pending", "parentTaskRunId": "",
            "rootTaskRunId": name, "retries": 0, "attempts": [],
        }  # fmt: skip
