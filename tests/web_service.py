"""`sluice serve` as a process of its own, and a sender who signs what it sends there."""

import base64
import json
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import httpx
from harness import Sluice
from standardwebhooks import Webhook

PASSWORD = "a long password for tests"
TOKEN = "a token for scrapes"


def secret(name: str) -> str:
    """A secret of a sender, as both sides are given it."""
    return "whsec_" + base64.b64encode(name.encode().ljust(24, b".")).decode()


SECRET = secret("current")
READY = {
    "type": "partitions.ready",
    "timestamp": "2013-02-02T06:00:00Z",
    "data": {"resource": "flights.flights", "days": ["2013-02-01"]},
}


def message(
    resource: str = "flights.flights", *days: str, kind: str = "partitions.ready"
) -> dict[str, Any]:
    data: dict[str, Any] = {"resource": resource}
    if days:
        data["days"] = list(days)
    return {"type": kind, "timestamp": "2013-02-02T06:00:00Z", "data": data}


def signed(
    body: bytes, message_id: str, *, key: str = SECRET, moment: float | None = None
) -> dict[str, str]:
    """The headers that Standard Webhooks asks for."""
    at = int(time.time() if moment is None else moment)
    signature = Webhook(key).sign(message_id, datetime.fromtimestamp(at, UTC), body.decode())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature,
        "content-type": "application/json",
    }


@dataclass
class WebService:
    """Running while the context lasts; `client` follows no redirects."""

    sluice: Sluice
    extra: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.sluice.extra |= {
            "SLUICE_CONSOLE_PASSWORD": PASSWORD,
            "SLUICE_METRICS_TOKEN": TOKEN,
            "SLUICE_WEBHOOK_SECRETS_FLIGHTS": SECRET,
        } | self.extra
        with (self.sluice.home / "serve.log").open("w") as log:
            self.process = subprocess.Popen(
                self.sluice.command("serve", "--port", "0", "--json"),
                env=self.sluice.environment,
                cwd=self.sluice.home,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                break
        assert lines, self.log
        self.url = json.loads("".join(lines))["url"]
        self.client = httpx.Client(base_url=self.url, timeout=30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()

    @property
    def log(self) -> str:
        return (self.sluice.home / "serve.log").read_text()

    def send(
        self, event: Any, message_id: str = "msg_1", *, source: str = "flights", **sign: Any
    ) -> httpx.Response:
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        return self.client.post(
            f"/webhooks/{source}", content=body, headers=signed(body, message_id, **sign)
        )

    def log_in(self) -> None:
        """The client's cookies open the pages from now on."""
        answer = self.client.post("/login", data={"password": PASSWORD})
        assert answer.status_code == 303
