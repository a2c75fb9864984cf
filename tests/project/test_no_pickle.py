"""Nothing is unpickled, and nothing but the loader of generated code runs code that it was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "viewlet"
LOADER = SOURCE / "codegen" / "module_cache.py"
FORBIDDEN = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "code", "runpy"}
RUNS_CODE = {"eval", "exec", "compile", "__import__", "execfile"}
LOADS_FILES = {"exec_module", "spec_from_file_location", "SourceFileLoader", "run_path"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not FORBIDDEN.intersection(imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            assert node.id not in RUNS_CODE, f"line {node.lineno}"
        if isinstance(node, ast.Attribute):
            assert path == LOADER or node.attr not in LOADS_FILES, f"line {node.lineno}"
        if isinstance(node, ast.keyword):
            assert node.arg != "shell", f"line {node.value.lineno}"
            refuses = isinstance(node.value, ast.Constant) and node.value.value is False
            assert node.arg != "allow_pickle" or refuses, f"line {node.value.lineno}"
