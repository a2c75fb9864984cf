"""The facade knows no kind of change: it asks a `Change` for the form it needs, and never what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CONNECTION = Path(__file__).parents[2] / "src" / "viewlet" / "connection"
KINDS = frozenset({"Change", "Changes", "RowChange", "ColumnChange", "ProductChange", "FrameChange"})


def names_in(node: ast.AST) -> set[str]:
    """Names and attributes that occur in an expression or a pattern."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def questions(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Where the type of a value is asked for, and the names of the types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func) & {"isinstance", "issubclass"}:
            yield node.lineno, names_in(node.args[1])
        elif isinstance(node, ast.MatchClass):
            yield node.cls.lineno, names_in(node.cls)
        elif isinstance(node, ast.Compare) and any(
            isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "type"
            for each in (node.left, *node.comparators)
        ):
            yield node.lineno, names_in(node)


@pytest.mark.parametrize("path", sorted(CONNECTION.glob("**/*.py")), ids=lambda path: path.name)
def test_nobody_asks_for_the_kind_of_a_change(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    asked = [f"line {line}: {sorted(names & KINDS)}" for line, names in questions(tree) if names & KINDS]
    assert not asked, f"{path.name} asks for a kind of change: {asked}"


def test_the_questions_are_found() -> None:
    source = """
isinstance(a, RowChange)
isinstance(a, changes.ColumnChange | int)
type(a) is ProductChange
match a:
    case FrameChange():
        pass
isinstance(a, Table)
"""
    found = [names & KINDS for _, names in questions(ast.parse(source))]
    assert sorted(map(sorted, found)) == [[], ["ColumnChange"], ["FrameChange"], ["ProductChange"], ["RowChange"]]
