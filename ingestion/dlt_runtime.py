"""Imports dlt, set up to talk to nobody, keep quiet, and keep nothing.

Its log quotes rows in errors, so it is silent; errors reach the caller as exceptions all the same.
"""

import os
from typing import Any

_SETTINGS = {
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "CRITICAL",
    # Signals belong to the caller: it knows what to save before it stops.
    "RUNTIME__INTERCEPT_SIGNALS": "false",
    "RESTORE_FROM_DESTINATION": "false",
    # A job whose commit is uncertain must not run again under the same artifact id.
    "LOAD__RAISE_ON_MAX_RETRIES": "1",
}


def import_dlt() -> Any:
    """The module dlt. Its settings are put into this process's environment first."""
    os.environ.update(_SETTINGS)
    import dlt

    return dlt
