"""docs/durability.md names every place that asks for a fence, and tests that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
CODE = PROJECT / "orchestration"
CRASH_TESTS = PROJECT / "tests" / "crash"
DOCUMENT = (PROJECT / "docs" / "durability.md").read_text("utf-8")

ASKING = {"assert_fence", "fenced"}
COMPARISON = re.compile(r"\bfence = (?!excluded\b)")
FUNCTION = re.compile(r"create (?:or replace )?function (ops\.\w+)\(.*?\$\$(.*?)\$\$", re.DOTALL)
SQL_FUNCTION_BODY = re.compile(r"\bperform ops\.assert_fence\(")
TEST = re.compile(r"(\w+\.py)::(\w+)(?:\[(\w+)\])?")

Place = tuple[str, str]
"""A file below orchestration, and the function or statement in it."""


def rows(table: str) -> list[list[str]]:
    text = DOCUMENT.partition(f"<!-- table: {table} -->")[2].partition("<!-- end -->")[0]
    lines = text.strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def listed(table: str) -> set[Place]:
    return {(file, name) for file, name, _, _ in rows(table)}


def nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(dotted name of the function or constant that it is in, node) for every node."""

    def inside(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            own = name
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                own = f"{name}.{child.name}".lstrip(".")
            elif isinstance(child, ast.Assign) and not name:
                own = ast.unparse(child.targets[0])
            yield own, child
            yield from inside(child, own)

    return inside(tree, "")


def python() -> Iterator[tuple[str, str, ast.AST]]:
    for file in sorted(CODE.rglob("*.py")):
        for name, node in nodes(ast.parse(file.read_text("utf-8"))):
            yield str(file.relative_to(CODE)), name, node


def sql() -> Iterator[tuple[str, str, str]]:
    """(file, function or query, text) for what .sql files say."""
    for file in sorted(CODE.rglob("*.sql")):
        text, name = file.read_text("utf-8"), str(file.relative_to(CODE))
        functions = FUNCTION.findall(text)
        if file.parent.name == "migrations":
            yield from ((name, function, body) for function, body in functions)
        else:
            yield name, file.stem, text


def test_every_place_that_asks_for_a_fence_is_listed() -> None:
    found = {
        (file, name)
        for file, name, node in python()
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ASKING
    } | {(file, name) for file, name, text in sql() if SQL_FUNCTION_BODY.search(text)}
    assert found == listed("fences")


def test_every_comparison_of_fences_is_listed() -> None:
    found = {
        (file, name)
        for file, name, node in python()
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and COMPARISON.search(node.value)
    } | {(file, name) for file, name, text in sql() if COMPARISON.search(text)}
    assert found == listed("comparisons") - {("sql/migrations/0002_runs.sql", "ops.acquire_lease")}


@pytest.mark.parametrize(
    "test", sorted({row[3] for table in ("fences", "comparisons") for row in rows(table)})
)
def test_every_test_that_is_listed_exists(test: str) -> None:
    found = TEST.fullmatch(test)
    assert found is not None, test
    file, function, parameter = found.groups()
    tree = ast.parse((CRASH_TESTS / file).read_text("utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if parameter:
        known = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        known |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert parameter in known


def test_an_undisclosed_check_would_be_found() -> None:
    tree = ast.parse("class A:\n  def f(self):\n    fence.assert_fence(c, lease)\nX = 'fence = %s'")
    calls = [name for name, node in nodes(tree) if isinstance(node, ast.Call)]
    constants = [name for name, node in nodes(tree) if isinstance(node, ast.Constant)]
    assert (calls, constants) == (["A.f"], ["X"])
