"""A source and a resource are added as docs/adding-a-source.md says, and published.

What the guide shows is taken from the guide. A small service serves them. No Python of orchestration
is touched.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from harness import CHECKOUT, Sluice

GUIDE = (CHECKOUT / "docs" / "adding-a-source.md").read_text()
TOKEN = "harbour-token"
PAGE = 2
Records = Callable[[str, str], list[dict[str, Any]] | None]
STAGING = Path("dbt_project/models/staging")
MARTS = Path("dbt_project/models/marts")
SUITES = Path("expectations/suites")
PIPELINES = Path("orchestration/pipelines")

FCT_CALLS = """with

calls as (
    select * from {{ ref('stg_harbours__calls') }}
),

final as (
    select
        call_date,
        call_id,
        call_name,
        price_usd
    from calls
)

select * from final
"""
CALL_MODELS = """version: 2

models:
  - name: fct_calls
    description: One row per call.
    config:
      group: harbour_desk
    data_tests:
      - unique_combination:
          name: calls_have_one_row_per_number_and_day
          arguments:
            columns: [call_date, call_id]
    columns:
      - {name: call_date, data_type: date, description: Local day.}
      - {name: call_id, data_type: bigint, description: Number of the call.}
      - {name: call_name, data_type: text, description: Ship.}
      - {name: price_usd, data_type: double precision, description: Fee in US dollars.}
"""


class Service:
    """A service as the guide wants one, in pages; what it does not know comes from `upstream`."""

    def __init__(self, records: Records, token: str, upstream: str) -> None:
        self.requests: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                service.requests.append(self.path)
                url = urlsplit(self.path)
                query = dict(parse_qsl(url.query))
                found = records(url.path, query.get("date", ""))
                given = self.headers["Authorization"]
                if found is None:
                    headers = {"Authorization": given}
                    answer = httpx.get(upstream + self.path, headers=headers, timeout=30)
                    self.answer(answer.status_code, answer.content)
                elif given != f"Bearer {token}":
                    self.answer(401, b"{}")
                else:
                    self.answer(200, page_of(url.path, query, found))

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def page_of(path: str, query: dict[str, str], records: list[dict[str, Any]]) -> bytes:
    number = int(query.get("page", "1"))
    end = number * PAGE
    following = f"{path}?{urlencode(query | {'page': number + 1})}"
    page = {
        "schema_version": "1",
        "records": records[end - PAGE : end],
        "next": following if end < len(records) else None,
        "total_records": len(records),
    }
    return json.dumps(page).encode()


def shown(language: str, *words: str) -> str:
    """The one block of this language in the guide that has all these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    (block,) = [text for text in blocks if all(word in text for word in words)]
    return str(block)


def edit(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in changes:
        assert old in text, f"{file.name} has no {old!r}"
        text = text.replace(old, new, 1)
    file.write_text(text)


def python_of_orchestration(project: Path) -> dict[str, bytes]:
    folder = project / "orchestration"
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.py")}


@pytest.fixture
def copy(sluice: Sluice, tmp_path: Path) -> Iterator[Sluice]:
    """A copy of the project, whose Python below orchestration must not have changed at the end."""
    before = python_of_orchestration(CHECKOUT)
    copy = sluice.copy_project(tmp_path / "project")
    yield copy
    assert python_of_orchestration(copy.project) == before


def scaffold_calls(copy: Sluice) -> None:
    """`sluice sources new`, then `items` are called `calls` and kept by local day."""
    written = copy.json("sources", "new", "harbours")["files"]
    root = copy.project
    for name in written:
        text = (root / name).read_text().replace("item", "call").replace("Item", "Call")
        (root / name).unlink()
        (root / name.replace("items", "calls")).write_text(text)
    edit(
        root / "ingestion/sources/harbours/calls.py",
        ("import datetime", "import date, datetime"),
        ("import Contract", "import Contract, Day"),
        ("\n\nCONTRACT", '    date: Annotated[date, About(doc="Local day.")]\n\n\nCONTRACT'),
        ('key=("call_id",),', 'key=("call_id",),\n    day=Day(("date",)),'),
    )
    edit(
        root / STAGING / "harbours/_harbours__sources.yml",
        ("columns:\n", "columns:\n          - {name: date, description: Local day.}\n"),
    )
    edit(
        root / STAGING / "harbours/stg_harbours__calls.sql",
        ("    select\n", "    select\n        cast(date as date) as call_date,\n"),
    )
    # The key counts anew every day, so it is unique in an artifact, not in the model.
    edit(
        root / STAGING / "harbours/_harbours__models.yml",
        ("          - unique\n", ""),
    )
    edit(
        root / "tests/unit/sources/test_harbours.py",
        ("import SNAPSHOT, Partition", "import Partition"),
        ('calls", SNAPSHOT', 'calls", "2026-01-31"'),
        ('12:00:00Z"}', '12:00:00Z", "date": "2026-01-31"}'),
    )


def publish_calls(copy: Sluice) -> None:
    """The mart, its group, its suite, and a pipeline file of its own."""
    marts = copy.project / MARTS / "harbours"
    marts.mkdir()
    (marts / "fct_calls.sql").write_text(FCT_CALLS)
    (marts / "_harbours__models.yml").write_text(CALL_MODELS)
    group = shown("yaml", "groups:").replace("reference_data", "harbour_desk")
    (marts / "_harbours__groups.yml").write_text(f"version: 2\n\n{group}")
    suite = shown("yaml", "name: flights__gates\n")
    (copy.project / SUITES / "marts/fct_calls.yml").write_text(
        suite.replace("flights__gates", "fct_calls").replace("column: gate", "column: call_date")
    )
    lists = shown("yaml", "dbt:").replace("flights.gates", "harbours.calls")
    lists = lists.replace("flights__gates", "harbours__calls").replace("dim_gate", "fct_calls")
    (copy.project / PIPELINES / "harbours.yml").write_text(shown("yaml", "reviewer:") + lists)


def calls_of(path: str, day: str) -> list[dict[str, Any]] | None:
    if path != "/v1/calls":
        return None
    return [
        {"call_id": number, "name": f"Ship {number}", "price": 100.5, "date": day}
        | {"updated_at": f"{day}T12:00:00Z"}
        for number in range(1, 4)
    ]


def test_a_new_source_is_published_over_a_range_of_days(copy: Sluice) -> None:
    scaffold_calls(copy)
    publish_calls(copy)
    with Service(calls_of, TOKEN, copy.demo.url) as service:
        variables = {
            "SLUICE_HARBOURS_API_URL": service.url,
            "SLUICE_HARBOURS_API_TOKEN": TOKEN,
        }
        findings = copy.json("check", code=78)["findings"]
        errors = [item["message"] for item in findings if item["severity"] == "error"]
        assert {message.split()[0] for message in errors} == set(variables)
        copy = replace(copy, extra=variables)
        assert copy.json("check")["ok"]
        scaffolded = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/sources"],
            env=copy.environment,
            cwd=copy.project,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert scaffolded.returncode == 0, scaffolded.stdout

        first = copy.run("2026-03-01..2026-03-03", pipeline="harbours")
        assert first["outcome"] == "published"
        assert first["records"] == {"fetched": 9, "loaded": 9, "quarantined": 0}
        assert sorted(service.requests) == [
            f"/v1/calls?date=2026-03-0{day}&page={page}" for day in (1, 2, 3) for page in (1, 2)
        ]

        second = copy.run("2026-03-03..2026-03-04", pipeline="harbours")
        assert second["partitions"] == {
            "requested": 2,
            "extracted": 1,
            "reused": 1,
            "quarantined": 0,
        }
    days = copy.query(
        "select call_date::text, count(*) from analytics.fct_calls group by 1 order by 1"
    )
    assert days == [(f"2026-03-0{day}", 3) for day in (1, 2, 3, 4)]
    assert copy.query("select distinct owner from ops.outbox where pipeline = 'harbours'") == [
        ("harbour-desk@example.com",)
    ]


def add_gates(copy: Sluice) -> None:
    """The example of the guide, word for word."""
    root = copy.project
    source = root / "ingestion/sources/flights"
    (source / "gates.py").write_text(shown("python", "CONTRACT ="))
    edit(
        source / "__init__.py",
        ("import airlines,", "import gates, airlines,"),
        (
            "    resources=(\n",
            f"    resources=(\n        {shown('python', 'Resource(').strip()},\n",
        ),
    )
    for file, block in (
        (STAGING / "flights/_flights__sources.yml", shown("yaml", "identifier: flights__gates")),
        (MARTS / "flights/_flights__models.yml", shown("yaml", "name: dim_gate", "data_tests:")),
    ):
        (root / file).write_text((root / file).read_text().rstrip("\n") + "\n" + block)
    (root / STAGING / "flights/stg_flights__gates.sql").write_text(shown("sql", "source('flights'"))
    (root / MARTS / "flights/dim_gate.sql").write_text(shown("sql", "ref('stg_flights__gates')"))
    suite = shown("yaml", "name: flights__gates\n")
    (root / SUITES / "staging/flights__gates.yml").write_text(suite)
    (root / SUITES / "staging/flights__gates__volume.yml").write_text(
        shown("yaml", "name: flights__gates__volume")
    )
    (root / SUITES / "marts/dim_gate.yml").write_text(
        suite.replace("flights__gates", "dim_gate").replace("column: gate", "column: gate_name")
    )
    lists = shown("yaml", "dbt:")
    resource = lists.partition("resources:\n")[2].partition("dbt:")[0]
    edit(
        root / PIPELINES / "flights.yml",
        ("\ndbt:\n", f"{resource}\ndbt:\n"),
        ("select: [", "select: [+dim_gate, "),
        ("publishes: [", "publishes: [dim_gate, "),
        ("\nsuites:\n", "\nsuites:\n  - marts/dim_gate\n"),
    )


def gates_of(path: str, _: str) -> list[dict[str, Any]] | None:
    if path != "/v1/gates":
        return None
    return [
        {"airport": airport, "gate": f"A{number}", "width": None, "keeper": "nobody@example.com"}
        for airport in ("EWR", "JFK", "LGA")
        for number in (1, 2)
    ]


def test_the_resource_of_the_guide_is_published_with_the_others(copy: Sluice) -> None:
    add_gates(copy)
    assert copy.json("check")["ok"]
    with Service(gates_of, copy.demo.token, copy.demo.url) as service:
        copy = replace(copy, extra={"SLUICE_FLIGHTS_API_URL": service.url})
        done = copy.run("2013-02-12")
    assert done["outcome"] == "published"
    assert copy.query("select count(*), count(width_feet) from analytics.dim_gate") == [(6, 0)]
    assert copy.query(
        "select count(*) from information_schema.columns where column_name = 'keeper'"
    ) == [(0,)]
    assert copy.query("select count(*) > 0 from analytics.fct_flights") == [(True,)]
