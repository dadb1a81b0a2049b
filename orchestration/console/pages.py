"""Pages about runs, made of stored rows by a role that can only read, for whoever has logged in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from orchestration.console.login import Login, to_login
from orchestration.console.templates import page
from orchestration.errors import ConfigurationError
from orchestration.failures import classify
from orchestration.logs import get_logger
from orchestration.reports.facts import read_report
from orchestration.reports.page import render_report
from orchestration.runs.description import describe_run, newest_runs
from orchestration.runs.diagnosis import diagnose
from orchestration.runs.exposition import as_prometheus
from orchestration.runs.metrics import measure
from orchestration.runs.state import resolve_run
from orchestration.warehouse.connections import Role, Warehouse

_SHOWN_RUNS = 100
_STATEMENT = "20s"

Endpoint = Callable[[Request], Response]


@dataclass(frozen=True)
class Pages:
    """Each method answers one address; they block, so each request has a thread of its own."""

    warehouse: Warehouse
    login: Login

    def runs(self, request: Request) -> Response:
        """GET /runs?pipeline=NAME."""
        pipeline = request.query_params.get("pipeline")
        with self._reading() as connection:
            found = newest_runs(connection, pipeline=pipeline, limit=_SHOWN_RUNS)
        return page("runs.html.j2", runs=found, pipeline=pipeline)

    def run(self, request: Request) -> Response:
        """GET /runs/{run}: an id, or its beginning."""
        with self._reading() as connection:
            found = resolve_run(connection, request.path_params["run"])
            return page(
                "run.html.j2",
                run=describe_run(connection, found.run_id),
                diagnosis=diagnose(connection, found),
            )

    def report(self, request: Request) -> Response:
        """GET /reports/{run}: the same page that `sluice report` writes."""
        with self._reading() as connection:
            found = resolve_run(connection, request.path_params["run"])
            return HTMLResponse(render_report(read_report(connection, found)))

    def metrics(self, request: Request) -> Response:
        """GET /metrics: for a scrape with the token, or a visitor who has logged in."""
        if not self.login.may_read_metrics(request):
            return PlainTextResponse(
                "a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"}
            )
        try:
            with self._reading() as connection:
                text = as_prometheus(measure(connection))
        except psycopg.OperationalError as error:
            return PlainTextResponse(f"{classify(error).code}\n", 503)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def behind_login(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint for visitors who have logged in; failures become pages."""

        def guarded(request: Request) -> Response:
            if not self.login.is_open_to(request):
                return to_login(request)
            try:
                return endpoint(request)
            except ConfigurationError as error:
                return page("message.html.j2", 404, title="Not found", text=error.message)
            except psycopg.OperationalError as error:
                get_logger().warning("page not made", error_code=classify(error).code)
                text = "The warehouse is away. Try again in a minute."
                return page("message.html.j2", 503, title="Not available", text=text)

        return guarded

    @contextmanager
    def _reading(self) -> Iterator[psycopg.Connection]:
        with self.warehouse.connect(
            Role.CONSOLE, autocommit=True, statement_timeout=_STATEMENT
        ) as connection:
            yield connection
