"""What a check found: where, how bad, what it is and what to do about it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestration.pipelines.acceptance import Severity

__all__ = ["Finding", "Severity", "shown_path", "split_hint"]


@dataclass(frozen=True)
class Finding:
    """`where` is `file:line` relative to the project, or the name of something outside it."""

    severity: Severity
    subject: str
    where: str
    message: str
    hint: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def shown_path(file: Path, project_dir: Path, line: int) -> str:
    """`orchestration/pipelines/flights.yml:12`; an absolute path outside the project."""
    file, root = file.resolve(), project_dir.resolve()
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    return f"{shown}:{line}"


def split_hint(text: str, hint: str = "correct this") -> tuple[str, str]:
    """(what is wrong, what to do) of a message whose last clause says what to do."""
    message, separator, rest = text.rpartition("; ")
    return (message, rest) if separator else (text, hint)
