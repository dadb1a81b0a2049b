"""A stand-in for the workflow platform: it speaks the worker's protocol over a unix socket."""

import base64
import json
import os
import socketserver
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass
class Platform:
    """Starts one process of the real worker for each attempt and keeps what it reports."""

    folder: Path
    environment: dict[str, str]
    command: str = "render-workflows orchestration.workflow:app"
    project: Path = CHECKOUT
    tasks: list[dict[str, Any]] = field(default_factory=list)
    callbacks: list[dict[str, Any]] = field(default_factory=list)
    order: dict[str, Any] = field(default_factory=dict)

    def register(self) -> list[dict[str, Any]]:
        self._work("register")
        return self.tasks

    def run(self, task: str, *inputs: object) -> dict[str, Any]:
        """One attempt; returns the callback, raises when the worker ended without one."""
        self.order = {
            "task_name": task,
            "input": base64.b64encode(json.dumps(inputs).encode()).decode(),
            "task_run_id": "trn-1",
            "root_task_run_id": "trn-1",
            "parent_task_run_id": "",
        }
        before = len(self.callbacks)
        self._work("run")
        assert len(self.callbacks) == before + 1, "the worker ended without a callback"
        return self.callbacks[-1]

    def _work(self, mode: str) -> None:
        socket = self.folder / "worker.sock"
        socket.unlink(missing_ok=True)
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(platform.order)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.startswith("/register-tasks"):
                    platform.tasks.extend(body["tasks"])
                elif self.path.startswith("/callback"):
                    platform.callbacks.append(body)
                self._answer({})

            def _answer(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "worker"

            def log_message(self, *_: object) -> None:
                return None

        with socketserver.ThreadingUnixStreamServer(str(socket), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            subprocess.run(
                ["bash", "-c", self.command],
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    **self.environment,
                    "RENDER_SDK_MODE": mode,
                    "RENDER_SDK_SOCKET_PATH": str(socket),
                },
                cwd=self.project,
                check=mode == "register",
                timeout=240,
            )
            server.shutdown()
            thread.join()


def output_of(callback: dict[str, Any]) -> Any:
    """The task's result, decoded."""
    [value] = json.loads(base64.b64decode(callback["complete"]["output"]))
    return value
