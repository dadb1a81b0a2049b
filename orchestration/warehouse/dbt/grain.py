"""What identifies a row of a model, as its project declares it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

DeclaredBy = Literal["primary_key", "unique_test"]

_COMBINATION_TESTS = {
    "unique_combination": "columns",
    "unique_combination_of_columns": "combination_of_columns",
}


@dataclass(frozen=True)
class Grain:
    """The columns that no two rows share, and what says so."""

    columns: tuple[str, ...]
    declared_by: DeclaredBy


def declared_grain(manifest: Mapping[str, Any], unique_id: str) -> Grain | None:
    """The grain of a model in dbt's manifest (as JSON); None when nothing declares one.

    A primary key of its contract, else a `unique` test, else one on a combination of columns. A
    test with a `where` speaks of some rows only, so it does not count.
    """
    node = manifest["nodes"][unique_id]
    if columns := _primary_key(node):
        return Grain(columns, "primary_key")
    tested = sorted(_tested(manifest, unique_id), key=lambda columns: (len(columns), columns))
    known = [columns for columns in tested if _are_columns(node, columns)]
    return Grain(known[0], "unique_test") if known else None


def _primary_key(node: Mapping[str, Any]) -> tuple[str, ...]:
    for constraint in node.get("constraints") or ():
        if constraint["type"] == "primary_key" and constraint.get("columns"):
            return tuple(constraint["columns"])
    return tuple(
        column["name"]
        for column in node["columns"].values()
        if any(entry["type"] == "primary_key" for entry in column.get("constraints") or ())
    )


def _tested(manifest: Mapping[str, Any], unique_id: str) -> Iterator[tuple[str, ...]]:
    for test in manifest["nodes"].values():
        if test["resource_type"] != "test" or test.get("attached_node") != unique_id:
            continue
        about = test.get("test_metadata") or {}
        config = test["config"]
        if config.get("where") or config.get("limit"):
            continue
        arguments = about.get("kwargs") or {}
        if about.get("name") == "unique" and arguments.get("column_name"):
            yield (str(arguments["column_name"]),)
        elif (argument := _COMBINATION_TESTS.get(str(about.get("name")))) in arguments:
            yield tuple(map(str, arguments[argument]))


def _are_columns(node: Mapping[str, Any], columns: tuple[str, ...]) -> bool:
    """An expression is no column; where the project names none, the relation decides later."""
    return all(name in node["columns"] for name in columns) if node["columns"] else True
