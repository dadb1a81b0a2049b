"""Runs the service: on a bound socket for `python -m`, or on a thread of this process for tests.

Access logs are off and errors are silent: a fault that was asked for is not news.
"""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from ingestion.demo_api.app import create_app
from ingestion.demo_api.corrections import Change, Correction, Effect
from ingestion.demo_api.faults import ActiveFault, Fault, FaultRule
from ingestion.demo_api.resources import Record, Resource, Value
from ingestion.demo_api.state import ServiceState

# Guards invented faults on loopback only, so it may be known.
DEMO_TOKEN = "demo-token"  # noqa: S105  (published on purpose)
_START_SECONDS = 10.0


class Server(uvicorn.Server):
    """A uvicorn server that says when it has begun to answer."""

    on_started: Callable[[], None] | None = None

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, then call `on_started`."""
        await super().startup(sockets)
        if self.started and self.on_started is not None:
            self.on_started()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's delay on and each small answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


class DemoServer:
    """The service on a free loopback port, on a thread of this process, while the context lasts.

    Fields: `url` (no slash at the end), `token`. Raises RuntimeError when it does not start.
    """

    def __init__(self, token: str = DEMO_TOKEN, state_file: Path | None = None) -> None:
        self.token = token
        self.url = ""
        self._state = ServiceState(state_file)
        self._server = Server(create_app(token, state=self._state))
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        listener = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._thread = Thread(
            target=self._server.run, args=([listener],), name="demo-api", daemon=True
        )
        self._thread.start()
        deadline = monotonic() + _START_SECONDS
        while not self._server.started:
            if monotonic() > deadline or not self._thread.is_alive():
                listener.close()
                raise RuntimeError(
                    "the demo service did not start; run python -m ingestion.demo_api"
                )
            sleep(0.005)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=_START_SECONDS)

    def set_fault(self, fault: Fault | str, **parameters: object) -> int:
        """Put a fault into force and return its id; parameters are those of FaultRule.

        Dates and resources may be text. Raises pydantic.ValidationError.
        """
        rule = FaultRule.model_validate({"fault": fault, **parameters}, strict=False)
        return self._state.faults.add(rule).id

    def faults(self) -> Sequence[ActiveFault]:
        """Return the faults in force."""
        return self._state.faults.in_force()

    def correct(
        self,
        resource: Resource | str,
        date: object = None,
        *,
        changes: Sequence[tuple[dict[str, Value], dict[str, Value]]] = (),
        remove: Sequence[dict[str, Value]] = (),
        add: Sequence[Record] = (),
    ) -> Effect:
        """Correct a day's or a snapshot's content; each change is (match, fields to set).

        Raises pydantic.ValidationError or CorrectionRefusedError.
        """
        correction = Correction.model_validate(
            {
                "resource": resource,
                "date": date,
                "changes": [Change(match=match, set=fields) for match, fields in changes],
                "remove": list(remove),
                "add": list(add),
            },
            strict=False,
        )
        return self._state.correct(correction)

    def clear(self) -> None:
        """Remove all faults and corrections."""
        self._state.faults.clear()
        self._state.clear_corrections()
