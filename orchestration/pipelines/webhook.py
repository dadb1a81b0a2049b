"""Which messages start runs of a pipeline, and how many of them a run takes on at once."""

from typing import Annotated

from pydantic import Field

from orchestration.pipelines.acceptance import Declared

SourceName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,29}$")]


class WebhookPolicy(Declared):
    """Waiting messages become one run as soon as one of the three bounds is reached; what is more waits
    for the next run."""

    source: SourceName
    """Messages to /webhooks/<source> concern this pipeline."""
    max_events: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Messages that one run takes on."""
    max_partitions: Annotated[int, Field(ge=1, le=366)] = 31
    """Partitions that one run is asked for. A message that names more is a run of its own."""
    max_wait_seconds: Annotated[int, Field(ge=0, le=86_400)] = 0
    """Seconds for which the oldest message may wait for others; 0: never."""
