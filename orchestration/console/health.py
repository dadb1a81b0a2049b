"""Whether the process lives, and whether it can do its work: two questions with two answers."""

from dataclasses import dataclass

import psycopg
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestration.errors import ConfigurationError
from orchestration.failures import classify
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.migrations import pending_migrations


async def healthz(_: Request) -> Response:
    """200 for as long as the process answers at all; a restart would not bring the warehouse back."""
    return JSONResponse({"status": "ok"})


@dataclass(frozen=True)
class Readiness:
    warehouse: Warehouse

    def readyz(self, _: Request) -> Response:
        """200 when the warehouse answers and has every migration; else 503 and the reason."""
        reason = self._in_the_way()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, 503)

    def _in_the_way(self) -> str | None:
        try:
            with self.warehouse.connect(Role.CONSOLE, autocommit=True) as connection:
                pending = pending_migrations(connection)
        except ConfigurationError as error:
            return error.code
        except psycopg.Error as error:
            return classify(error).code
        return f"{len(pending)} migrations are pending" if pending else None
