"""Sources that misbehave, on a real socket: what each way means, and how it is tried again."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from failure_words import in_words

from ingestion.client import RetryPolicy, SourceClient
from ingestion.errors import IngestionError
from ingestion.partitions import SNAPSHOT, Partition
from ingestion.sources import get_source
from ingestion.statuses import TABLE, status_ruling
from orchestration.errors import SourceFailure
from orchestration.failures import classify

SOURCE = get_source("flights")
AIRLINES = next(one for one in SOURCE.resources if one.name == "airlines")
TOKEN = "a-secret-token"
FAST = RetryPolicy(attempts=2, timeout_s=0.3, total_s=5, first_wait_s=0.01, longest_wait_s=0.02)
PAGE = json.dumps(
    {
        "schema_version": "1",
        "resource": "airlines",
        "date": None,
        "page": 1,
        "records": [],
        "next": None,
        "total_records": 0,
    }
).encode()


@dataclass
class Answer:
    """What the server says to one request; the last one is said again and again."""

    status: int = 200
    body: bytes = PAGE
    headers: dict[str, str] = field(default_factory=dict)
    silent_s: float = 0.0
    missing_bytes: int = 0


class Scripted:
    """A source that answers as told; `asked` are the moments of its requests."""

    def __init__(self) -> None:
        self.answers = [Answer()]
        self.asked: list[float] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                at = min(len(scripted.asked), len(scripted.answers) - 1)
                scripted.asked.append(time.time())
                answer = scripted.answers[at]
                time.sleep(answer.silent_s)
                self.send_response_only(answer.status)
                length = len(answer.body) + answer.missing_bytes
                for name, value in {"Content-Length": str(length), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """The client has gone, which it may."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def source() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


def read(url: str, *, token: str = TOKEN, policy: RetryPolicy = FAST) -> int:
    """Reads the snapshot; how many pages it had."""
    environ = {SOURCE.url_variable: url, SOURCE.token_variable: token}
    with SourceClient(SOURCE, environ, policy=policy) as client:
        pages = client.pages(AIRLINES, Partition(AIRLINES.full_name, SNAPSHOT), stop=lambda: False)
        return len(list(pages))


def answers(**parts: object) -> Callable[[Scripted], str]:
    def prepare(source: Scripted) -> str:
        source.answers = [Answer(**parts)]  # type: ignore[arg-type]
        return source.url

    return prepare


def stop_listening(source: Scripted) -> str:
    source.server.server_close()
    return source.url


def use_untrusted_tls(source: Scripted) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        context.load_cert_chain(self_signed(Path(folder)))
    source.server.socket = context.wrap_socket(source.server.socket, server_side=True)
    return source.url.replace("http:", "https:")


# what the source does → kind, code, transient, exit code
CASES: list[tuple[str, Callable[[Scripted], str], str]] = [
    ("301", answers(status=301), "source source_refused permanent 11"),
    ("304", answers(status=304, body=b""), "source source_refused permanent 11"),
    ("400", answers(status=400), "source source_refused permanent 11"),
    ("401", answers(status=401), "source source_unauthorized permanent 11"),
    ("403", answers(status=403), "source source_unauthorized permanent 11"),
    ("404", answers(status=404), "source source_not_found permanent 11"),
    ("408", answers(status=408), "source source_unavailable transient 11"),
    ("410", answers(status=410), "source source_not_found permanent 11"),
    ("422", answers(status=422), "source source_refused permanent 11"),
    ("425", answers(status=425), "source source_unavailable transient 11"),
    ("429", answers(status=429), "source source_rate_limited transient 11"),
    ("500", answers(status=500), "source source_unavailable transient 11"),
    ("501", answers(status=501), "source source_refused permanent 11"),
    ("502", answers(status=502), "source source_unavailable transient 11"),
    ("503", answers(status=503), "source source_unavailable transient 11"),
    ("504", answers(status=504), "source source_unavailable transient 11"),
    ("505", answers(status=505), "source source_refused permanent 11"),
    ("204", answers(status=204, body=b""), "source source_refused permanent 11"),
    ("invalid JSON", answers(body=b"<html>"), "source source_invalid_json transient 11"),
    ("no page", answers(body=b"[]"), "source source_invalid_answer permanent 11"),
    ("truncated", answers(missing_bytes=9), "source source_truncated transient 11"),
    ("silent", answers(silent_s=1.0), "source source_timeout transient 11"),
    ("refused", stop_listening, "source source_unavailable transient 11"),
    ("untrusted", use_untrusted_tls, "source source_untrusted permanent 11"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_misbehaving_source_is_classified_and_a_page_is_tried_again_only_if_that_may_help(
    source: Scripted,
    prepare: Callable[[Scripted], str],
    expected: str,
) -> None:
    url = prepare(source)
    with pytest.raises(IngestionError) as caught:
        read(url)
    failure = classify(caught.value)
    assert in_words(failure) == expected
    assert TOKEN not in failure.message
    assert source.url not in failure.message
    if prepare not in (stop_listening, use_untrusted_tls):
        assert len(source.asked) == (FAST.attempts if failure.transient else 1)


@pytest.mark.parametrize("token", ["a\nb", "t\u00f6ken"])
def test_a_token_that_cannot_be_sent_is_a_configuration_error_and_not_told(
    source: Scripted, token: str
) -> None:
    with pytest.raises(IngestionError) as caught:
        read(source.url, token=token)
    failure = classify(caught.value)
    assert in_words(failure) == "configuration source_not_configured permanent 78"
    assert token not in failure.message
    assert source.asked == []


@pytest.mark.parametrize("form", ["seconds", "date", "date by the source's own clock"])
def test_retry_after_is_honoured_in_both_forms(source: Scripted, form: str) -> None:
    # A date has whole seconds, so two of them are more than one from now.
    headers = {"Retry-After": "1"}
    named = 0
    if form != "seconds":
        now = datetime.now(UTC) - timedelta(days=4 if "own" in form else 0)
        named = int(now.timestamp()) + 2
        headers = {"Retry-After": format_datetime(now + timedelta(seconds=2), usegmt=True)}
        if "own" in form:
            headers["Date"] = format_datetime(now + timedelta(seconds=1), usegmt=True)
    source.answers = [Answer(status=429, headers=headers), Answer()]
    assert read(source.url) == 1
    first, second = source.asked
    if form == "date":
        assert second >= named
    else:
        assert second >= first + 0.95


def test_a_wait_that_the_budget_cannot_hold_is_not_begun_and_is_handed_on(source: Scripted) -> None:
    source.answers = [Answer(status=429, headers={"Retry-After": "60"})]
    began = time.monotonic()
    with pytest.raises(IngestionError) as caught:
        read(source.url)
    assert time.monotonic() - began < 2
    assert len(source.asked) == 1
    failure = classify(caught.value)
    assert isinstance(failure, SourceFailure)
    assert failure.retry_after == 60


def test_a_raw_exception_of_httpx_is_the_sources(source: Scripted) -> None:
    url = stop_listening(source)
    with pytest.raises(httpx.ConnectError) as caught:
        httpx.get(url)
    failure = classify(caught.value)
    assert in_words(failure) == "source source_unavailable transient 11"


def test_every_status_says_what_to_do_and_unknown_ones_are_permanent() -> None:
    assert all(rule.advice for rule in TABLE.values())
    assert not any(
        status_ruling(status).transient for status in (100, 204, 206, 307, 418, 451, 600)
    )
    assert all(status_ruling(status).transient for status in (500, 502, 503, 504, 507, 520, 599))


def self_signed(folder: Path) -> Path:
    """A file with a new key and its certificate, which nobody signed but itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file
