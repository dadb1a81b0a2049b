"""Where each owner is reached: SLUICE_ALERT_ROUTES, owner's address → addresses that apprise knows.

Without it messages only stand in the log. With it an owner without a route is told nothing, which
`sluice check` finds before it happens.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from orchestration.errors import ConfigurationError
from orchestration.settings import Settings

EVERYBODY = "*"
"""The owner whose routes serve all that have none of their own."""
_OWNER = "{email}"


@dataclass(frozen=True)
class Alerts:
    """`routes` hold secrets. `console_url` is where links in messages lead, without a final slash."""

    routes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    console_url: str | None = None

    @property
    def only_log(self) -> bool:
        return not self.routes

    def routes_of(self, owner: str) -> tuple[str, ...]:
        """Addresses for this owner; none when nobody said where to reach them."""
        found = self.routes.get(owner) or self.routes.get(EVERYBODY, ())
        return tuple(filled_in(route, owner) for route in found)


def filled_in(route: str, owner: str) -> str:
    """The address for one of those whom a route serves."""
    return route.replace(_OWNER, quote(owner, safe=""))


def read_alerts(settings: Settings) -> Alerts:
    """Raises `ConfigurationError` for routes that are not a JSON object of addresses."""
    url = settings.console_url.rstrip("/") if settings.console_url else None
    if settings.alert_routes is None:
        return Alerts(console_url=url)
    try:
        given = json.loads(settings.alert_routes.get_secret_value())
        routes = {str(owner): _addresses(value) for owner, value in given.items()}
    except (ValueError, TypeError, AttributeError):
        raise ConfigurationError(
            'SLUICE_ALERT_ROUTES is not like {"owner@example.com": ["json://host/path"]}; write it as '
            ".env.example shows",
            code="alert_routes",
        ) from None
    return Alerts(routes, url)


def _addresses(value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise TypeError
    if not all(isinstance(item, str) and "://" in item for item in listed):
        raise ValueError
    return tuple(listed)
