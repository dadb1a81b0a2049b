"""How answers and failures are printed: for people on a terminal, plain elsewhere, as JSON for machines.

Only a terminal needs rich, whose import would be the largest part of a short command.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestration.errors import SluiceError

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    """Standard output; tables are never cut where nobody looks at a terminal."""
    from rich.console import Console

    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 160, highlight=False)


def say(text: str) -> None:
    """A line for people, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def write_file(file: Path, content: bytes) -> Path:
    """Writes the file whole or not at all; returns where it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.part")
    temporary.write_bytes(content)
    return temporary.replace(file)


def print_text(text: str) -> None:
    """Text as it is, on standard output."""
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, indent=2) + "\n")
    sys.stdout.flush()


def print_rows(
    title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], empty: str
) -> None:
    """A table of rows, or the sentence `empty` when there is none."""
    if not rows:
        sys.stdout.write(empty + "\n")
        return
    names = [column.replace("_", " ") for column in columns]
    cells = [[shown(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        sys.stdout.write(title + "\n")
        _print_plain([names, *cells])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console().print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    cells = [[name.replace("_", " "), shown(value)] for name, value in facts.items()]
    if not sys.stdout.isatty():
        _print_plain(cells)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in cells:
        table.add_row(name, Text(value))
    console().print(table)


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def shown(value: Any) -> str:
    """A value as a person reads it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case float():
            return f"{value:.2f}"
        case dict() | list():
            return json.dumps(value, default=_plain)
        case _:
            return str(value)


def error_as_json(error: SluiceError) -> dict[str, Any]:
    return {
        "error": {
            "kind": error.kind,
            "code": error.code,
            "message": error.message,
            "transient": error.transient,
        }
    }


def _plain(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case set() | frozenset() | tuple():
            return list(value)
        case _:
            return str(value)
