"""What pydantic found, said for who edits the file: which line, what is wrong, what to write."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml.comments import CommentedMap, CommentedSeq


@dataclass(frozen=True)
class Problem:
    """One thing to change in a pipeline file."""

    file: Path
    line: int
    message: str
    hint: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def problems_from(
    file: Path, document: Any, error: ValidationError, model: type[BaseModel]
) -> list[Problem]:
    """All problems behind a failed validation, by line; a list is not also called empty."""
    details = error.errors(include_url=False)
    places = [detail["loc"] for detail in details]
    problems = [
        problem_from(file, document, detail, model)
        for detail in details
        if detail["type"] != "too_short" or not any(_is_below(p, detail["loc"]) for p in places)
    ]
    return sorted(problems, key=lambda problem: problem.line)


def problem_from(file: Path, document: Any, error: ErrorDetails, model: type[BaseModel]) -> Problem:
    """The problem behind one validation error, at the line of the deepest thing that exists."""
    path = error["loc"]
    name = ".".join(str(part) for part in path)
    line = line_of(document, path)
    match error["type"]:
        case "missing":
            message, hint = f"{name} is missing", f"add `{path[-1]}:` here"
        case "extra_forbidden":
            message = f"{name} is not a word of a pipeline file"
            hint = _suggest(path[-1], _known_words(model, path[:-1]))
        case "literal_error" | "enum":
            expected = error.get("ctx", {}).get("expected", "another word")
            words = re.findall(r"'([^']*)'", expected) or [expected]
            message, hint = f"{name}: {_shown(error)} is not known", f"write {' or '.join(words)}"
        case "too_short":
            message, hint = f"{name} is empty", "name at least one"
        case "value_error":
            message, _, hint = error["msg"].removeprefix("Value error, ").partition("; ")
            message, hint = f"{name}: {message}", hint or "correct this value"
        case "string_pattern_mismatch":
            message = f"{name}: {_shown(error)} has the wrong form"
            hint = f"it must match {error.get('ctx', {}).get('pattern', '')}"
        case _:
            message = f"{name}: {_shown(error)} does not fit"
            hint = error["msg"].removeprefix("Input ").lower()
    return Problem(file, line, message, hint)


def line_of(document: Any, path: tuple[int | str, ...]) -> int:
    """The line (from 1) of the deepest part of the path that the document has."""
    line, node = 0, document
    if isinstance(node, CommentedMap | CommentedSeq) and node.lc.line is not None:
        line = node.lc.line
    for part in path:
        try:
            if isinstance(node, CommentedMap):
                line = node.lc.key(part)[0]
            elif isinstance(node, CommentedSeq):
                line = node.lc.item(part)[0]
            node = node[part]
        except (KeyError, IndexError, TypeError):
            break
    return int(line) + 1


def _is_below(place: tuple[int | str, ...], parent: tuple[int | str, ...]) -> bool:
    return len(place) > len(parent) and place[: len(parent)] == parent


def _shown(error: ErrorDetails) -> str:
    value = error["input"]
    return repr(value) if isinstance(value, str | int | float) else "this"


def _suggest(word: int | str, known: list[str]) -> str:
    if close := get_close_matches(str(word), known, n=1):
        return f"did you mean `{close[0]}`?"
    return f"known here: {', '.join(known)}" if known else "remove it"


def _known_words(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The words that are allowed at a path, read off the JSON Schema."""
    schema = model.model_json_schema(by_alias=True)
    definitions, node = schema.get("$defs", {}), schema
    for part in path:
        node = _resolve(node, definitions)
        node = node.get("items", {}) if isinstance(part, int) else node["properties"].get(part, {})
    return list(_resolve(node, definitions).get("properties", {}))


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for branch in (node, *node.get("anyOf", ()), *node.get("allOf", ())):
        if "$ref" in branch:
            resolved: dict[str, Any] = definitions[branch["$ref"].rpartition("/")[2]]
            return resolved
    return node
