"""Who may look at pages: whoever knows the password, for twelve hours, from one browser.

A session is a signed date in a cookie; another password ends them all. Nothing is kept on the server.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from orchestration.console.templates import page
from orchestration.errors import ConfigurationError

COOKIE = "sluice_session"
SHORTEST_PASSWORD = 16
_SESSION_S = 12 * 3600
_LONGEST_FORM = 4096
# Guessing sixteen characters is hopeless; this makes it slow as well.
_WRONG_WAIT_S = 1.0


@dataclass(frozen=True)
class Login:
    """`metrics_token` opens the metrics, and nothing else, without a session."""

    password: str = field(repr=False)
    metrics_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.password) < SHORTEST_PASSWORD:
            raise ConfigurationError(
                f"SLUICE_CONSOLE_PASSWORD is missing or has less than {SHORTEST_PASSWORD} characters, and "
                "pages without a password are not served; set it, as .env.example shows",
                code="console_password",
            )

    def is_open_to(self, request: Request) -> bool:
        """Whether the request has a session of this password that has not run out."""
        expires, _, signature = request.cookies.get(COOKIE, "").partition(".")
        return (
            expires.isdecimal()
            and len(expires) <= 12
            and hmac.compare_digest(self._sign(expires).encode(), signature.encode())
            and time.time() < int(expires)
        )

    def may_read_metrics(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.metrics_token and scheme.lower() == "bearer":
            return hmac.compare_digest(self.metrics_token.encode(), token.encode())
        return self.is_open_to(request)

    async def form(self, request: Request) -> Response:
        """GET /login."""
        return page("login.html.j2", target=_target(request), wrong=False)

    async def enter(self, request: Request) -> Response:
        """POST /login: on to where the visitor wanted to go, or the form again."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST_FORM:
                return page("login.html.j2", 413, target="/runs", wrong=True)
        given = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        target = _target(request)
        if not hmac.compare_digest(given.encode(), self.password.encode()):
            await run_in_threadpool(time.sleep, _WRONG_WAIT_S)
            return page("login.html.j2", 403, target=target, wrong=True)
        expires = str(int(time.time()) + _SESSION_S)
        response = RedirectResponse(target, 303)
        response.set_cookie(
            COOKIE,
            f"{expires}.{self._sign(expires)}",
            max_age=_SESSION_S,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return response

    async def leave(self, _: Request) -> Response:
        """POST /logout."""
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return response

    def _sign(self, expires: str) -> str:
        key = hashlib.sha256(b"sluice console session\0" + self.password.encode()).digest()
        return hmac.new(key, expires.encode(), hashlib.sha256).hexdigest()


def to_login(request: Request) -> Response:
    """Sends a visitor to the form, and from there back."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)


def _target(request: Request) -> str:
    """Where to go on: a path of this service, whatever the address says."""
    wanted = request.query_params.get("next", "")
    is_ours = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if is_ours and wanted.isprintable() else "/runs"
