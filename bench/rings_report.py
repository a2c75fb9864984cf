"""The page of the ring benchmarks, from their JSON lines: python -m bench.rings_report docs/benchmarks"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.records import Record, anchors
from bench.rings_record import OUT, read

Rows = Sequence[Record]


def write(out: Path) -> Path:
    """Tables and plots of all benchmarks that have been run."""
    records = read(out)
    sections = [
        "# rings",
        "View trees over rings, as the experiments of *Incremental View Maintenance with Triple Lock Factorization "
        "Benefits* (M. Nikolic and D. Olteanu) measure them. `bench/README.md` says what is measured, and how.",
    ]
    for bench, (title, tell) in CHAPTERS.items():
        rows = [record for record in records if record["bench"] == bench and record["kind"] == "measurement"]
        if rows:
            machine = next(r for r in records if r["bench"] == bench and r["kind"] == "machine")
            sections += [f"## {title}", _machine(machine), *tell(rows, machine, out)]
    page = out / "rings.md"
    page.write_text("\n\n".join(sections) + "\n")
    return page


def _machine(machine: Record) -> str:
    units = [machine.get(name) for name in ("upserts_before", "upserts_after")]
    known = ", ".join(str(unit) for unit in units if unit) or "not calibrated"
    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine["settings"].items())
    found = (
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores; {settings}; million upserts/s: {known}."
    )
    if all(units) and max(units) > 1.1 * min(units):
        found += " **The machine was not idle: ratios are rough.**"
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def cofactor(rows: Rows, machine: Record, out: Path) -> list[str]:
    found = []
    for name in dict.fromkeys(row["workload"] for row in rows):
        own = [row for row in rows if row["workload"] == name and row["line"] != "sum, view tree"]
        best = next((row["tuples_per_second"] for row in own if row["line"] == "view tree"), None)
        found.append(f"### {name}")
        found.append(
            table(
                ("kept by", "tuples/s", "view tree is faster by", "views", "megabytes"),
                [
                    (
                        row["line"] + _mark(row),
                        f"{row['tuples_per_second']:,.0f}",
                        f"{best / row['tuples_per_second']:,.1f}x" if best else "–",
                        row.get("views", "–"),
                        f"{row['bytes'] / 1e6:,.1f}" if "bytes" in row else "–",
                    )
                    for row in own
                ],
            )
        )
        lines = {row["line"]: (row["progress_at"], row["progress"]) for row in own}
        found += _plot(out, f"rings-cofactor-{name.lower()}", "share of the stream", "tuples/s", lines)
    found.append(
        "† stopped by the time limit: the rate of the part that was done. ‡ measured on a random sample of single "
        "aggregates, whose mean time is multiplied by the number of aggregates; views are those of one aggregate. "
        "§ timed at some points of the stream."
    )
    return [*found, *_original(rows, machine)]


def _mark(row: Record) -> str:
    stopped = "" if row["finished"] else " †"
    return stopped + (" ‡" if "scaled" in row else "") + (" §" if row.get("extrapolated") else "")


def _original(rows: Rows, machine: Record) -> list[str]:
    units = [machine[name] for name in ("upserts_before", "upserts_after") if machine.get(name)]
    if not units:
        return []
    upserts = 1e6 * geometric_mean(units)
    known = anchors("rings")
    queries = {
        "sum, view tree": "housing-sum",
        "view tree": "housing-cofactor",
        "view tree, rows in no order": "housing-cofactor",
    }
    body = []
    for row in rows:
        if row["workload"] == "Housing" and (query := queries.get(row["line"])):
            rate, original = row["tuples_per_second"], known[query]["batch"] * upserts
            body.append((query, row["line"], f"{rate:,.0f}", f"{original:,.0f}", f"{rate / original:.2f}x"))
    return [
        "### Against the original's C++",
        table(("view", "ours", "tuples/s", "the original on this machine", "ratio"), body),
        "The original's figure is scaled by the machine's unit. The order of the rows in its stream is not known; "
        "batches of rows that share postcodes are cheaper, so both orders are shown.",
    ]


def growth(rows: Rows, machine: Record, out: Path) -> list[str]:
    found = []
    for name, relation in dict.fromkeys((row["workload"], row["relation"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["relation"]) == (name, relation)]
        times = [row["nanoseconds_per_tuple"] for row in own]
        sizes = [f"{row['tuples']:,}: {row['nanoseconds_per_tuple']:,.0f}" for row in own]
        found.append((name, relation, "; ".join(sizes), f"{times[-1] / times[0]:.2f}x"))
    head = ("workload", "changes of", "tuples in place: nanoseconds per tuple", "last ÷ first")
    return ["Batches go in and out of filled engines; the median counts.", table(head, found)]


def factorised(rows: Rows, machine: Record, out: Path) -> list[str]:
    scales = sorted({row["scale"] for row in rows})
    by = {(row["line"], row["scale"]): row for row in rows}
    body = []
    for scale in scales:
        own, listing = by.get(("factorised", scale)), by.get(("listing", scale))
        if own and listing:
            body.append(
                (
                    scale, f"{own['join_rows']:,}", f"{own['bytes'] / 1e6:,.1f}",
                    f"{listing['bytes'] / 1e6:,.1f}" + (" *" if listing.get("extrapolated") else ""),
                    f"{listing['bytes'] / own['bytes']:,.1f}x", f"{own['seconds']:.3f}",
                    f"{listing['seconds']:.3f}" + (" *" if listing.get("extrapolated") else ""),
                    f"{listing['seconds'] / own['seconds']:,.1f}x",
                )
            )  # fmt: skip
    head = (
        "scale",
        "rows of the join",
        "MB, factorised",
        "MB, listing",
        "less",
        "s, factorised",
        "s, listing",
        "faster",
    )
    found = [table(head, body), "* extrapolated with the cube of the scale from the largest listing that was measured."]
    for what, label in (("bytes", "bytes"), ("seconds", "seconds for the stream")):
        lines = {
            line: (scales, [by[line, scale][what] for scale in scales if (line, scale) in by])
            for line in ("factorised", "listing")
        }
        found += _plot(out, f"rings-factorised-{what}", "scale", label, lines)
    return found


def matrix(rows: Rows, machine: Record, out: Path) -> list[str]:
    found = []
    for place in ("arrays", "stores"):
        own = [row for row in rows if row["place"] == place and row["vary"] == "n"]
        if not own:
            continue
        sizes = sorted({row["n"] for row in own})
        by = {(row["line"], row["n"]): row["seconds"] for row in own}
        lines = list(dict.fromkeys(row["line"] for row in own))
        body = [
            (n, *(f"{1e3 * by[line, n]:,.3f}" for line in lines), f"{by['first-order', n] / by['factorised', n]:,.1f}x")
            for n in sizes
        ]
        head = ("n", *(f"{line}, ms" for line in lines), "first-order ÷ factorised")
        found += [f"### A row of A2 changes, {place}", table(head, body)]
        curves = {line: (sizes, [by[line, n] for n in sizes]) for line in lines}
        found += _plot(out, f"rings-matrix-{place}", "n", "seconds per update", curves, logx=True)
        ranked = [row for row in rows if row["place"] == place and row["vary"] == "rank"]
        found += _ranks(ranked, place, out)
    return found


def _ranks(rows: Rows, place: str, out: Path) -> list[str]:
    if not rows:
        return []
    lines: dict[str, tuple[list[int], list[float]]] = {}
    for row in rows:
        ranks, seconds = lines.setdefault(row["line"], ([], []))
        ranks.append(row["rank"])
        seconds.append(row["seconds"])
    crossings = [
        f"{line} is faster than recomputation {crossing(lines[line], lines['recompute'])}"
        for line in lines
        if line.startswith("factorised")
    ]
    title = f"### Changes of rank r, {place}, n = {rows[0]['n']}"
    plot = _plot(out, f"rings-matrix-ranks-{place}", "rank", "seconds per update", lines, logx=True)
    return [title, "; ".join(crossings) + ".", *plot]


def crossing(own: tuple[list[int], list[float]], other: tuple[list[int], list[float]]) -> str:
    """Up to which rank one is faster than the other, between two measured ones by a straight line."""
    below = dict(zip(*other, strict=True))
    gaps = [(rank, below[rank] - seconds) for rank, seconds in zip(*own, strict=True) if rank in below]
    if gaps[0][1] <= 0:
        return f"at none of the ranks from {gaps[0][0]}"
    for (rank, gap), (next_rank, next_gap) in pairwise(gaps):
        if next_gap <= 0:
            return f"up to about rank {rank + (next_rank - rank) * gap / (gap - next_gap):,.0f}"
    return f"at every rank measured, up to {gaps[-1][0]}"


def triangle(rows: Rows, machine: Record, out: Path) -> list[str]:
    own = [row for row in rows if row["line"] != "check"]
    check = next(row for row in rows if row["line"] == "check")
    body = [
        (row["line"], f"{row['tuples_per_second']:,.0f}", f"{row['largest_view']:,}", f"{row['bytes'] / 1e6:,.1f}")
        for row in own
    ]
    found = [
        f"Both have the same answer over {check['count']:,} triangles.",
        table(("tree", "tuples/s", "rows of the view of pairs", "megabytes"), body),
    ]
    sizes = {row["line"]: ([p[0] for p in row["progress"]], [max(1, p[2]) for p in row["progress"]]) for row in own}
    return [*found, *_plot(out, "rings-triangle", "tuples", "rows of the view of pairs", sizes)]


SPARK_LINES = {
    "load": "COFACTOR, load of a data frame",
    "batch": "COFACTOR, a batch as a data frame",
    "fresh workers": "COFACTOR, a batch, workers with nothing of the state in memory",
    "factorised load": "FACTORIZED, load of a data frame",
    "factorised scan": "FACTORIZED, `to_spark()` read to the end",
}


def on_spark(rows: Rows, machine: Record, out: Path) -> list[str]:
    versions = list(dict.fromkeys(row["version"] for row in rows))
    found = {(row["what"], row["rows"], row["version"]): row for row in rows}
    body = []
    for what, size in dict.fromkeys((row["what"], row["rows"]) for row in rows):
        known = [found[what, size, each] for each in versions if (what, size, each) in found]
        shown = [f"{row['seconds']:.2f} ({row['cpu_seconds']:.2f})" for row in known]
        ratio = f"{known[0]['cpu_seconds'] / known[-1]['cpu_seconds']:.1f}x" if len(known) > 1 else "–"
        body.append((SPARK_LINES[what], f"{size:,}", *shown, ratio))
    loads = [row["load_average"] for row in rows]
    return [
        table(("what", "rows", *(f"{each}, s (CPU s)" for each in versions), "less CPU by"), body),
        "Medians of wall-clock seconds in a local session, and of the CPU seconds of driver, Java and workers. "
        "`before` kept trees in worker processes and fed them row by row; `now` keeps them in mapped files and feeds "
        "columns. Code had been compiled by earlier runs. A load is the first large batch of its session, and ends "
        "with a snapshot; its time contains both. The machine was shared by others, with a load "
        f"average of {min(loads):.0f} to {max(loads):.0f}: CPU seconds can be compared, the others hardly.",
        "Since then, Spark counts rows that repeat before a tree gets them. Loads of 2,000,000 rows in turns with "
        "the version before, medians of four loads in two sessions each, on a machine with a load average of 7: "
        "with 20,000 different rows 1.55 CPU seconds instead of 1.70 (1.57 s instead of 1.96); with rows that are "
        "all different 3.58 instead of 3.19 (4.50 s instead of 3.87), as Spark looks at some of them.",
    ]


Tell = Callable[[Rows, Record, Path], list[str]]
CHAPTERS: dict[str, tuple[str, Tell]] = {
    "cofactor": ("Cofactor matrices under batches of inserts", cofactor),
    "growth": ("Constant time", growth),
    "factorised": ("Factorised results", factorised),
    "matrix": ("Products of three matrices", matrix),
    "triangle": ("Cofactors over triangles", triangle),
    "spark": ("On Spark", on_spark),
}


def _plot(out: Path, name: str, x: str, y: str, lines: dict[str, tuple[Any, Any]], logx: bool = False) -> list[str]:
    """A plot with a logarithmic scale, beside the page; where there is no matplotlib, the one that is there."""
    try:
        import matplotlib
    except ImportError:
        return [f"![{name}]({name}.png)"] if (out / f"{name}.png").exists() else []
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    for label, (places, numbers) in lines.items():
        axes.plot(places[: len(numbers)], numbers, marker=".", linewidth=1, label=label)
    axes.set(xlabel=x, ylabel=y, yscale="log", xscale="log" if logx else "linear")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    figure.tight_layout()
    figure.savefig(out / f"{name}.png", dpi=110)
    pyplot.close(figure)
    return [f"![{name}]({name}.png)"]


if __name__ == "__main__":
    print(write(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT))
