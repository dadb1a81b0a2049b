"""How long the runner waits before trying again; the numbers are those of all stages."""

from orchestration.failures.backoff import CAP_S, backoff_s, base_seconds, ceiling_s, pause_s

__all__ = ["CAP_S", "backoff_s", "base_seconds", "ceiling_s", "pause_s"]
