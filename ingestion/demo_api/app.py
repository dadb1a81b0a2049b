"""The service as an ASGI application: token, pages, health, and the faults each request meets.

Everything but `/healthz` needs the bearer token. Nothing is logged here.
"""

import asyncio
import datetime as dt
import hmac
import math
import re
from pathlib import Path
from time import monotonic

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ingestion.demo_api.answers import TruncatedResponse, error_answer
from ingestion.demo_api.control import control_routes
from ingestion.demo_api.data import DataUnavailableError
from ingestion.demo_api.faults import ActiveFault, Fault
from ingestion.demo_api.pages import Address, build_body
from ingestion.demo_api.resources import Resource
from ingestion.demo_api.state import ServiceState

_DEFAULT_TIME_OUT_SECONDS = 30.0
_DEFAULT_RETRY_AFTER_SECONDS = 1.0
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PAGE = re.compile(r"[1-9]\d{0,5}", re.ASCII)


def create_app(
    token: str, state_file: Path | None = None, *, state: ServiceState | None = None
) -> Starlette:
    """Return the service, guarded by `token`, with the given state or one kept in `state_file`.

    Raises ValueError for an empty token, StateUnreadableError for a file that holds no state.
    """
    if not token:
        raise ValueError("the demo service needs a token; give one that is not empty")
    held = state if state is not None else ServiceState(state_file)

    async def serve_page(request: Request) -> Response:
        address = _read_address(request)
        met = held.faults.matching(address.resource, address.date, address.page)
        await _wait_time_outs(held, met, request)
        refusal = _first_refusal(held, met)
        if refusal is not None:
            return refusal
        body = await run_in_threadpool(build_body, held, address, met)
        return _deliver(held, met, body)

    return Starlette(
        routes=[
            Route("/healthz", _healthz, methods=["GET"]),
            Route("/v1/{resource}", serve_page, methods=["GET"]),
            Mount("/control", routes=control_routes(held)),
        ],
        middleware=[Middleware(_RequireToken, token=token)],
        exception_handlers={HTTPException: _http_error, DataUnavailableError: _data_error},
    )


class _RequireToken:
    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/healthz" or self._allows(scope):
            await self._app(scope, receive, send)
            return
        answer = error_answer(
            401,
            "unauthorized",
            "send the header Authorization: Bearer <token> with this service's token",
            {"WWW-Authenticate": "Bearer"},
        )
        await answer(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, given = header.partition(b" ")
        return hmac.compare_digest(given.strip(), self._token) and scheme.lower() == b"bearer"


async def _healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _http_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}.get(
        error.status_code, "error"
    )
    return error_answer(error.status_code, code, error.detail, dict(error.headers or {}))


async def _data_error(_: Request, error: Exception) -> Response:
    return error_answer(500, "data_unavailable", str(error))


def _read_address(request: Request) -> Address:
    try:
        resource = Resource(request.path_params["resource"])
    except ValueError:
        known = ", ".join(Resource)
        raise HTTPException(404, f"unknown resource; the resources are {known}") from None
    page = request.query_params.get("page", "1")
    if not _PAGE.fullmatch(page):
        raise HTTPException(400, "page must be a whole number from 1")
    return Address(resource, _read_date(request, resource), int(page))


def _read_date(request: Request, resource: Resource) -> dt.date | None:
    text = request.query_params.get("date")
    if not resource.is_dated:
        if text is None:
            return None
        raise HTTPException(400, f"{resource} is a snapshot; leave the date out")
    if text is None or not _DATE.fullmatch(text):
        raise HTTPException(400, f"{resource} is served by day; give date=YYYY-MM-DD")
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise HTTPException(400, "the date does not exist; give date=YYYY-MM-DD") from None


async def _wait_time_outs(state: ServiceState, met: list[ActiveFault], request: Request) -> None:
    for active in met:
        if active.rule.fault is not Fault.TIME_OUT or not state.faults.strike(active.id):
            continue
        seconds = active.rule.seconds
        until = monotonic() + (_DEFAULT_TIME_OUT_SECONDS if seconds is None else seconds)
        while (left := until - monotonic()) > 0 and not await request.is_disconnected():
            await asyncio.sleep(min(left, 0.05))


def _first_refusal(state: ServiceState, met: list[ActiveFault]) -> Response | None:
    for active in met:
        answer = _refusal(active)
        if answer is not None and state.faults.strike(active.id):
            return answer
    return None


def _refusal(active: ActiveFault) -> Response | None:
    match active.rule.fault:
        case Fault.SERVER_ERROR:
            return error_answer(500, "server_error", "the service failed; try again later")
        case Fault.RATE_LIMITED:
            seconds = active.rule.seconds
            wait = math.ceil(_DEFAULT_RETRY_AFTER_SECONDS if seconds is None else seconds)
            message = f"too many requests; try again in {wait} s"
            return error_answer(429, "rate_limited", message, {"Retry-After": str(wait)})
        case Fault.EXPIRED_TOKEN:
            message = "the token has expired; ask the service's owner for a new one"
            challenge = 'Bearer error="invalid_token", error_description="the token expired"'
            return error_answer(401, "token_expired", message, {"WWW-Authenticate": challenge})
        case _:
            return None


def _deliver(state: ServiceState, met: list[ActiveFault], body: bytes) -> Response:
    for active in met:
        match active.rule.fault:
            case Fault.TRUNCATED_BODY if state.faults.strike(active.id):
                return TruncatedResponse(body, media_type="application/json")
            case Fault.INVALID_JSON if state.faults.strike(active.id):
                # Complete by its length, so only a parser notices.
                return Response(body[:-1] + b",]", media_type="application/json")
            case _:
                continue
    return Response(body, media_type="application/json")
