"""The web service put together: its addresses, what surrounds each of them, and what it starts with."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestration.console.health import Readiness, healthz
from orchestration.console.login import Login
from orchestration.console.nudge import Nudge
from orchestration.console.pages import Pages
from orchestration.console.signatures import Verifiers
from orchestration.console.webhooks import Webhooks
from orchestration.failures import classify
from orchestration.logs import get_logger
from orchestration.pipelines.spec import PipelineSpec
from orchestration.triggers.inbox import make_pool
from orchestration.warehouse.connections import Warehouse

_HEADERS = {
    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}

Listening = Mapping[str, Mapping[str, PipelineSpec]]


@dataclass(frozen=True)
class Service:
    """What the web service needs; `listening` is source → pipelines."""

    warehouse: Warehouse
    login: Login
    verifiers: Verifiers
    listening: Listening
    nudge: Nudge


def listening_pipelines(pipelines: Mapping[str, PipelineSpec]) -> Listening:
    """Source → the pipelines that its messages concern."""
    found: dict[str, dict[str, PipelineSpec]] = {}
    for name, pipeline in pipelines.items():
        if pipeline.webhook is not None:
            found.setdefault(pipeline.webhook.source, {})[name] = pipeline
    return found


def make_app(service: Service) -> ASGIApp:
    """The application; it reaches for the warehouse only when somebody asks for something."""
    pool = make_pool(service.warehouse)
    webhooks = Webhooks(pool, service.verifiers, service.listening, service.nudge.start)
    pages = Pages(service.warehouse, service.login)
    behind = pages.behind_login

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await pool.open(wait=False)
        try:
            yield
        finally:
            await service.nudge.stop()
            await pool.close()

    async def receive_webhook(request: Any) -> Response:
        return await webhooks(request)

    routes = [
        Route("/webhooks/{source}", receive_webhook, methods=["POST"]),
        Route("/healthz", healthz),
        Route("/readyz", Readiness(service.warehouse).readyz),
        Route("/metrics", pages.metrics),
        Route("/login", service.login.form),
        Route("/login", service.login.enter, methods=["POST"]),
        Route("/logout", service.login.leave, methods=["POST"]),
        Route("/", lambda _: RedirectResponse("/runs")),
        Route("/runs", behind(pages.runs)),
        Route("/runs/{run}", behind(pages.run)),
        Route("/reports/{run}", behind(pages.report)),
    ]
    return Surroundings(Starlette(routes=routes, lifespan=lifespan))


@dataclass(frozen=True)
class Surroundings:
    """Headers for every answer; an error that nobody foresaw is logged by its class, never by its
    text or its values, and answered without them."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *_HEADERS.items()]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001 - whatever it is, its text may hold values
            failure = classify(error)
            get_logger().error(
                "request failed", path=scope["path"], error_class=type(error).__name__,
                error_code=failure.code,
            )  # fmt: skip
            if not has_begun:
                answer = {
                    "error": {"code": "internal", "message": "the log of the service says more"}
                }
                await JSONResponse(answer, 500)(scope, receive, send_with_headers)
