"""Plots of one workload, drawn from its JSON lines: python -m bench.plot docs/benchmarks/tpch-sf0.1.jsonl"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

from bench.records import Results, anchors, rate, read
from bench.report import OURS, RIVAL_BATCH, better, measured, memory_ratio, workload

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(file: Path) -> list[Path]:
    """All plots there is data for, beside the file."""
    results = read(file)
    makers: dict[str, Callable[[Results], Any]] = {
        "throughput": throughput, "batch-sizes": batch_sizes, "progress": progress, "memory": memory
    }  # fmt: skip
    return write_figures(file, {name: make(results) for name, make in makers.items()})


def write_figures(file: Path, figures: Mapping[str, Any]) -> list[Path]:
    """Writes the figures that there are beside a file of results, and closes them."""
    drawn = []
    for name, figure in figures.items():
        if figure is not None:
            target = file.with_name(f"{file.stem}-{name}.png")
            figure.tight_layout()
            figure.savefig(target, dpi=110)
            pyplot.close(figure)
            drawn.append(target)
    return drawn


def throughput(results: Results) -> Any:
    """Ours in its better mode, the original's on this machine, and the rivals, one group of bars per query."""
    queries = results.queries
    own = [better(results, query) or measured(results, query) for query in queries]
    known = anchors(workload(results))
    original = [
        known.get(query, {}).get("better", math.nan) * results.upserts(record) if record else math.nan
        for query, record in zip(queries, own, strict=True)
    ]
    series = {"Viewlet": [rate(record) for record in own], "original C++ (scaled)": original}
    for engine, label in (("duckdb", "DuckDB per 1,000"), ("pathway", "Pathway per 1,000")):
        if any(results.all(engine=engine)):
            series[label] = [rate(results.find(query, engine=engine, batch=RIVAL_BATCH)) for query in queries]
    width = 0.81 / len(series)
    figure, axes = pyplot.subplots(figsize=(max(5, 0.55 * len(queries) + 2), 4))
    for place, (label, numbers) in enumerate(series.items()):
        shift = width * (place - (len(series) - 1) / 2)
        axes.bar([i + shift for i in range(len(queries))], numbers, width, label=label)
    axes.set_xticks(range(len(queries)), queries, rotation=60)
    axes.set(yscale="log", ylabel="tuples/s")
    axes.legend(fontsize=8)
    return figure


def batch_sizes(results: Results) -> Any:
    """Throughput against the size of a batch."""
    sizes = sorted({record["batch"] for record in results.all(**OURS, mode="batch")})
    if len(sizes) < 2:
        return None
    curves = {
        query: [rate(results.find(query, **OURS, mode="batch", batch=size)) for size in sizes]
        for query in results.queries
    }
    return _small_multiples(curves, sizes, "batch size", xscale="log")


def progress(results: Results) -> Any:
    """Throughput in each twentieth of the stream."""
    chosen = {query: better(results, query) or measured(results, query) for query in results.queries}
    known = {query: record for query, record in chosen.items() if record and len(record["progress"]) > 1}
    if not known:
        return None
    places = {query: [100 * share for share in record["progress_at"]] for query, record in known.items()}
    return _small_multiples({query: record["progress"] for query, record in known.items()}, places, "% of the stream")


def _small_multiples(curves: dict[str, list[float]], places: Any, label: str, xscale: str = "linear") -> Any:
    """One little plot per query: many lines in one plot cannot be told apart."""
    columns = min(6, len(curves))
    rows = -(-len(curves) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(2.4 * columns + 0.6, 1.8 * rows + 0.4), squeeze=False)
    for axes in grid.flat[len(curves) :]:
        axes.axis("off")
    for axes, (query, numbers) in zip(grid.flat, curves.items(), strict=False):
        axes.plot(places[query] if isinstance(places, dict) else places, numbers, marker=".", linewidth=1)
        axes.set(xscale=xscale, yscale="log")
        known = [number for number in numbers if math.isfinite(number)]
        if known:
            axes.set_ylim(min(known) / 3, max(known) * 3)
        axes.set_title(query, fontsize=8)
        axes.tick_params(labelsize=6, which="both")
    figure.supxlabel(label, fontsize=8)
    figure.supylabel("tuples/s", fontsize=8)
    return figure


def memory(results: Results) -> Any:
    """Bytes of all stores over the bytes of their keys and payloads."""
    ratios = {query: memory_ratio(measured(results, query)) for query in results.queries}
    known = {query: number for query, number in ratios.items() if math.isfinite(number)}
    if not known:
        return None
    figure, axes = pyplot.subplots(figsize=(max(4, 0.4 * len(known) + 2), 3))
    axes.bar(list(known), list(known.values()))
    axes.axhline(2.5, linestyle=":", color="grey")
    axes.tick_params(axis="x", rotation=60)
    axes.set(ylabel="bytes ÷ packed bytes")
    return figure


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for path in draw(Path(name)):
            print(path)
