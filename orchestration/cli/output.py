"""How answers and failures are printed: for people on a terminal, as JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestration.errors import SluiceError


def console() -> Console:
    """Standard output; tables are never cut where nobody looks at a terminal."""
    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 160, highlight=False)


def say(text: str) -> None:
    """A line for people, on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, indent=2) + "\n")
    sys.stdout.flush()


def print_rows(
    title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], empty: str
) -> None:
    """A table of rows, or the sentence `empty` when there is none."""
    if not rows:
        console().print(empty, markup=False)
        return
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(shown(row.get(column)) for column in columns))
    console().print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), shown(value))
    console().print(table)


def shown(value: Any) -> str:
    """A value as a person reads it; rich's markup in it is not interpreted."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case datetime():
            text = f"{value:%Y-%m-%d %H:%M:%S}"
        case float():
            text = f"{value:.2f}"
        case dict() | list():
            text = json.dumps(value, default=_plain)
        case _:
            text = str(value)
    return text.replace("[", "\\[")


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
