"""A real receiver of alerts: an HTTP server that keeps what it is told."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from http_service import HttpService


@dataclass
class Receiver(HttpService):
    """`told` are the messages of a path, in order; `status` is what it answers."""

    status: int = 200
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def route(self, path: str) -> str:
        return f"json://{self.address}/{path}"

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

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.status == 200:
            self.told.append((path.strip("/"), body))
        return self.status, {}
