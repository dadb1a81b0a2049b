"""What owners want to be told besides what they must be."""

from orchestration.pipelines.acceptance import Declared


class AlertPolicy(Declared):
    """Failed, held, degraded, recovered and quarantined are always told."""

    published: bool = False
    """Whether the owner of the publish stage is told of every publication by a run."""
