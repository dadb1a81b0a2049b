"""A real receiver of alerts: an HTTP server that keeps what it is told."""

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class Receiver:
    """`told` are the messages of a path, in order; `status` is what it answers."""

    status: int = 200
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def route(self, path: str) -> str:
        return f"json://127.0.0.1:{self._server.server_port}/{path}"

    @property
    def keys(self) -> Counter[str]:
        """How often each key was told."""
        return Counter(self.fact(message, "Key") for _, message in self.told)

    @property
    def titles(self) -> list[tuple[str, str]]:
        """(path, title) of each message."""
        return [(path, str(message["title"])) for path, message in self.told]

    @staticmethod
    def fact(message: dict[str, Any], name: str) -> str:
        """One line of the message's text."""
        lines = dict(line.partition(": ")[::2] for line in message["message"].splitlines())
        return lines[name]

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if receiver.status == 200:
                    receiver.told.append((self.path.strip("/"), body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

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
