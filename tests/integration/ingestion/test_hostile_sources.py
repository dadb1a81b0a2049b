"""A source that answers in ways the demo service does not: other hosts, circles, lost pages."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ingestion.client import RetryPolicy, SourceClient
from ingestion.errors import SourceError
from ingestion.fetch import fetch_partition
from ingestion.partitions import Partition
from ingestion.sources import get_resource, get_source
from ingestion.spool import Fetched, read_rejected

QUICK = RetryPolicy(attempts=2, timeout_s=1, total_s=10, first_wait_s=0.01, longest_wait_s=0.02)
UA = {"carrier": "UA", "name": "United"}


class Hostile(ThreadingHTTPServer):
    answers: list[bytes]
    seen: list[tuple[str, str | None]]
    status: int


class Handler(BaseHTTPRequestHandler):
    server: Hostile

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Authorization"]))
        answers = self.server.answers
        body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    server = Hostile(("127.0.0.1", 0), Handler)
    server.seen, server.status = [], 200
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetch(hostile: Hostile, tmp_path: Path) -> Callable[..., Fetched]:
    def run(*pages: dict[str, Any] | bytes) -> Fetched:
        hostile.answers = [
            page if isinstance(page, bytes) else json.dumps(page).encode() for page in pages
        ]
        environ = {
            "SLUICE_FLIGHTS_API_URL": f"http://127.0.0.1:{hostile.server_address[1]}/api",
            "SLUICE_FLIGHTS_API_TOKEN": "secret",
        }
        with SourceClient(get_source("flights"), environ, policy=QUICK) as client:
            return fetch_partition(
                get_resource("flights.airlines"),
                Partition("flights.airlines", "snapshot"),
                environ=environ,
                run_id="r",
                spool_dir=tmp_path,
                client=client,
            )

    return run


def page(records: list[Any], total: int | None = None, **changes: Any) -> dict[str, Any]:
    whole = {"schema_version": "1", "resource": "airlines", "next": None}
    return (
        whole
        | {"records": records, "total_records": len(records) if total is None else total}
        | changes
    )


def test_a_prefix_of_the_address_is_kept_and_links_are_followed_as_browsers_do(
    fetch: Callable[..., Fetched], hostile: Hostile
) -> None:
    fetched = fetch(page([UA], 2, next="?page=2&cursor=x"), page([UA | {"carrier": "AA"}], 2))
    assert fetched.accepted == 2
    assert [path for path, _ in hostile.seen] == [
        "/api/v1/airlines?page=1",
        "/api/v1/airlines?page=2&cursor=x",
    ]
    assert {token for _, token in hostile.seen} == {"Bearer secret"}


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("http://elsewhere.example/v1/airlines?page=2", "another host"),
        ("https://127.0.0.1/v1/airlines", "another host"),
        ("//elsewhere.example/x", "another host"),
        ("?page=1", "circle"),
        ("http://x:port/", "no address"),
    ],
)
def test_the_token_never_leaves_the_configured_host(
    fetch: Callable[..., Fetched], hostile: Hostile, link: str, words: str
) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        fetch(page([UA], 2, next=link))
    assert caught.value.code == "source_invalid_answer"
    assert len(hostile.seen) == 1


def test_a_lost_page_is_noticed_by_the_sources_own_count(fetch: Callable[..., Fetched]) -> None:
    with pytest.raises(SourceError, match="announced 2 records and sent 1") as caught:
        fetch(page([UA], 2))
    assert (caught.value.code, caught.value.transient) == ("source_incomplete", True)


def test_content_that_changes_while_it_is_read_is_noticed(fetch: Callable[..., Fetched]) -> None:
    with pytest.raises(SourceError, match="changed while it was read"):
        fetch(page([UA], 2, next="?page=2"), page([UA], 3))


def test_half_a_surrogate_pair_costs_its_record_and_not_the_page(
    fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    body = json.dumps(page([UA, {"carrier": "AA", "name": "X"}])).replace('"X"', r'"\ud800"')
    fetched = fetch(body.encode())
    assert (fetched.accepted, fetched.rejected) == (1, 1)
    assert read_rejected(tmp_path, fetched.ref)[0].rule == "name.string_unicode"


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"error": "ada@crew.example"}', b"NaN"])
def test_an_answer_that_is_no_page_is_refused_and_quoted_nowhere(
    fetch: Callable[..., Fetched], body: bytes
) -> None:
    with pytest.raises(SourceError) as caught:
        fetch(body)
    assert caught.value.code in ("source_invalid_answer", "source_invalid_json")
    assert "crew.example" not in str(caught.value)


def test_a_redirect_is_not_followed(fetch: Callable[..., Fetched], hostile: Hostile) -> None:
    hostile.status = 302
    with pytest.raises(SourceError) as caught:
        fetch(b"")
    assert caught.value.code == "source_refused"
    assert len(hostile.seen) == 1


def test_an_unknown_path_says_what_to_compare(
    fetch: Callable[..., Fetched], hostile: Hostile
) -> None:
    hostile.status = 404
    with pytest.raises(SourceError, match="compare its path"):
        fetch(b"")
