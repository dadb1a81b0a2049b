"""Structured logs: one JSON object a line, to standard error or to a file in `.sluice/logs`.

Every line of a run carries workflow_id, run_id, correlation_id, and stage, attempt and dataset where
they apply. Exceptions are logged by class and code, never with the rows that caused them.
"""

import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.JSONRenderer(sort_keys=False),
]


def configure_logs(level: str, *, file: Path | None = None, quiet_stderr: bool = False) -> None:
    """Sends logs to standard error, to `file`, or to both."""
    streams: list[TextIO] = []
    if not quiet_stderr:
        streams.append(sys.stderr)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        streams.append(file.open("a", encoding="utf-8", buffering=1))
    structlog.configure(
        processors=_SHARED,
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
        ),
        logger_factory=_TeeFactory(streams),
        cache_logger_on_first_use=False,
    )


class _TeeFactory:
    def __init__(self, streams: list[TextIO]) -> None:
        self._streams = streams

    def __call__(self, *_: Any) -> "_TeeLogger":
        return _TeeLogger(self._streams)


class _TeeLogger:
    def __init__(self, streams: list[TextIO]) -> None:
        self._streams = streams

    def msg(self, message: str) -> None:
        for stream in self._streams:
            stream.write(message + "\n")
            stream.flush()

    debug = info = warning = error = critical = exception = log = msg


def get_logger() -> Any:
    """A logger bound to whatever context the current run and stage have set."""
    return structlog.get_logger()


def bind(**context: Any) -> Any:
    """A context manager that adds these fields to every line inside it."""
    return structlog.contextvars.bound_contextvars(**context)
