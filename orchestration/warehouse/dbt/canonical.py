"""The canonical form of SQL and Jinja: what is left when comments and formatting are taken away.

Two texts with the same form mean the same to Postgres; the reverse need not hold, it only costs a
rebuild.
"""

import re
from typing import Any, NamedTuple

_OPERATOR_CHARACTERS = frozenset("+-*/<>=~!@#%^&|`?:")
_SPACE = re.compile(r"\s+")


class Word(NamedTuple):
    """One token of SQL: `kind` is word, name, text, number or symbol."""

    kind: str
    text: str


def words_of(text: str) -> tuple[Word, ...]:
    """The tokens of a Postgres statement, without comments, unquoted words in lower case.

    Raises `ValueError` for what cannot be tokenised, e.g. a string that does not end.
    """
    from sqlglot.dialects.postgres import Postgres
    from sqlglot.errors import TokenError

    try:
        tokens = Postgres().tokenize(text)
    except TokenError as error:
        raise ValueError(f"not SQL: {error}") from error
    words: list[Word] = []
    previous: Any = None
    for token in tokens:
        glued = previous is not None and previous.end + 1 == token.start
        # Postgres reads `> -` and `>-`, `u & 'x'` and `U&'x'` differently, so the gap counts there.
        if glued and _needs_gap(previous.text, token):
            words.append(Word("symbol", "~glued~"))
        words.append(_word(token))
        previous = token
    return tuple(words)


def canonical_sql(text: str) -> list[list[str]]:
    """The canonical form of a statement as JSON; raw text where it cannot be tokenised."""
    try:
        words = list(words_of(text))
    except ValueError:
        return [["raw", text]]
    while words and words[-1] == Word("symbol", ";"):
        words.pop()
    return [list(word) for word in words]


def canonical_jinja(text: str) -> list[str]:
    """Jinja text without comments; white space collapsed wherever no string can contain it."""
    from jinja2 import Environment

    form: list[str] = []
    in_comment = False
    for _, kind, value in Environment(autoescape=True).lex(text):
        if kind.startswith("comment"):
            in_comment = kind == "comment_begin" or (in_comment and kind != "comment_end")
            continue
        if kind == "whitespace" or in_comment:
            continue
        if kind == "data":
            collapsed = value if "'" in value or "$" in value else _SPACE.sub(" ", value).strip()
            if collapsed:
                form.append(collapsed)
        else:
            form.append(value.strip() if kind.endswith(("_begin", "_end")) else value)
    return form


def _word(token: Any) -> Word:
    kind = token.token_type.name
    match kind:
        case "IDENTIFIER":
            return Word("name", token.text)
        case "NUMBER":
            return Word("number", token.text.lower())
        case _ if kind.endswith("STRING"):
            return Word("text" if kind == "STRING" else f"text:{kind.lower()}", token.text)
        case "NEQ":
            return Word("symbol", "<>")
        case _ if token.text[:1].isalpha() or token.text[:1] == "_":
            return Word("word", _SPACE.sub(" ", token.text.lower()))
        case _:
            return Word("symbol", token.text)


def _needs_gap(before: str, token: Any) -> bool:
    if not before or not token.text:
        return False
    symbols = before[-1] in _OPERATOR_CHARACTERS and token.text[0] in _OPERATOR_CHARACTERS
    escaped = before.lower() == "u" and token.text[0] == "&"
    return symbols or escaped
