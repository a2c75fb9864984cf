"""Who may import whom: the table of ARCHITECTURE.md, enforced by reading the imports of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "viewlet"

BASE = frozenset({"asynchronous", "duckdb_access", "errors", "forks", "interrupts", "types", "changes", "visible"})
FACADE = frozenset(
    {"__init__", "__main__", "connection", "adhoc", "cli", "dbapi", "demo", "metrics", "shell", "sqlalchemy", "ui"}
)

MAY_IMPORT: dict[str, frozenset[str]] = {
    **dict.fromkeys(BASE, BASE),
    "rings": BASE,
    "aggregates": BASE,
    "sketches": BASE,
    "algebra": BASE | {"aggregates", "rings"},
    "runtime": BASE | {"rings"},
    "streams": BASE,
    "sql": BASE | {"aggregates", "algebra", "linalg", "signals", "streams"},
    "triggers": BASE | {"algebra", "rings"},
    "tables": BASE | {"runtime", "triggers"},
    "sqlgen": BASE | {"algebra", "triggers"},
    "viewtree": BASE | {"algebra", "rings", "triggers"},
    "adaptive": BASE | {"algebra", "rings", "runtime", "triggers"},
    "linalg": BASE | {"runtime"},
    "signals": BASE | {"runtime"},
    "ml": BASE | {"linalg", "rings", "viewtree"},
    "codegen": BASE | {"algebra", "rings", "runtime", "triggers", "viewtree"},
    "spark": BASE | {"algebra", "codegen", "linalg", "rings", "runtime", "sqlgen", "triggers", "viewtree"},
    "engine": BASE
    | {
        "adaptive",
        "aggregates",
        "algebra",
        "codegen",
        "linalg",
        "rings",
        "runtime",
        "signals",
        "spark",
        "sql",
        "sqlgen",
        "streams",
        "tables",
        "triggers",
        "view",
        "viewtree",
    },
    "hosts": BASE | {"__init__", "aggregates", "engine", "runtime", "spark", "streams", "tables", "triggers", "view"},
    "view": BASE,
}
"""Unit (module or package directly under viewlet) -> units it may import besides itself."""

PARTS_OF_ENGINE = ("unit_registry", "result_reader", "snapshots", "engine")
LAYERS_OF_SPARK = ("java", "exchange", "units", "state", "load", "execution", *PARTS_OF_ENGINE, "views")
"""The packages of spark/run: each imports only itself and those before it."""

OWNERS_OF_LIBRARIES = {
    "sqlglot": {"sql", "streams"},
    "typer": {"cli"},
    "rich": {"cli", "demo", "shell"},
    "pyspark": {"spark"},
    "fsspec": {"runtime"},
    "numba": {"runtime"},
    "torch": {"linalg"},
    "triton": {"linalg"},
}
"""Third-party library -> the only units that may name it in an import."""


@cache
def units() -> list[str]:
    return sorted({path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")})


def modules_of(unit: str) -> list[Path]:
    return sorted(SOURCE.glob(f"{unit}.py")) + sorted(SOURCE.glob(f"{unit}/**/*.py"))


@cache
def imported_names(path: Path) -> tuple[str, ...]:
    """Dotted names of everything `path` imports, those inside functions included."""
    return tuple(_imported_names(path))


def _imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: line {node.lineno}: write imports in full, not relative"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names) if module == "viewlet" else (module,)


def imported_units(path: Path) -> set[str]:
    known = set(units())
    parts = (name.split(".") for name in imported_names(path) if name.split(".")[0] == "viewlet")
    return {"__init__" if len(names) == 1 or names[1] not in known else names[1] for names in parts}


@pytest.mark.parametrize("unit", units())
def test_a_unit_imports_only_what_lies_below_it(unit: str) -> None:
    assert unit in MAY_IMPORT or unit in FACADE, f"{unit} is new: give it a place in the import table"
    if unit in FACADE:
        return
    for path in modules_of(unit):
        upwards = imported_units(path) - MAY_IMPORT[unit] - {unit}
        assert not upwards, f"{path.relative_to(SOURCE)} must not import {sorted(upwards)}"


@pytest.mark.parametrize("library", OWNERS_OF_LIBRARIES)
def test_a_library_is_imported_only_by_its_owner(library: str) -> None:
    users = {
        unit
        for unit in units()
        for path in modules_of(unit)
        if any(name.split(".")[0] == library for name in imported_names(path))
    }
    assert users <= OWNERS_OF_LIBRARIES[library]


@pytest.mark.parametrize("layer", LAYERS_OF_SPARK)
def test_a_layer_of_spark_imports_only_those_below_it(layer: str) -> None:
    below = LAYERS_OF_SPARK[: LAYERS_OF_SPARK.index(layer) + 1]
    for path in modules_of(f"spark/run/{layer}"):
        parts = (name.split(".") for name in imported_names(path) if name.startswith("viewlet.spark.run."))
        upwards = {names[3] for names in parts} - set(below)
        assert not upwards, f"{path.relative_to(SOURCE)} must not import {sorted(upwards)}"
