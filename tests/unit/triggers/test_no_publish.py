"""A request that does not publish is another request, however it comes."""

from datetime import UTC, datetime

from orchestration.pipelines.files import get_pipeline
from orchestration.settings import Settings
from orchestration.triggers.schedule import scheduled_request


def test_what_is_due_without_publication_is_not_the_scheduled_run() -> None:
    flights = get_pipeline(Settings().pipelines_dir, "flights")
    moment = datetime(2013, 3, 2, 12, tzinfo=UTC)
    publishing = scheduled_request(flights, moment)
    other = scheduled_request(flights, moment, publish=False)
    assert other.trigger_key == f"{publishing.trigger_key}+no-publish"
    assert other.days == publishing.days
