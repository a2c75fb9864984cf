"""`connection/` and `hosts/` know no kind of engine, plan or change: they ask the kind and the engine of a view.

What an `isinstance`, `issubclass`, `hasattr`, `getattr`, `cast` or `match` may ask for is listed below: what users hand
in, statements of SQL, and an ability of engines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "viewlet"
PROBES = {"isinstance", "issubclass", "hasattr", "getattr", "cast"}
ALLOWED = {
    "str", "int", "float", "bool", "Mapping", "os.PathLike",  # what users hand in
    "ChangeEvents", "EventChanges", "DeadLetters",  # events that users hand in
    "StateError", "MissingFunctionError",  # errors
    "sql.CreateTable", "sql.CreateView", "sql.AlterTable", "sql.AlterView", "sql.Drop", "sql.Explain", "sql.Select",
    "sql.Modify", "sql.Show", "sql.Transact", "sql.Prepare", "sql.Execute", "sql.Deallocate",
    "sql.Comment", "sql.CreateType", "sql.Copy", "sql.CreateSequence", "sql.Ignored",  # statements of SQL
    "LocalFiles",  # files that Spark reads itself
    "handle",  # the class of handle that the kind of a view has, whatever it is
    "'isStreaming'",  # a data frame of the user
    "Part",  # a file of changes, which a task has written or sent
    "ReadByTasks",  # an ability of engines on a cluster
}  # fmt: skip
KINDS_OF = ("viewlet.codegen", "viewlet.viewtree", "viewlet.sqlgen", "viewlet.rings", "viewlet.algebra")
"""Rooms of engines and plans: `connection/` and `hosts/` have no use for them."""
FORMS = {"ColumnChange", "ProductChange", "FrameChange", "Interpreter", "CompiledView", "Program", "RingPlan"}
FORMS |= {"ProgramUnit", "TreeUnit", "PartitionedUnit", "UnitView"}


def modules() -> list[Path]:
    return sorted(path for room in ("connection", "hosts") for path in (SOURCE / room).glob("*.py"))


def probes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line of every probe, and what it asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES:
            wanted = node.args[0] if node.func.id == "cast" else node.args[1] if len(node.args) > 1 else None
            for each in alternatives(wanted):
                yield node.lineno, ast.unparse(each)
        elif isinstance(node, ast.MatchClass):
            yield node.lineno, ast.unparse(node.cls)


def alternatives(node: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from alternatives(node.left)
        yield from alternatives(node.right)
    elif isinstance(node, ast.Tuple):
        for each in node.elts:
            yield from alternatives(each)
    elif node is not None:
        yield node


@pytest.mark.parametrize("path", modules(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_probe_asks_for_a_kind_of_engine_plan_or_change(path: Path) -> None:
    asked = [f"line {line}: {what}" for line, what in probes(ast.parse(path.read_text())) if what not in ALLOWED]
    assert not asked


@pytest.mark.parametrize("path", modules(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_kind_of_engine_plan_or_change_is_imported(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            assert not node.module.startswith(KINDS_OF), f"line {node.lineno}: {node.module}"
            assert not names & FORMS, f"line {node.lineno}: {sorted(names & FORMS)}"


def test_the_probes_are_found() -> None:
    """The search sees every form of probe."""
    source = """
isinstance(engine, Interpreter | CompiledView)
hasattr(engine, 'columns_used')
cast(CompiledView, engine)
match plan:
    case Program(): pass
"""
    assert [what for _, what in probes(ast.parse(source))] == [
        "Interpreter", "CompiledView", "'columns_used'", "CompiledView", "Program",
    ]  # fmt: skip
