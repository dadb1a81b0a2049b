"""What it means that no answer came, or only a part of one, by the class of httpx's exception.

What nobody knows is permanent. No text of httpx is told: it may quote the token.
"""

import ssl
from dataclasses import dataclass

import httpx

from ingestion.errors import IngestionConfigurationError, IngestionError, SourceError
from ingestion.resources import Source


@dataclass(frozen=True, slots=True)
class TransportRuling:
    """The verdict on a class. `what` is the rest of a sentence about the source."""

    code: str
    transient: bool
    what: str


_NOT_SENT = TransportRuling(
    "source_not_configured",
    False,
    "was not asked, because its address or token has characters that cannot be sent; correct "
    "{url_variable} and {token_variable}",
)
_TIME = TransportRuling(
    "source_timeout",
    True,
    "did not answer in time; try later, or raise SLUICE_FETCH_TIMEOUT_S",
)
_BROKEN_OFF = TransportRuling(
    "source_truncated", True, "broke off its answer; if it goes on, tell its owner"
)
_AWAY = TransportRuling(
    "source_unavailable",
    True,
    "cannot be reached; see whether it runs and whether {url_variable} is right",
)
_UNTRUSTED = TransportRuling(
    "source_untrusted",
    False,
    "showed a certificate that this machine does not trust; make it trust the authority "
    "(SSL_CERT_FILE), or correct {url_variable}",
)
_UNKNOWN = TransportRuling(
    "source_failed", False, "could not be read for an unknown reason; report this as a defect"
)

# The most special class first.
TABLE: tuple[tuple[type[Exception], TransportRuling], ...] = (
    (httpx.InvalidURL, _NOT_SENT),
    (httpx.UnsupportedProtocol, _NOT_SENT),
    (httpx.LocalProtocolError, _NOT_SENT),
    (httpx.TimeoutException, _TIME),
    (httpx.RemoteProtocolError, _BROKEN_OFF),
    (httpx.ReadError, _BROKEN_OFF),
    (httpx.DecodingError, _BROKEN_OFF),
    (ssl.SSLCertVerificationError, _UNTRUSTED),
    (httpx.TransportError, _AWAY),
)


def transport_error(source: Source, error: Exception) -> IngestionError:
    """The error that an exception of httpx means for the source."""
    seen: Exception = _untrusted_certificate(error) or error
    rule = next((rule for kind, rule in TABLE if isinstance(seen, kind)), _UNKNOWN)
    what = rule.what.format(url_variable=source.url_variable, token_variable=source.token_variable)
    message = f"the source {source.name} {what}"
    if rule is _NOT_SENT:
        return IngestionConfigurationError(message, code=rule.code)
    return SourceError(message, code=rule.code, transient=rule.transient)


def timed_out(source: Source) -> IngestionError:
    """The whole answer took longer than it may, though each part of it came in time."""
    return transport_error(source, httpx.ReadTimeout(""))


def _untrusted_certificate(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """httpx hides the reason of a ConnectError in what it was raised from."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, ssl.SSLCertVerificationError):
            return link
        link = link.__cause__ or link.__context__
    return None
