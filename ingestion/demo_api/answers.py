"""The service's answers that are not a page: errors, and bodies that break off.

Every error is `{"error": code, "message": what to do}`; none repeats what the caller sent.
"""

from pydantic import ValidationError
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send


def error_answer(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return an error with its status, a stable code and a sentence that says what to do."""
    return JSONResponse({"error": code, "message": message}, status, headers)


def invalid_control_answer(error: ValidationError) -> JSONResponse:
    """Return a 422 that names each wrong field and why, without its value."""
    details = [
        {"field": ".".join(map(str, problem["loc"])) or "body", "problem": problem["msg"]}
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    message = "the request was refused and changed nothing; see details, correct it and send again"
    body = {"error": "invalid_control", "message": message, "details": details}
    return JSONResponse(body, 422)


class TruncatedResponse(Response):
    """Announces the whole body, sends the first half, and lets the connection close."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the head and half of the body."""
        body = bytes(self.body)
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        # A promise of more that never comes makes the server drop the connection.
        half = body[: len(body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
