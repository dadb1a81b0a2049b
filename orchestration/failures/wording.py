"""What of a database's message may be told: nothing that can hold a value of a row.

DETAIL, CONTEXT and the statement are never read. The primary message is kept where Postgres puts
names into it, cut down in class 22, where it quotes values, and left out elsewhere.
"""

import re

# Classes whose primary message names objects, never values.
_SPEAKING = (
    *("08", "0A", "21", "23", "25", "28", "2B", "3D", "3F", "40", "42"),
    *("53", "54", "55", "57", "SL"),
)
_QUOTED = re.compile(r"[\"'].*[\"']|[\"'].*")
_NUMBERS = re.compile(r"(?<!\w)[-+]?\d[\d.,:eE+-]*")


def speak(sqlstate: str, primary: str | None, condition: str) -> str:
    """The message to show; `condition` is psycopg's name of the SQLSTATE."""
    text = " ".join((primary or "").split())
    if sqlstate.startswith("22"):
        text = _NUMBERS.sub("…", _QUOTED.sub("…", text).partition(":")[0])
    elif not sqlstate.startswith(_SPEAKING):
        text = ""
    return text or f"the warehouse reported {condition}"
