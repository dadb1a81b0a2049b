"""YAML with a line number for every value, so that an error can point at its place.

Time stamps stay text, and a key written twice is an error instead of a silent last one wins.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in a suite file; `message` ends with what to do."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class SuiteError(ValueError):
    """A suite file is wrong; `problems` lists everything found in it, with line numbers."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class _Loader(yaml.SafeLoader):
    """Reads time stamps as text: Great Expectations compares ISO text, JSON has nothing else."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: plain values, and the line (from 1) of each place in them."""

    path: Path
    value: Any
    lines: dict[Place, int]

    def problem(self, place: Place, message: str) -> Problem:
        """A problem at `place`, or at the nearest enclosing value that has a line."""
        while place not in self.lines and place:
            place = place[:-1]
        return Problem(str(self.path), self.lines.get(place, 1), message)


def read_document(path: Path) -> Document:
    """Parse one YAML file. Raises SuiteError when it is not YAML or repeats a key."""
    document = _parse(path, path.read_bytes())
    return replace(document, value=deepcopy(document.value))


# Every stage of a run asks what its suites mean, and most of the answer's cost is reading YAML.
@lru_cache(maxsize=128)
def _parse(path: Path, content: bytes) -> Document:
    try:
        loader = _Loader(content.decode("utf-8"))
        try:
            node = loader.get_single_node()
            value = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = f"not valid YAML: {error.problem or error.context}; correct this line"
        raise SuiteError([Problem(str(path), line, message)]) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        message = "not valid YAML: a character that text cannot hold; save the file as UTF-8"
        raise SuiteError([Problem(str(path), 1, message)]) from None
    document = Document(path, value, {})
    problems = _note_lines(document, node, ()) if node is not None else []
    if problems:
        raise SuiteError(problems)
    return document


def _note_lines(document: Document, node: yaml.Node, place: Place) -> list[Problem]:
    """Fill in the line of every value below `node`; returns the keys that are written twice."""
    document.lines.setdefault(place, node.start_mark.line + 1)
    problems: list[Problem] = []
    match node:
        case yaml.MappingNode():
            seen: set[str] = set()
            for key, child in node.value:
                name = str(key.value)
                line = key.start_mark.line + 1
                if name in seen:
                    message = f"`{name}` is written twice; keep one"
                    problems.append(Problem(str(document.path), line, message))
                seen.add(name)
                document.lines[(*place, name)] = line
                problems += _note_lines(document, child, (*place, name))
        case yaml.SequenceNode():
            for index, child in enumerate(node.value):
                problems += _note_lines(document, child, (*place, index))
    return problems
