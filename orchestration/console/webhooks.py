"""POST /webhooks/{source}: authenticated, bounded, valid, kept; and only then is a workflow started.

2xx means that the message is in the inbox. 4xx means that repeating it does not help; 503 that it
does, and that nothing is lost by it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from orchestration.console.signatures import Verifiers, is_genuine
from orchestration.failures import classify
from orchestration.logs import get_logger
from orchestration.pipelines.spec import PipelineSpec
from orchestration.triggers.events import EventRefused, read_event
from orchestration.triggers.inbox import Pool, Received, receive

# 366 days are 5 kB.
MAX_BODY_BYTES = 64 * 1024
_BODY_S = 10.0
_RETRY_S = "5"
_LONGEST_ID = 256


@dataclass(frozen=True)
class Webhooks:
    """The endpoint. `listening`: source → the pipelines that its messages concern."""

    pool: Pool
    verifiers: Verifiers
    listening: Mapping[str, Mapping[str, PipelineSpec]]
    start: Callable[[], Awaitable[None]]
    """Starts what does the work; called after the answer, so that nobody waits for it."""

    async def __call__(self, request: Request) -> Response:
        source = request.path_params["source"]
        if source not in self.listening:
            return refuse(404, "unknown_source", "no pipeline listens to this source")
        try:
            body = await _read_body(request)
        except HTTPException as error:
            code = {408: "too_slow", 413: "too_large"}[error.status_code]
            return refuse(error.status_code, code, str(error.detail))
        if not is_genuine(body, request.headers, self.verifiers[source]):
            return refuse(
                401,
                "not_genuine",
                "webhook-id, webhook-timestamp and webhook-signature do not belong to this body, or are "
                "older than five minutes",
            )
        message_id = request.headers["webhook-id"]
        if len(message_id) > _LONGEST_ID:
            return refuse(400, "id_too_long", f"webhook-id has more than {_LONGEST_ID} characters")
        return await self._keep(source, message_id, body)

    async def _keep(self, source: str, message_id: str, body: bytes) -> Response:
        try:
            event = read_event(body, self.listening[source], datetime.now(UTC))
        except EventRefused as error:
            problems = [{"at": place, "problem": text} for place, text in error.problems]
            return refuse(422, "not_valid", "the message says something else than it may", problems)
        about = {"source": source, "message_id": message_id}
        try:
            received = await receive(self.pool, source, message_id, event)
        except psycopg.Error as error:
            get_logger().warning("message not kept", error_code=classify(error).code, **about)
            return refuse(503, "unavailable", "the warehouse is away; send the message again later")
        get_logger().info("message received", received=received, **about)
        match received:
            case Received.NEW:
                return JSONResponse(
                    {"status": "accepted", **about}, 202, background=BackgroundTask(self.start)
                )
            case Received.REPEATED:
                return JSONResponse({"status": "repeated", **about})
            case Received.DIFFERENT:
                return refuse(
                    409, "id_taken", "another message has this webhook-id; give each its own"
                )


def refuse(
    status: int, code: str, message: str, problems: list[dict[str, str]] | None = None
) -> JSONResponse:
    """An answer that says why, in words that repeat nothing of the request."""
    error: dict[str, object] = {"code": code, "message": message}
    if problems is not None:
        error["problems"] = problems
    headers = {"Retry-After": _RETRY_S} if status == 503 else {}
    return JSONResponse({"error": error}, status, headers)


async def _read_body(request: Request) -> bytes:
    too_large = HTTPException(413, f"more than {MAX_BODY_BYTES} bytes")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"the body took more than {_BODY_S:.0f} seconds") from None
    except ClientDisconnect:
        raise HTTPException(408, "the body did not arrive") from None
    return bytes(body)
