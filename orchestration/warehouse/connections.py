"""How anything reaches the warehouse: one URL for the owner, one derived from it for each role.

Every connection speaks UTC and ISO dates, names itself, and carries no row values in its errors.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import psycopg
from psycopg.rows import TupleRow

from orchestration.errors import ConfigurationError

CONNECT_TIMEOUT_S = 10
SESSION_OPTIONS = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    # A worker that is frozen inside a transaction must not keep a lease from its successor for long.
    "idle_in_transaction_session_timeout": "2min",
}


class Role(StrEnum):
    """The roles that log in, one for each kind of work."""

    RUNNER = "sluice_runner"
    EXTRACTOR = "sluice_extractor"
    TRANSFORMER = "sluice_transformer"
    GATE = "sluice_gate"
    PUBLISHER = "sluice_publisher"
    REVIEWER = "sluice_reviewer"
    ANALYST = "sluice_analyst"
    WEBHOOK = "sluice_webhook"
    CONSOLE = "sluice_console"


def derive_password(secret: str, role: Role) -> str:
    """The password of a role, from the secret that all of them share (HMAC-SHA256, hex)."""
    return hmac.new(secret.encode(), role.value.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Warehouse:
    """One Postgres database, known by its owner's URL (`postgresql://user:password@host/db?…`).

    `roles_secret` derives the passwords of the stage roles; without it the owner's own password
    does, and without either the server must trust local connections, as the embedded one does.
    With `login` the URL is that of this role alone, and no other one can be had.
    """

    owner_url: str
    roles_secret: str | None = field(default=None, repr=False)
    login: Role | None = None
    worker: str = ""
    """Whose sessions these are; it stands in their names."""
    passwords: Mapping[Role, str] = field(default_factory=dict, repr=False, hash=False)
    """Passwords of single roles, which are not derived then."""

    def url(self, role: Role | None = None, **session: str) -> str:
        """A libpq URL for this role (None: the owner), with session settings in its options.

        Raises `ConfigurationError` (`role_unavailable`) for a role that the login is not.
        """
        parts = urlsplit(self.owner_url)
        user, password = parts.username, unquote(parts.password) if parts.password else None
        if self.login is not None and role is not self.login:
            raise ConfigurationError(
                f"this needs the role {role or 'owner'}, and there is a login as {self.login} only; "
                "set SLUICE_WAREHOUSE_URL to the owner's URL",
                code="role_unavailable",
            )
        if role is not None and self.login is None:
            user, password = role.value, self.role_password(role)
        named = {"application_name": self._session_name(role)} if self.worker else {}
        return _assemble(parts, user, password, {**SESSION_OPTIONS, **named, **session})

    def role_password(self, role: Role) -> str | None:
        if (given := self.passwords.get(role)) is not None:
            return given
        parts = urlsplit(self.owner_url)
        secret = self.roles_secret or (unquote(parts.password) if parts.password else None)
        return derive_password(secret, role) if secret else None

    def password_source(self, role: Role) -> str:
        """Where the password of the role comes from, in words; never the password."""
        if role in self.passwords:
            return f"SLUICE_PASSWORD_{role.value.removeprefix('sluice_').upper()}"
        if self.roles_secret:
            return "SLUICE_ROLES_SECRET"
        return "the owner's" if self.role_password(role) else "none; the server trusts"

    def bulk_url(self, role: Role) -> str:
        """The URL for dlt and ADBC, which insist on a host and a password in the authority."""
        parts = urlsplit(self.owner_url)
        host = parts.hostname or "localhost"
        port = f":{parts.port}" if parts.port else ""
        password = quote(self.role_password(role) or "trusted", safe="")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if self.worker:
            query["application_name"] = self._session_name(role)
        tail = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"postgresql://{role.value}:{password}@{host}{port}{parts.path}{tail}"

    @property
    def database(self) -> str:
        return unquote(urlsplit(self.owner_url).path.lstrip("/")) or "postgres"

    def connect(
        self, role: Role | None = None, *, autocommit: bool = False, **session: str
    ) -> psycopg.Connection[TupleRow]:
        """A new connection as this role.

        Raises `psycopg.OperationalError` when the server is away or refuses the login.
        """
        return psycopg.connect(
            self.url(role, **session),
            autocommit=autocommit,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name=self._session_name(role),
        )

    def _session_name(self, role: Role | None) -> str:
        # No spaces: not every library that is handed a URL writes them as libpq reads them.
        kind = role.value.removeprefix("sluice_") if role else "owner"
        return "-".join(["sluice", kind, *([self.worker] if self.worker else [])])


def _assemble(parts: Any, user: str | None, password: str | None, session: dict[str, str]) -> str:
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    own = query.pop("options", "")
    options = " ".join(f"-c {name}={_escape_option(value)}" for name, value in session.items())
    query["options"] = f"{own} {options}".strip()
    login = quote(user or "", safe="")
    if password:
        login += ":" + quote(password, safe="")
    host = parts.netloc.rpartition("@")[2]
    authority = f"{login}@{host}" if login else host
    return f"postgresql://{authority}{parts.path}?{urlencode(query, quote_via=quote)}"


def _escape_option(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
