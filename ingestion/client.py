"""Reads the pages of a resource over HTTP: token, links, retries, and the total time they may take.

The unit of retry is a page: what may pass by itself (429, 5xx, time-outs, a body cut short, JSON
that does not parse) is tried again with exponential backoff, full jitter and the source's own
Retry-After; anything else stops at once. The token goes to the configured host alone and into no
message.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from time import monotonic, sleep
from types import TracebackType
from typing import Self

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from ingestion.answers import Page, read_page
from ingestion.errors import FetchStopped, IngestionConfigurationError, SourceError
from ingestion.partitions import Partition
from ingestion.resources import Resource, Source
from ingestion.statuses import retry_after_seconds, status_error
from ingestion.transport import timed_out, transport_error

_LARGEST_PAGE_BYTES = 64 * 2**20
_LONGEST_NAP_S = 0.5


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long a fetch tries: attempts a page, seconds an attempt and a partition, and the
    backoff.
    """

    attempts: int = 5
    timeout_s: float = 30.0
    total_s: float = 300.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Defaults, changed by SLUICE_FETCH_ATTEMPTS, SLUICE_FETCH_TIMEOUT_S and
        SLUICE_FETCH_TOTAL_S.

        Raises `IngestionConfigurationError`.
        """
        default = cls()
        return cls(
            attempts=int(_positive(environ, "SLUICE_FETCH_ATTEMPTS", default.attempts)),
            timeout_s=_positive(environ, "SLUICE_FETCH_TIMEOUT_S", default.timeout_s),
            total_s=_positive(environ, "SLUICE_FETCH_TOTAL_S", default.total_s),
        )


class SourceClient:
    """Connections to one source; share it between partitions and threads, and close it.

    Raises `IngestionConfigurationError` when the source's URL or token is not in the environment.
    """

    def __init__(
        self, source: Source, environ: Mapping[str, str], *, policy: RetryPolicy | None = None
    ) -> None:
        self.source = source
        self.policy = policy or RetryPolicy.from_environ(environ)
        if missing := missing_variables(source, environ):
            raise IngestionConfigurationError(
                f"the source {source.name} is not configured; set {' and '.join(missing)}",
                code="source_not_configured",
            )
        self._base = httpx.URL(environ[source.url_variable].rstrip("/"))
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise IngestionConfigurationError(
                f"{source.url_variable} is no http(s) address; set it to one like https://host",
                code="source_not_configured",
            )
        if not environ[source.token_variable].isascii():
            raise IngestionConfigurationError(
                f"{source.token_variable} has characters that cannot be sent; set a valid token",
                code="source_not_configured",
            )
        self._http = httpx.Client(
            headers={
                "Authorization": f"Bearer {environ[source.token_variable]}",
                "Accept": "application/json",
                "User-Agent": "sluice",
            },
            timeout=httpx.Timeout(self.policy.timeout_s, connect=min(10.0, self.policy.timeout_s)),
            verify=_tls_context() if self._base.scheme == "https" else False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def pages(
        self, resource: Resource, partition: Partition, *, stop: Callable[[], bool]
    ) -> Iterator[Page]:
        """All pages of a partition, in order. Raises `SourceError` and `FetchStopped`."""
        deadline = monotonic() + self.policy.total_s
        query = resource.query(partition) | {"page": "1"}
        url: httpx.URL | None = httpx.URL(f"{self._base}{resource.path}", params=query)
        visited = set()
        while url is not None:
            if stop():
                raise FetchStopped(str(partition))
            visited.add(url)
            page = self._read_with_retries(url, resource, partition, deadline, stop)
            yield page
            url = self._follow(url, page.next_link)
            if url in visited:
                raise _invalid(resource, "links its pages in a circle")

    def _follow(self, url: httpx.URL, link: str | None) -> httpx.URL | None:
        if link is None:
            return None
        try:
            target = url.join(link)
        except httpx.InvalidURL:
            raise _invalid(None, "links to a page that is no address") from None
        if (target.scheme, target.netloc) != (url.scheme, url.netloc):
            # Following it would send the token to a host that nobody configured.
            raise _invalid(None, "links to a page on another host")
        return target

    def _read_with_retries(
        self,
        url: httpx.URL,
        resource: Resource,
        partition: Partition,
        deadline: float,
        stop: Callable[[], bool],
    ) -> Page:
        policy = self.policy

        def is_over(state: RetryCallState) -> bool:
            return (
                state.attempt_number >= policy.attempts
                or monotonic() + state.upcoming_sleep > deadline
            )

        def wait(seconds: float) -> None:
            until = monotonic() + seconds
            while not stop():
                if (left := until - monotonic()) <= 0:
                    return
                sleep(min(left, _LONGEST_NAP_S))
            raise FetchStopped(str(partition))

        retrying = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=is_over,
            wait=_Backoff(policy),
            sleep=wait,
            reraise=True,
        )
        page: Page = retrying(self._read_page, url, resource, partition, deadline)
        return page

    def _read_page(
        self, url: httpx.URL, resource: Resource, partition: Partition, deadline: float
    ) -> Page:
        body = self._read_body(url, min(deadline, monotonic() + self.policy.timeout_s))
        return read_page(body, url.raw_path.decode("ascii"), resource, partition)

    def _read_body(self, url: httpx.URL, deadline: float) -> bytes:
        source = self.source
        try:
            with self._http.stream("GET", url) as response:
                if response.status_code != httpx.codes.OK:
                    raise status_error(
                        source.name,
                        source.token_variable,
                        response.status_code,
                        retry_after_seconds(response.headers),
                        source.url_variable,
                    )
                return _read_within(response, source, deadline)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # Its text may quote the token.
            raise transport_error(source, error) from None


class _Backoff:
    """Full jitter below an exponential bound; never sooner than the source asked."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._jitter = wait_random_exponential(
            multiplier=policy.first_wait_s, max=policy.longest_wait_s
        )

    def __call__(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, SourceError) else None
        return self._jitter(state) + (asked or 0.0)


def missing_variables(source: Source, environ: Mapping[str, str]) -> list[str]:
    """The environment variables that the source needs and that are not set."""
    return [name for name in (source.url_variable, source.token_variable) if not environ.get(name)]


def _read_within(response: httpx.Response, source: Source, deadline: float) -> bytes:
    parts, size = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > _LARGEST_PAGE_BYTES:
            raise SourceError(
                f"a page of the source {source.name} has more than {_LARGEST_PAGE_BYTES >> 20} MiB; "
                "ask its owner for smaller pages",
                code="source_page_too_large",
            )
        if monotonic() > deadline:
            raise timed_out(source)
    return b"".join(parts)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, SourceError) and error.transient


def _invalid(resource: Resource | None, what: str) -> SourceError:
    name = resource.full_name if resource else "the source"
    return SourceError(f"{name} {what}; tell the source's owner", code="source_invalid_answer")


def _positive(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6 or (isinstance(default, int) and value != int(value)):
        raise IngestionConfigurationError(
            f"{name} is no positive number; set it to one like {default}"
        )
    return value


@cache
def _tls_context() -> ssl.SSLContext:
    # Building one costs 70 ms, so it is built once for all clients.
    return httpx.create_ssl_context()
