"""Does the time of a refresh grow with the database? The same queries at several scales, and a plot.

python -m bench.growth --scales 0.01,0.1,1 --queries q01,q03,q06

Two figures per query and scale: the mean time per tuple over the whole stream, and over its last fifth, where the views
are at their largest. Constant-time triggers stay level, but for the caches of the machine.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import harmonic_mean
from typing import Annotated

import typer

from bench import records
from bench.run import ROOT, caches, calibrate, generate, isolated, line, machine_facts, names
from bench.worker import Spec

QUERIES = "q01,q03,q04,q06,q10,q11,q12,q15,q18,q22"


def main(
    scales: Annotated[str, typer.Option(help="TPC-H scale factors")] = "0.01,0.1,1",
    queries: Annotated[str, typer.Option(help="queries to measure")] = QUERIES,
    mode: Annotated[str, typer.Option(help="batch or single")] = "batch",
    batch: Annotated[int, typer.Option(help="batch size")] = 1000,
    repeats: Annotated[int, typer.Option(help="passes over the stream")] = 2,
    timeout: Annotated[float, typer.Option(help="seconds per measurement")] = 120.0,
    data: Annotated[Path, typer.Option(help="where generated tables are kept")] = ROOT / "bench" / "results" / "data",
    out: Annotated[Path, typer.Option(help="where results go")] = ROOT / "docs" / "benchmarks",
) -> None:
    """Measure at each scale, and write a table and a plot."""
    file = out / f"growth-{mode}.jsonl"
    file.unlink(missing_ok=True)
    facts = machine_facts() | {"kind": "machine", "upserts_before": calibrate()}
    records.append(file, facts)
    measured: list[records.Record] = []
    for scale in map(float, names(scales)):
        base = Spec("tpch", "", mode=mode, batch=batch, scale=scale, data=str(data), repeats=repeats, timeout=timeout)
        generate(base)
        for query in names(queries):
            record = isolated(replace(base, query=query), caches())
            records.append(file, {"kind": "measurement"} | record)
            measured.append(record)
            print(f"scale {scale:g}: {line(record)}", flush=True)
    page = write_table(file, measured)
    try:
        draw(file, measured)
    except ImportError:
        print("no plot: matplotlib is not installed (pip install -r bench/requirements.txt)")
    print(f"wrote {page}")


def nanoseconds(record: records.Record) -> float:
    return 1e9 / records.rate(record)


def late_nanoseconds(record: records.Record) -> float:
    """Per tuple in the last fifth of what was measured: rates average harmonically, weighted by tuples."""
    ends = record["progress_at"]
    widths = [end - begin for begin, end in pairwise([0.0, *ends])]
    late = [i for i, end in enumerate(ends) if end > 0.8 * ends[-1]]
    triggers = float(1e9 / harmonic_mean([record["progress"][i] for i in late], [widths[i] for i in late]))
    return triggers + nanoseconds(record) - 1e9 / float(record["tuples_per_second"])  # the share of reading, if any


def write_table(file: Path, measured: list[records.Record]) -> Path:
    good = [record for record in measured if record["status"] == "ok"]
    scales = sorted({record["scale"] for record in measured})
    by = {(record["query"], record["scale"]): record for record in good}
    lines = [
        f"# {file.stem}",
        "",
        "Nanoseconds per tuple: whole stream / last fifth of it. † stopped by the time limit.",
        "",
    ]
    lines.append("| query | " + " | ".join(f"scale {scale:g}" for scale in scales) + " | last ÷ first, whole stream |")
    lines.append("|---" * (len(scales) + 2) + "|")
    for query in dict.fromkeys(record["query"] for record in measured):
        found = [by.get((query, scale)) for scale in scales]
        cells = [_cell(record) for record in found]
        ends = found[0], found[-1]
        growth = f"{nanoseconds(ends[1]) / nanoseconds(ends[0]):.2f}x" if ends[0] and ends[1] else "–"
        lines.append(f"| {query} | " + " | ".join(cells) + f" | {growth} |")
    lines += ["", f"![time per tuple against scale]({file.stem}.png)"]
    page = file.with_suffix(".md")
    page.write_text("\n".join(lines) + "\n")
    return page


def _cell(record: records.Record | None) -> str:
    if record is None:
        return "–"
    return f"{nanoseconds(record):,.1f} / {late_nanoseconds(record):,.1f}" + ("" if record["finished"] else "†")


def draw(file: Path, measured: list[records.Record]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for query in dict.fromkeys(record["query"] for record in measured):
        points = [(r["scale"], nanoseconds(r)) for r in measured if r["query"] == query and r["status"] == "ok"]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", linewidth=1, label=query)
    axes.set(xscale="log", yscale="log", xlabel="scale factor", ylabel="nanoseconds per tuple")
    axes.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(file.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    typer.run(main)
