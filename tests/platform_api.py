"""A stand-in for the workflow platform's public API: it answers starts of tasks, or does not."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class PlatformApi:
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
        return f"http://127.0.0.1:{self._server.server_port}"

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

    def __enter__(self) -> Self:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.asked += 1
                # Slow is not refused: what was asked for happens, and the answer is not waited for.
                name = api.start(order) if api.status == 202 else ""
                time.sleep(api.delay_s)
                answer = {
                    "id": name, "taskId": "tsk-1", "status": "pending", "parentTaskRunId": "",
                    "rootTaskRunId": name, "retries": 0, "attempts": [],
                } if name else {"message": "no"}  # fmt: skip
                body = json.dumps(answer).encode()
                try:
                    self.send_response(api.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
