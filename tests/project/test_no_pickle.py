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


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def offences(path: Path, tree: ast.AST) -> Iterator[str]:
    """What a module does that none may, with the line."""
    yield from sorted(FORBIDDEN.intersection(imported(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in RUNS_CODE:
            yield f"{node.lineno}: {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in LOADS_FILES and path != LOADER:
            yield f"{node.lineno}: {node.attr}"
        if isinstance(node, ast.keyword):
            refuses = isinstance(node.value, ast.Constant) and node.value.value is False
            if node.arg == "shell" or (node.arg == "allow_pickle" and not refuses):
                yield f"{node.value.lineno}: {node.arg}"


def test_modules() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    assert len(trees) > 600
    assert not [f"{path.relative_to(SOURCE)}: {each}" for path, tree in trees.items() for each in offences(path, tree)]


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "def f(x): return eval(x)",
        "spec.loader.exec_module(m)",
        "run(c, shell=True)",
        "np.load(f, allow_pickle=True)",
    ],
)
def test_what_is_found(code: str) -> None:
    assert len(list(offences(SOURCE / "types.py", ast.parse(code)))) == 1
