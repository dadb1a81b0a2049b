"""Why a connection was not made, from the words of libpq: drivers give no SQLSTATE then.

A refusal that a person must act on is permanent; anything else means that the server is not there
yet, which may pass. A server that speaks another language than English is read as not there yet.
"""

import re

from orchestration.failures.sqlstates import CANNOT_CONNECT

# The first pattern that is found decides: (pattern, SQLSTATE it stands for, what to say).
TABLE: tuple[tuple[str, str, str], ...] = (
    ("password authentication failed", "28P01", "the password of the role is wrong"),
    ("no password supplied", "28P01", "the role needs a password"),
    ("pg_hba.conf", "28000", "the server lets nobody log in this way"),
    ("authentication failed", "28000", "the server refused the login"),
    ("is not permitted to log in", "28000", "the role may not log in"),
    ("role .* does not exist", "28000", "the role does not exist"),
    ("certificate verify failed", "28000", "the server's certificate is not trusted"),
    ("server certificate for", "28000", "the server's certificate is for another host"),
    ("root certificate file", "28000", "the file of trusted certificates is missing"),
    ("does not support SSL", "28000", "the server does not encrypt"),
    ("permission denied for database", "42501", "the role may not connect to the database"),
    (
        "(set|configuration|for) parameter",
        "42704",
        "the server refuses a setting that the session asks for",
    ),
    ("database .* does not exist", "3D000", "the database does not exist"),
    ("not currently accepting connections", "57P03", "the database lets nobody in for now"),
    ("too many|connection slots", "53300", "the server has no connection left"),
    ("database system is", "57P03", "the server is starting, stopping or recovering"),
)


def read_refusal(text: str) -> tuple[str, str]:
    """(SQLSTATE, what happened) that libpq's message for a failed connection stands for."""
    for pattern, sqlstate, words in TABLE:
        if re.search(pattern, text):
            return sqlstate, words
    return CANNOT_CONNECT, "the warehouse is out of reach"
