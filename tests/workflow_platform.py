"""A stand-in for the workflow platform: it speaks the worker's protocol over unix sockets.

Each attempt at a task is a new process of the real worker with a socket of its own. An attempt that
ends with an error, or without a callback, is repeated as often as the task was registered for.
"""

import base64
import itertools
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from harness import CHECKOUT, Sluice
from sabotage import Sabotage
from warm import WarmSluice

_APP = "orchestration.workflow:app"
# A second of the platform's waits before it repeats a task takes so many of these.
_PACE = 0.002


@dataclass
class Attempt:
    """One process that works on a task; `callback` is what it reported."""

    task: str
    inputs: list[Any]
    number: int
    task_run_id: str
    pid: int | None = None
    callback: dict[str, Any] | None = None

    def kill(self) -> None:
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)

    @property
    def result(self) -> Any:
        assert self.callback is not None, f"{self.task} ended without a callback"
        return output_of(self.callback)


@dataclass
class Platform:
    """`strike(attempt)` names the failures inside an attempt's process; needs a warm Sluice.

    `hears(attempt)`: whether its callback arrives. `on_subtask(parent, task)` is called when an attempt
    has started another task. `command` and `environment` are what starts a cold worker.
    """

    sluice: Sluice
    command: str = f"render-workflows {_APP}"
    environment: dict[str, str] | None = None
    strike: Callable[[Attempt], tuple[Sabotage, ...]] = lambda _: ()
    hears: Callable[[Attempt], bool] = lambda _: True
    on_subtask: Callable[[Attempt, str], None] = lambda *_: None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._guard = threading.Lock()
        self._started: dict[str, str] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._threads: list[threading.Thread] = []

    def register(self) -> dict[str, dict[str, Any]]:
        """The tasks that the worker registers, with their options."""
        _Server(self, Attempt("", [], 1, "")).work("register")
        return self.options

    def run(self, task: str, *inputs: object) -> Any:
        """Starts a task as from outside; its result, once all that it started has ended too."""
        if not self.options:
            self.register()
        callback = self.wait(self.start(task, list(inputs)))
        for thread in self._threads:
            thread.join()
        assert "complete" in callback, callback
        return output_of(callback)

    def start(self, task: str, inputs: list[Any]) -> str:
        task_run_id = f"trn-{next(self._ids)}"
        thread = threading.Thread(
            target=self._bring_to_end, args=(task, inputs, task_run_id), daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return task_run_id

    def start_once(self, order: dict[str, Any], parent: Attempt) -> str:
        """A subtask; the same order again, because its answer took long, starts nothing."""
        with self._guard:
            key, task = order["idempotency_key"], order["task_name"]
            if key in self._started:
                return self._started[key]
            self._started[key] = self.start(task, json.loads(base64.b64decode(order["input"])))
        self.on_subtask(parent, task)
        return self._started[key]

    def wait(self, task_run_id: str) -> dict[str, Any]:
        while (callback := self.ended(task_run_id)) is None:
            time.sleep(0.02)
        return callback

    def ended(self, task_run_id: str) -> dict[str, Any] | None:
        return self._ended.get(task_run_id)

    def _bring_to_end(self, task: str, inputs: list[Any], task_run_id: str) -> None:
        retry = self.options[task]["retry"]
        wait_s = retry["wait_duration_ms"] / 1000 * _PACE
        callback: dict[str, Any] = {}
        for number in range(1, retry["max_retries"] + 2):
            attempt = Attempt(task, inputs, number, task_run_id)
            self.attempts.append(attempt)
            _Server(self, attempt).work("run")
            callback = attempt.callback or {"error": {"details": "the process ended"}}
            if "complete" in callback:
                break
            time.sleep(wait_s)
            wait_s *= retry["factor"]
        self._ended[task_run_id] = callback


@dataclass
class _Server:
    """What one process of the worker talks to."""

    platform: Platform
    attempt: Attempt

    def work(self, mode: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="worker-"))
        socket = folder / "sock"
        (folder / "outputs").mkdir()
        with socketserver.ThreadingUnixStreamServer(str(socket), self._handler()) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            names = {"RENDER_SDK_MODE": mode, "RENDER_SDK_SOCKET_PATH": str(socket)}
            sluice = self.platform.sluice
            if isinstance(sluice, WarmSluice):
                sluice = replace(sluice, extra={**sluice.extra, **names})
                self._fork(sluice, folder / "outputs")
            else:
                self._spawn(names, check=mode == "register")
            server.shutdown()
            thread.join()
        shutil.rmtree(folder)

    def _spawn(self, names: dict[str, str], *, check: bool) -> None:
        platform = self.platform
        process = subprocess.Popen(
            ["bash", "-c", platform.command],
            env={
                **os.environ,
                **(platform.environment or platform.sluice.environment),
                **names,
                # Where the commands of this installation are, whatever else says where to look.
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            cwd=platform.sluice.project,
        )
        self.attempt.pid = process.pid
        try:
            # As long as a test may take.
            code = process.wait(timeout=900)
        finally:
            process.kill()
        assert code == 0 or not check

    def _fork(self, sluice: WarmSluice, outputs: Path) -> None:
        strike = self.platform.strike(self.attempt)
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(
                sluice.process.run_in, str(outputs), (_APP,), sluice, strike, "render-workflows"
            )
            pid = outputs / "pid"
            while not done.done() and not (pid.exists() and pid.read_text()):
                time.sleep(0.005)
            self.attempt.pid = int(pid.read_text())
        ended = done.result()
        if self.attempt.callback is None and ended.returncode >= 0:
            print(self.attempt.task, ended.stderr[-2000:])

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        platform, attempt = self.platform, self.attempt
        match path:
            case "/input":
                return {
                    "task_name": attempt.task,
                    "input": _encoded(attempt.inputs),
                    "task_run_id": attempt.task_run_id,
                    "root_task_run_id": "trn-1",
                    "parent_task_run_id": "",
                }
            case "/register-tasks":
                platform.options.update((task["name"], task["options"]) for task in body["tasks"])
            case "/run-subtask":
                return {"task_run_id": platform.start_once(body, attempt)}
            case "/get-subtask-result":
                callback = platform.ended(body["task_run_id"])
                return {"still_running": callback is None, **(callback or {})}
            case "/callback":
                if platform.hears(attempt):
                    attempt.callback = body
        return {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _reply(self, body: dict[str, Any]) -> None:
                content = json.dumps(answer(self.path.partition("?")[0], body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def address_string(self) -> str:
                return "worker"

            def log_message(self, *_: object) -> None:
                return None

        return Handler


def _encoded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def output_of(callback: dict[str, Any]) -> Any:
    """The task's result, decoded."""
    [value] = json.loads(base64.b64decode(callback["complete"]["output"]))
    return value


def with_tasks(sluice: Sluice, folder: Path, policy: str) -> Sluice:
    """The same with `tasks: policy` in its pipeline file; the rest of the project is the checkout's."""
    pipelines = folder / "orchestration" / "pipelines"
    pipelines.mkdir(parents=True)
    for source, target in (
        (CHECKOUT, folder),
        (CHECKOUT / "orchestration", folder / "orchestration"),
        (CHECKOUT / "orchestration" / "pipelines", pipelines),
    ):
        for item in source.iterdir():
            if not item.name.startswith(".") and not (target / item.name).exists():
                (target / item.name).symlink_to(item)
    declared = (pipelines / "flights.yml").read_text("utf-8")
    (pipelines / "flights.yml").unlink()
    (pipelines / "flights.yml").write_text(f"{declared}\ntasks: {policy}\n", "utf-8")
    return replace(sluice, extra={**sluice.extra, "SLUICE_PROJECT_DIR": str(folder)})
