"""The last act: the same changes once more, through the compiled engine, over streams."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import viewlet
from viewlet.demo.check import Rows, first_difference
from viewlet.demo.views import SCHEMA, VIEWS


@dataclass(frozen=True, slots=True)
class Replay:
    """How the compiled engine did; `differences` is empty when its views are the same."""

    rows: int
    batches: int
    seconds: float
    compile_seconds: float
    differences: tuple[str, ...]


def replay(tables: Mapping[str, Any], batches: Iterable[dict[str, Any]], expected: Mapping[str, Rows]) -> Replay:
    """Feeds the loaded tables and all batches to compiled views and compares them with the rows expected."""
    started = time.perf_counter()
    db = viewlet.connect(engine="compiled")
    for declaration in SCHEMA.values():
        db.execute(declaration.replace("STATIC TABLE", "STREAM").replace("CREATE TABLE", "CREATE STREAM"))
    for view in VIEWS:
        db.execute(f"CREATE MATERIALIZED VIEW {view.name} AS {view.query}")
    for name in ("nation", "customer"):
        db.insert(name, tables[name])
    first, *rest = batches
    db.apply(first)
    compiled = time.perf_counter()
    for batch in rest:
        db.apply(batch)
    ended = time.perf_counter()
    found = {view.name: db.view(view.name).to_arrow().to_pydict().values() for view in VIEWS}
    differences = (first_difference(list(zip(*found[name], strict=True)), expected[name]) for name in found)
    rows = sum(table.num_rows for batch in rest for table in batch.values())
    return Replay(rows, len(rest), ended - compiled, compiled - started, tuple(d for d in differences if d))
