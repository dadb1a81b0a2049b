"""The entry point: what went wrong becomes a message, or an object, and an exit code."""

import sys
from typing import NoReturn

from orchestration.cli.app import app
from orchestration.errors import EXIT_BUSY, InternalError, SluiceError


def main() -> NoReturn:
    """The entry point: failures become a message and an exit code that names their kind."""
    try:
        app(standalone_mode=True)
    except SluiceError as error:
        _report(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to go on\n")
        sys.exit(EXIT_BUSY)
    except Exception as error:  # noqa: BLE001 - a traceback could show row values; the class names it
        failure = _classified(error)
        _report(failure)
        sys.exit(failure.exit_code)
    sys.exit(0)


def _report(error: SluiceError) -> None:
    from orchestration.cli.output import error_as_json, print_json, say

    if "--json" in sys.argv:
        print_json(error_as_json(error))
    else:
        say(f"sluice: {error.message}")


def _classified(error: Exception) -> SluiceError:
    """The failure; if nobody foresaw it, its place (never a value) goes to the log."""
    import traceback
    from pathlib import Path

    import structlog

    from orchestration.failures import classify
    from orchestration.logs import configure_logs, get_logger

    failure = classify(error)
    if not isinstance(failure, InternalError):
        return failure
    if not structlog.is_configured():
        configure_logs("INFO")
    places = [
        f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-6:]
    ]
    get_logger().error(
        "command failed",
        error_code=failure.code,
        error_class=type(error).__name__,
        message=failure.message,
        where=places,
    )
    return failure
