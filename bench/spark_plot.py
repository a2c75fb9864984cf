"""Plots of views on Spark: how long a batch takes as it grows, and from where on recomputing is faster."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import matplotlib

from bench.plot import write_figures
from bench.spark_report import BATCH, Results, read

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(file: Path) -> list[Path]:
    """All plots there is data for, beside the file."""
    results = Results.of(read(file))
    return write_figures(file, {"batch-sizes": batch_sizes(results), "ratios": ratios(results)})


def batch_sizes(results: Results) -> Any:
    """A panel per query; for each scale a line for batches, and a level for Spark SQL, in the same colour."""
    sizes = sorted({record["batch"] for record in results.known.values() if record["what"] == "refresh"})
    mode = _swept(results)
    queries = [q for q in _queries(results) if any(_points(results, s, q, sizes, mode) for s in results.scales)]
    if not queries:
        return None
    figure, grid = pyplot.subplots(1, len(queries), figsize=(3.2 * len(queries), 3.4), squeeze=False, sharey=True)
    for axes, query in zip(grid.flat, queries, strict=True):
        for number, scale in enumerate(results.scales):
            points = _points(results, scale, query, sizes, mode)
            if points:
                colour = f"C{number}"
                axes.plot(*zip(*points, strict=True), marker=".", color=colour, label=f"scale {scale:g}")
                axes.axhline(results.recomputation(scale, query), linestyle=":", color=colour)
        axes.set(xscale="log", yscale="log", title=query)
        axes.tick_params(labelsize=7, which="both")
        axes.legend(fontsize=7)
    figure.supxlabel(f"changes per batch, as {mode}", fontsize=8)
    figure.supylabel("seconds (dotted: Spark SQL recomputes)", fontsize=8)
    return figure


def _queries(results: Results) -> list[str]:
    return sorted({query for scale in results.scales for query in results.queries(scale)})


def _swept(results: Results) -> str:
    """The way in which more sizes were handed in."""
    counts = {
        mode: len({r["batch"] for r in results.known.values() if r["what"] == "refresh" and r["mode"] == mode})
        for mode in ("arrow", "frames")
    }
    return max(counts, key=lambda mode: counts[mode])


def _points(results: Results, scale: float, query: str, sizes: list[int], mode: str) -> list[tuple[int, float]]:
    found = [(size, results.seconds(scale, query, size, mode)) for size in sizes]
    known = [(size, number) for size, number in found if math.isfinite(number)]
    return known if len(known) > 2 else []


def ratios(results: Results) -> Any:
    """Spark SQL's time over a batch's, a group of bars per query, for the scale with most queries."""
    compared = {scale: _compared(results, scale) for scale in results.scales}
    scale = max(compared, key=lambda scale: len(compared[scale]), default=None)
    if scale is None or not compared[scale]:
        return None
    queries = compared[scale]
    series = {mode: {q: results.ratio(scale, q, mode) for q in queries} for mode in ("arrow", "frames")}
    figure, axes = pyplot.subplots(figsize=(max(5, 0.45 * len(queries) + 2), 3.4))
    for place, (mode, known) in enumerate(series.items()):
        axes.bar([i + 0.4 * place - 0.2 for i in range(len(queries))], [known[q] for q in queries], 0.4, label=mode)
    axes.axhline(1, linestyle=":", color="grey")
    axes.set_xticks(range(len(queries)), queries, rotation=60)
    axes.set(yscale="log", ylabel=f"Spark SQL ÷ batch of {BATCH:,}", title=f"scale factor {scale:g}")
    axes.legend(fontsize=8)
    return figure


def _compared(results: Results, scale: float) -> list[str]:
    ways = ("arrow", "frames")
    return [q for q in results.queries(scale) if any(math.isfinite(results.ratio(scale, q, way)) for way in ways)]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for path in draw(Path(name)):
            print(path)
