"""What an HTTP status other than 200 means, and how long the source asks to wait.

A status decides before its hundred; what the table does not know is permanent. Redirects are not
followed: the token would go where nobody configured it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ingestion.errors import SourceError


@dataclass(frozen=True, slots=True)
class StatusRuling:
    """The verdict on some statuses. `what` and `advice` are the message's two halves; `{variables}`
    become the names of the source's environment variables.
    """

    code: str
    transient: bool
    what: str
    advice: str


_TOKEN = StatusRuling(
    "source_unauthorized", False, "refused the token", "set a valid one in {token_variable}"
)
_REQUEST = StatusRuling(
    "source_refused",
    False,
    "refused the request",
    "compare path and parameters of the resource with the source's documentation",
)
_FAILED = StatusRuling("source_unavailable", True, "failed", "try later, or tell its owner")
_UNABLE = StatusRuling("source_refused", False, "cannot do what was asked", "tell its owner")
_GONE = StatusRuling(
    "source_not_found",
    False,
    "does not know the resource",
    "compare its path in the contract's resource with the source's documentation",
)

TABLE: dict[int, StatusRuling] = {
    300: StatusRuling(
        "source_refused",
        False,
        "answered from elsewhere, which is not followed",
        "set {url_variable} to the address that it moved to",
    ),
    400: _REQUEST,
    401: _TOKEN,
    403: _TOKEN,
    404: _GONE,
    408: _FAILED,
    410: _GONE,
    425: _FAILED,
    429: StatusRuling(
        "source_rate_limited", True, "limits the rate", "try later or with fewer at once"
    ),
    500: _FAILED,
    501: _UNABLE,
    505: _UNABLE,
}
_UNKNOWN = StatusRuling("source_refused", False, "gave no page", "tell its owner")


def status_ruling(status: int) -> StatusRuling:
    """The entry of the status, of its hundred, or one that is permanent."""
    return TABLE.get(status) or TABLE.get(status // 100 * 100) or _UNKNOWN


def status_error(
    name: str, token_variable: str, status: int, retry_after: float | None, url_variable: str = ""
) -> SourceError:
    """The error of the source `name`; `retry_after` is kept only where waiting may help."""
    rule = status_ruling(status)
    advice = rule.advice.format(
        token_variable=token_variable, url_variable=url_variable or "its address"
    )
    return SourceError(
        f"the source {name} {rule.what} (HTTP {status}); {advice}",
        code=rule.code,
        transient=rule.transient,
        retry_after=retry_after if rule.transient else None,
    )


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The wait that `Retry-After` asks for, in seconds from now; None without one that makes
    sense. A date is compared with the source's own clock, where it tells that.
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if (moment := _moment(text)) is None:
        return None
    now = _moment(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (moment - now).total_seconds())


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
