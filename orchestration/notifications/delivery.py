"""Hands one message to the places where its owner is reached; the caller marks it only then."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from orchestration.notifications.message import Message
from orchestration.notifications.routes import Alerts

_PATIENCE_S = 20.0
_BAD = {"held", "failed"}
_DUBIOUS = {"degraded", "quarantined", "rolled_back", "warned"}


class NotDelivered(Exception):
    """At least one place did not take it; the text names no address, since addresses hold secrets."""


def deliver(message: Message, alerts: Alerts) -> None:
    """Tells the owner everywhere, or raises `NotDelivered`; then it is told everywhere again."""
    if alerts.only_log or not message.is_wanted:
        return
    routes = alerts.routes_of(message.owner)
    if not routes:
        raise NotDelivered(f"SLUICE_ALERT_ROUTES has no route for {message.owner}")
    from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

    kind = NotifyType.SUCCESS
    if message.kind in _BAD:
        kind = NotifyType.FAILURE
    elif message.kind in _DUBIOUS:
        kind = NotifyType.WARNING
    channel = Apprise(asset=AppriseAsset(app_id="Sluice", storage_mode="memory"))
    with _quiet():
        known = all(channel.add(route) for route in routes)
    if not known:
        raise NotDelivered(f"a route of {message.owner} is not an address that apprise knows")
    result = channel.notify(
        body=message.body(alerts.console_url),
        title=message.title,
        notify_type=kind,
        body_format=NotifyFormat.TEXT,
        timeout=_PATIENCE_S,
    )
    if not result:
        raise NotDelivered(f"a place where {message.owner} is reached did not take the message")


def is_address(route: str) -> bool:
    """Whether apprise would know what to do with it; connects to nothing."""
    from apprise import Apprise

    with _quiet():
        return Apprise.instantiate(route) is not None


@contextmanager
def _quiet() -> Iterator[None]:
    """For the time in which apprise loads what it knows."""
    # Its own lines would show hosts and answers; ours say what failed.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        # One of its plugins asks for a module that Python is giving up.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
