"""Cofactor matrices over Retailer and Housing under batches of 1,000 (Figure 7), and the sum over Housing.

python -m bench.rings_cofactor --retailer-scale 5 --housing-scale 4

One line for each way to keep them:

- view tree: compiled code, cofactor payloads; ONE: only the largest relation changes, the others are loaded before.
- higher-order, ring payloads: the views of recursive delta compilation with the same payloads and the same generator of
  code (`rings_engines.py`); on Housing these are the views of the view tree.
- higher-order and first-order, scalar payloads: a view per aggregate, by the compiled SQL engine with exact sums. Some
  random aggregates are measured one by one, and the mean of their times is multiplied by the number of aggregates.
- recompute, factorised: the view tree filled again with all rows that have arrived, at some points of the stream.
- recompute, join: DuckDB joins what has arrived and NumPy multiplies the matrix by itself, at the same points.

The clock covers cutting batches out of columns and the engine's work on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np
import typer

from bench.rings_data import REAL, Workload, housing_data, retailer_data
from bench.rings_engines import clear, higher_order_engine, tree_engine, types_of
from bench.rings_record import OUT, Recorder, clock, recording
from viewlet.changes import ColumnChange
from viewlet.rings import IntegerRing
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import CofactorTable, cofactor_table
from viewlet.types import Table, TableKind
from viewlet.viewtree.ring_tree import build_tree

POINTS = 20
"""Parts of the stream whose throughput is reported one by one."""
Progress = list[tuple[int, float]]
"""Tuples taken in, and seconds since the start."""


@dataclass(frozen=True, slots=True)
class Settings:
    batch: int
    repeats: int
    timeout: float
    sample: int
    points: int


def main(
    retailer_scale: Annotated[float, typer.Option(help="times 100,000 rows of Inventory")] = 5.0,
    housing_scale: Annotated[int, typer.Option(help="houses, shops and restaurants per postcode")] = 4,
    postcodes: Annotated[int, typer.Option(help="postcodes of Housing")] = 25_000,
    skew: Annotated[float, typer.Option(help="of places, days and products, and of postcodes")] = 0.0,
    batch: Annotated[int, typer.Option(help="rows of a batch")] = 1000,
    repeats: Annotated[int, typer.Option(help="passes of the ring engines over the stream")] = 3,
    timeout: Annotated[float, typer.Option(help="seconds per pass")] = 60.0,
    sample: Annotated[int, typer.Option(help="aggregates that the scalar engines are measured on")] = 8,
    points: Annotated[int, typer.Option(help="places of the stream where recomputation is timed")] = 8,
    lines: Annotated[str, typer.Option(help="those to measure, apart by semicolons; all when empty")] = "",
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit")] = True,
    quick: Annotated[bool, typer.Option(help="tiny sizes, to see that it works")] = False,
) -> None:
    """Measure every line on both workloads; answers are compared at the end of the stream."""
    settings = Settings(batch, repeats, timeout, sample, points)
    if quick:
        retailer_scale, housing_scale, postcodes, settings = 0.01, 2, 60, Settings(100, 1, 20.0, 1, 2)
    sizes = {"retailer_scale": retailer_scale, "housing_scale": housing_scale, "postcodes": postcodes, "skew": skew}
    with recording("cofactor", out, calibration and not quick, batch=settings.batch, **sizes) as recorder:
        for workload in (housing_data(housing_scale, postcodes, skew), retailer_data(retailer_scale, skew)):
            measure(recorder, workload, settings, [name.strip() for name in lines.split(";") if name.strip()])


def measure(recorder: Recorder, workload: Workload, settings: Settings, wanted: list[str]) -> None:
    tables: dict[str, CofactorTable] = {}
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "view tree": lambda: _view_tree(workload, settings, tables),
        "view tree, ONE": lambda: _one(workload, settings, tables),
        "higher-order, ring payloads": lambda: _higher_order(workload, settings, tables),
        "recompute, factorised": lambda: _refilled(workload, settings),
        "recompute, join": lambda: _joined(workload, settings, tables),
        "higher-order, scalar payloads": lambda: _scalar(workload, settings, "higher-order"),
        "first-order, scalar payloads": lambda: _scalar(workload, settings, "first-order"),
    }
    if workload.name == "Housing":
        ways["sum, view tree"] = lambda: _sum(workload, settings)
        ways["view tree, rows in no order"] = lambda: _view_tree(_shuffled(workload), settings, {})
    for line, way in ways.items():
        if not wanted or line in wanted:
            recorder.add(workload=workload.name, line=line, **way())
    for line, table in tables.items():
        assert same(next(iter(tables.values())), table), f"{line} has another answer"


def same(left: CofactorTable, right: CofactorTable) -> bool:
    close = [np.allclose(a, b, rtol=1e-9) for a, b in ((left.sums, right.sums), (left.matrix, right.matrix))]
    return left.variables == right.variables and left.count == right.count and all(close)


def _ring(workload: Workload) -> CofactorRing:
    return CofactorRing(workload.attributes)


def run(engine: Any, workload: Workload, settings: Settings) -> Progress:
    """Feeds the stream until it or the time is over."""
    ones = np.ones(settings.batch, np.int64)
    columns, total = workload.columns, workload.tuples
    stride = max(1, -(-total // POINTS))
    progress: Progress = []
    tuples, mark = 0, stride
    started = clock()
    for relation, begin, end in workload.batches(settings.batch):
        engine.apply_columns(relation, [column[begin:end] for column in columns[relation]], ones[: end - begin])
        tuples += end - begin
        if tuples >= mark or tuples == total:
            progress.append((tuples, clock() - started))
            mark = (tuples // stride + 1) * stride
            if progress[-1][1] > settings.timeout:
                break
    return progress


def summary(runs: list[Progress], total: int) -> dict[str, Any]:
    best = min(runs, key=lambda progress: progress[-1][1] / progress[-1][0])
    marks = [(0, 0.0), *best]
    return {
        "tuples": best[-1][0], "finished": best[-1][0] == total, "seconds": round(best[-1][1], 6),
        "tuples_per_second": round(best[-1][0] / best[-1][1], 1),
        "runs": [round(progress[-1][0] / progress[-1][1], 1) for progress in runs],
        "progress_at": [round(tuples / total, 4) for tuples, _ in best],
        "progress": [round((b[0] - a[0]) / max(b[1] - a[1], 1e-9), 1) for a, b in zip(marks, best, strict=False)],
    }  # fmt: skip


def _passes(engine: Any, workload: Workload, settings: Settings) -> dict[str, Any]:
    """A short pass that compiles, then those that count; the engine is left full."""
    for relation, columns in workload.columns.items():
        head = [column[:10] for column in columns]
        for sign in (1, -1):
            engine.apply_columns(relation, head, np.full(len(head[0]), sign, np.int64))
    runs = []
    for _ in range(settings.repeats):
        clear(engine)
        runs.append(run(engine, workload, settings))
    return summary(runs, workload.tuples) | {"bytes": engine.bytes(), "views": len(engine.sizes())}


def _view_tree(workload: Workload, settings: Settings, tables: dict[str, CofactorTable]) -> dict[str, Any]:
    ring = _ring(workload)
    engine = tree_engine(build_tree(workload.order), ring, types_of(workload.attributes))
    found = _passes(engine, workload, settings)
    if found["finished"]:
        tables["view tree"] = cofactor_table(ring, engine.payload)
    return found


def _shuffled(workload: Workload) -> Workload:
    """The same rows in no order: a batch meets as many postcodes as it has rows."""
    random = np.random.default_rng(3)
    orders = {name: random.permutation(size) for name, size in workload.sizes.items()}
    columns = {name: [column[orders[name]] for column in given] for name, given in workload.columns.items()}
    return replace(workload, columns=columns)


def _higher_order(workload: Workload, settings: Settings, tables: dict[str, CofactorTable]) -> dict[str, Any]:
    ring = _ring(workload)
    engine = higher_order_engine(build_tree(workload.order), ring, types_of(workload.attributes))
    found = _passes(engine, workload, settings)
    if found["finished"]:
        tables["higher-order, ring payloads"] = cofactor_table(ring, engine.payload)
    return found


def _one(workload: Workload, settings: Settings, tables: dict[str, CofactorTable]) -> dict[str, Any]:
    """Only the largest relation changes: what does not meet it is loaded before, and not stored."""
    ring, types, tree = _ring(workload), types_of(workload.attributes), build_tree(workload.order)
    largest = max(workload.sizes, key=lambda name: workload.sizes[name])
    engine = tree_engine(tree, ring, types, frozenset({largest}))
    whole = tree_engine(tree, ring, types)
    for relation, columns in workload.columns.items():
        if relation != largest:
            whole.apply_columns(relation, columns, np.ones(len(columns[0]), np.int64))
    own = replace(workload, columns={largest: workload.columns[largest]})
    _warm(engine, own)
    runs = []
    for _ in range(settings.repeats):
        clear(engine)
        engine.take(whole)
        runs.append(run(engine, own, settings))
    if len(runs[-1]) and runs[-1][-1][0] == own.tuples:
        tables["view tree, ONE"] = cofactor_table(ring, engine.payload)
    return summary(runs, own.tuples) | {"bytes": engine.bytes(), "views": len(engine.sizes())}


def _warm(engine: Any, workload: Workload) -> None:
    for relation, columns in workload.columns.items():
        engine.apply_columns(relation, [column[:10] for column in columns], np.ones(len(columns[0][:10]), np.int64))


def _sum(workload: Workload, settings: Settings) -> dict[str, Any]:
    """SUM(postcode) over the join, as in appendix C."""
    ring = IntegerRing(frozenset({"postcode"}))
    return _passes(tree_engine(build_tree(workload.order), ring, types_of(workload.attributes)), workload, settings)


# Recomputation, at some points of the stream


def _arrived(workload: Workload, settings: Settings) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """Evenly spread points of the stream: tuples so far, and the columns of what has arrived."""
    steps = list(workload.batches(settings.batch))
    at = {round((i + 1) * len(steps) / settings.points) - 1 for i in range(settings.points)}
    ends = dict.fromkeys(workload.columns, 0)
    for i, (relation, _, end) in enumerate(steps):
        ends[relation] = end
        if i in at:
            yield (
                sum(ends.values()),
                {name: [column[: ends[name]] for column in columns] for name, columns in workload.columns.items()},
            )


def _extrapolated(workload: Workload, settings: Settings, timed: list[tuple[int, float]]) -> dict[str, Any]:
    """Throughput of recomputing after every batch: a batch's rows by the time of one recomputation."""
    size = settings.batch
    batches = -(-workload.tuples // size)
    seconds = mean(seconds for _, seconds in timed) * batches
    return {
        "tuples": workload.tuples, "finished": True, "extrapolated": True, "seconds": seconds,
        "tuples_per_second": round(workload.tuples / seconds, 1),
        "progress_at": [round(tuples / workload.tuples, 4) for tuples, _ in timed],
        "progress": [round(size / seconds, 1) for _, seconds in timed],
    }  # fmt: skip


def _refilled(workload: Workload, settings: Settings) -> dict[str, Any]:
    engine = tree_engine(build_tree(workload.order), _ring(workload), types_of(workload.attributes))
    _warm(engine, workload)
    timed = []
    for tuples, columns in _arrived(workload, settings):
        clear(engine)
        started = clock()
        for relation, given in columns.items():
            engine.apply_columns(relation, given, np.ones(len(given[0]), np.int64))
        timed.append((tuples, clock() - started))
    return _extrapolated(workload, settings, timed)


def _joined(workload: Workload, settings: Settings, tables: dict[str, CofactorTable]) -> dict[str, Any]:
    import duckdb
    import pyarrow as pa

    names = workload.attributes
    connection = duckdb.connect(config={"threads": 1})
    query = f"SELECT {', '.join(f'{name}::DOUBLE AS {name}' for name in names)} FROM "
    timed, matrix = [], np.zeros((0, len(names)))
    for tuples, columns in _arrived(workload, settings):
        for relation, given in columns.items():
            connection.register(relation, pa.table(given, names=list(workload.relations[relation])))
        started = clock()
        found = connection.execute(query + " NATURAL JOIN ".join(workload.relations)).fetchnumpy()
        matrix = np.column_stack([found[name] for name in names])
        product, sums = matrix.T @ matrix, matrix.sum(axis=0)
        timed.append((tuples, clock() - started))
    tables["recompute, join"] = CofactorTable(names, len(matrix), sums, product)
    return _extrapolated(workload, settings, timed)


# One view per aggregate


def _scalar(workload: Workload, settings: Settings, strategy: str) -> dict[str, Any]:
    """Random aggregates, each alone; the mean of their times is taken as that of all the others."""
    aggregates = ["1", *workload.attributes]
    aggregates += [" * ".join(pair) for pair in combinations_with_replacement(workload.attributes, 2)]
    chosen = np.random.default_rng(11).choice(len(aggregates), settings.sample, replace=False)
    runs = [_one_aggregate(workload, settings, strategy, aggregates[i]) for i in sorted(chosen)]
    shortest = min(len(progress) for progress, _, _ in runs)
    cut = [progress[:shortest] for progress, _, _ in runs]
    together: Progress = [
        (cut[0][i][0], mean(progress[i][1] for progress in cut) * len(aggregates)) for i in range(shortest)
    ]
    return summary([together], workload.tuples) | {
        "scaled": len(aggregates), "sample": [aggregates[i] for i in sorted(chosen)],
        "bytes": round(mean(size for _, size, _ in runs) * len(aggregates)), "views": mean(count for *_, count in runs),
    }  # fmt: skip


def _one_aggregate(workload: Workload, settings: Settings, strategy: str, term: str) -> tuple[Progress, int, int]:
    from viewlet.codegen.engine import CompiledEngine
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.sql import bind_query
    from viewlet.triggers.plan import plan_query

    tables = sql_tables(workload)
    sql = f"SELECT SUM({term}) FROM {' NATURAL JOIN '.join(tables)}"
    program = plan_query("aggregate", bind_query(sql, tables).query, tables, strategy)
    engine = _ScalarEngine(CompiledEngine(program, tables, StringDictionary()), workload)
    _warm(engine, workload)
    stores = engine.engine.stores.values()
    runs = []
    for _ in range(settings.repeats):
        for store in stores:
            store.clear()
        runs.append(run(engine, workload, settings))
    best = min(runs, key=lambda progress: progress[-1][1] / progress[-1][0])
    return best, sum(store.nbytes() for store in stores), len(stores)


class _ScalarEngine:
    """The compiled SQL engine, fed as the ring engines are."""

    def __init__(self, engine: Any, workload: Workload) -> None:
        self.engine = engine
        self.used = {name: sorted(engine.columns_used(name.lower())) for name in workload.columns}

    def apply_columns(self, relation: str, columns: list[Any], times: Any) -> None:
        given = {i: columns[i] for i in self.used[relation]}
        table = self.engine.tables[relation.lower()]
        self.engine.apply(table.name, ColumnChange(given, times, table, self.engine.dictionary))


def sql_tables(workload: Workload) -> dict[str, Table]:
    from viewlet.sql import CreateTable, parse_statements

    tables: dict[str, Table] = {}
    for name, schema in workload.relations.items():
        columns = ", ".join(f"{column} {'DOUBLE' if column in REAL else 'BIGINT'} NOT NULL" for column in schema)
        for statement in parse_statements(f"CREATE TABLE {name} ({columns})", tables):
            assert isinstance(statement, CreateTable)
            tables[statement.table.name] = replace(statement.table, kind=TableKind.STREAM)
    return tables


if __name__ == "__main__":
    typer.run(main)
