"""A failure in one line, so that a table of causes and failures can be read."""

from orchestration.errors import SluiceError


def in_words(failure: SluiceError) -> str:
    """`destination sqlstate_57p01 transient 13`: kind, code, whether it may pass, exit code."""
    passes = "transient" if failure.transient else "permanent"
    return f"{failure.kind} {failure.code} {passes} {failure.exit_code}"
