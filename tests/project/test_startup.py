"""`import viewlet` is quick, and leaves the heavy libraries alone until somebody needs them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

LIMIT_SECONDS = 0.3
LAZY = ("pyspark", "numba", "pandas", "polars", "pyarrow", "duckdb", "sqlglot", "rich", "typer")
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import viewlet
print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))
"""


def import_viewlet() -> tuple[float, set[str]]:
    """Seconds of the import in a fresh interpreter, and the modules it left loaded."""
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    seconds, modules = json.loads(answer)
    return seconds, set(modules)


def median_import_time() -> float:
    return statistics.median(import_viewlet()[0] for _ in range(5))


def test_import_is_quick() -> None:
    # Other tests share the machine: a slow round is repeated before it counts.
    assert any(median_import_time() < LIMIT_SECONDS for _ in range(4))


def test_import_loads_no_heavy_library() -> None:
    _, modules = import_viewlet()
    assert not modules & set(LAZY)
