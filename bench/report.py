"""The results of one workload as a Markdown page."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from bench.records import Record, Results, anchors, best_rate, geometric_mean, rate, read

OURS = {"engine": "viewlet", "strategy": "auto"}
RIVAL_BATCH = 1000


def write(file: Path, plots: list[Path]) -> Path:
    """Renders a file of JSON lines beside itself."""
    results = read(file)
    sections = [
        f"# {file.stem}",
        _machine(results),
        _headline(results),
        "## Per query",
        _queries(results),
        _explanations(),
        _batch_sizes(results),
        _strategies(results),
        _failures(results),
        *(f"![{plot.stem}]({plot.name})" for plot in plots),
    ]
    page = file.with_suffix(".md")
    page.write_text("\n\n".join(section for section in sections if section) + "\n")
    return page


def workload(results: Results) -> str:
    return str(results.measurements[0]["workload"]) if results.measurements else "tpch"


def better(results: Results, query: str) -> Record | None:
    """Our faster mode, of single tuples and batches of 1,000; only of those the original was measured in."""
    candidates = [results.find(query, **OURS, mode="single")]
    if "batch" in anchors(workload(results)).get(query, {}):
        candidates.append(results.find(query, **OURS, mode="batch", batch=RIVAL_BATCH))
    return max((record for record in candidates if record), key=rate, default=None)


def ratio(results: Results, query: str, record: Record | None, mode: str) -> float:
    """Our median throughput over the original's on this machine."""
    units = anchors(workload(results)).get(query, {}).get(mode)
    if record is None or units is None:
        return math.nan
    return rate(record) / (units * results.upserts(record))


def _single_ratio(results: Results, query: str) -> float:
    return ratio(results, query, results.find(query, **OURS, mode="single"), "single")


def speedup(results: Results, query: str, rival: str = "duckdb") -> float:
    """Batches of 1,000 against a rival that takes in the same ones."""
    own = results.find(query, **OURS, mode="batch", batch=RIVAL_BATCH)
    return rate(own) / rate(results.find(query, engine=rival, batch=RIVAL_BATCH))


def _machine(results: Results) -> str:
    names = ("run", "processor", "cores", "Python", "Numba", "NumPy", "DuckDB", "Pathway")
    lines = ["| " + " | ".join(names) + " | million upserts/s, before and after |", "|---" * (len(names) + 1) + "|"]
    for run, m in sorted(results.machines.items()):
        if any(record["run"] == run for record in results.measurements):
            units = f"{m.get('upserts_before', '–')}, {m.get('upserts_after', '–')}"
            versions = (m["python"], m["numba"], m["numpy"], m["duckdb"], m.get("pathway") or "–")
            facts = (run, m["processor"], m["cores"], *versions, units)
            lines.append("| " + " | ".join(map(str, facts)) + " |")
    if _unsteady(results):
        lines += ["", "**The calibrations differ by more than a tenth: the machine was not idle, ratios are rough.**"]
    return "\n".join(lines)


def _unsteady(results: Results) -> bool:
    """Whether the machine's unit moved while it was measured with."""
    used = {record["run"] for record in results.measurements}
    machines = [machine for run, machine in results.machines.items() if run in used]
    units = [m[when] for m in machines for when in ("upserts_before", "upserts_after") if m.get(when)]
    return bool(units) and max(units) > 1.1 * min(units)


def _headline(results: Results) -> str:
    queries = results.queries
    rows = [
        ("ours ÷ original C++, better modes", [ratio(results, q, better(results, q), "better") for q in queries]),
        ("ours ÷ original C++, single tuples", [_single_ratio(results, q) for q in queries]),
        ("ours ÷ DuckDB recomputing per batch of 1,000", [speedup(results, q) for q in queries]),
        ("ours ÷ Pathway maintaining per batch of 1,000", [speedup(results, q, "pathway") for q in queries]),
    ]
    lines = ["| figure | value | worst | queries |", "|---|---|---|---|"]
    for name, numbers in rows:
        known = [number for number in numbers if math.isfinite(number)]
        if known:
            mean, share = geometric_mean(known), f"{len(known)} of {len(queries)}"
            lines.append(f"| {name}, geometric mean | {_times(mean)} | {_times(min(known))} | {share} |")
    lines += _memory_lines(results)
    checked = [record["correct"] for record in results.all(**OURS) if "correct" in record]
    if checked:
        lines.append(f"| answers equal to DuckDB's | {sum(checked)} of {len(checked)} | | |")
    return "\n".join(lines)


def _memory_lines(results: Results) -> list[str]:
    """The mean ratio over all queries, and over those whose stores have outgrown their first capacity."""
    found = [record for query in results.queries if (record := measured(results, query)) and record.get("packed_bytes")]
    lines = []
    for name, chosen in (
        ("bytes ÷ packed bytes, mean of all queries", found),
        ("bytes ÷ packed bytes, mean of queries with at least 64 KiB packed", [r for r in found if not is_small(r)]),
    ):
        ratios = [record["bytes"] / record["packed_bytes"] for record in chosen]
        if ratios:
            lines.append(f"| {name} | {sum(ratios) / len(ratios):.2f}x | {max(ratios):.2f}x | {len(ratios)} |")
    return lines


def measured(results: Results, query: str) -> Record | None:
    return results.find(query, **OURS, mode="batch", batch=RIVAL_BATCH) or better(results, query)


SMALL = 64 * 1024
"""Below this a store is mostly its initial capacity, and the ratio says nothing about growth."""


def is_small(record: Record) -> bool:
    return bool(record.get("packed_bytes", 0) < SMALL)


def memory_ratio(record: Record | None) -> float:
    if not record or is_small(record):
        return math.nan
    return float(record["bytes"] / record["packed_bytes"])


def _queries(results: Results) -> str:
    header = (
        "query", "single, tuples/s", "batch 1,000, median", "best", "original, better mode", "ratio, better modes",
        "ratio, single", "DuckDB, tuples/s", "÷ DuckDB", "Pathway, tuples/s", "÷ Pathway", "MB", "bytes/packed",
        "rows in stores", "compile s, cold / cached", "coding s", "one read, ms",
    )  # fmt: skip
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(_query_row(results, query) for query in results.queries)])


def _query_row(results: Results, query: str) -> str:
    single = results.find(query, **OURS, mode="single")
    batch = results.find(query, **OURS, mode="batch", batch=RIVAL_BATCH)
    rival = results.find(query, engine="duckdb", batch=RIVAL_BATCH)
    built = results.find(query, **OURS, mode="compile")
    shown = batch or single
    chosen = better(results, query)
    anchor = anchors(workload(results)).get(query, {})
    units = anchor.get("better", math.nan)
    at_least = "≥ " if anchor.get("ceiling") else ""
    original = units * results.upserts(shown) if shown else math.nan
    cells = (
        query,
        _mark(single),
        _mark(batch),
        _short(best_rate(batch)),
        _short(original),
        _times(ratio(results, query, chosen, "better"), at_least if "batch" not in anchor else "", chosen),
        _times(_single_ratio(results, query), at_least, single),
        _mark(rival),
        _times(speedup(results, query)),
        _mark(results.find(query, engine="pathway", batch=RIVAL_BATCH)),
        _times(speedup(results, query, "pathway")),
        f"{shown['bytes'] / 1e6:.1f}" if shown else "–",
        _times(memory_ratio(shown)),
        f"{shown['rows']:,}" if shown else "–",
        f"{built.get('cold_seconds', '–')} / {built.get('cached_seconds', '–')}" if built else "–",
        str(shown["coding_seconds"]) if shown else "–",
        f"{1e3 * shown['read_seconds']:.2f}" if shown and "read_seconds" in shown else "–",
    )
    return "| " + " | ".join(cells) + " |"


def _explanations() -> str:
    return """\
- Tuples a second are medians of the passes; input is read and coded beforehand (coding s).
- † stopped by the time limit: the figure is for the first part of the stream, which flatters what slows down as it
  grows.
- Single tuples come in calls of 1,000 rows; the trigger leaves every view fresh after each of them.
- § the last selection of the query is left to whoever reads the result: its time, measured once on the final views, is
  charged to every refresh (to every tuple in single mode), so that the figure is for a view that is fresh.
- Original: DBToaster generated C++, measured in units of random upserts; the figure is its units times this machine's
  upserts a second. Our better mode is chosen among the modes it was measured in (finance: single tuples only). ≥: it
  did not finish, and is slower still. Its figures are for TPC-H at scale 0.1 and for one recorded order book; at
  other scales and on generated books the ratio is only an indication.
- DuckDB takes in a batch of 1,000 and runs the query; timed at up to 20 batches spread evenly over the stream, and
  extrapolated. Its answer is fetched as Arrow columns.
- Pathway gets the same batches of 1,000 as Python rows, made beforehand, and commits after each; the clock stops when
  the last one is worked off and its changes are delivered. One pass, one worker thread; every finished answer is
  compared with DuckDB's.
- bytes/packed is left out where keys and payloads take less than 64 KiB."""


def _batch_sizes(results: Results) -> str:
    sizes = sorted({record["batch"] for record in results.all(**OURS, mode="batch")})
    if len(sizes) < 2:
        return ""
    lines = ["## Batch sizes, tuples/s", "", "| query | " + " | ".join(f"{size:,}" for size in sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for query in results.queries:
        cells = [_mark(results.find(query, **OURS, mode="batch", batch=size)) for size in sizes]
        lines.append(f"| {query} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _strategies(results: Results) -> str:
    names = [
        name
        for name in ("higher-order", "view-tree", "first-order", "recompute")
        if any(results.all(engine="viewlet", strategy=name))
    ]
    if not names:
        return ""
    lines = ["## Strategies, batches of 1,000, tuples/s", "", "| query | auto | " + " | ".join(names) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for query in results.queries:
        cells = [
            _mark(results.find(query, engine="viewlet", strategy=name, mode="batch", batch=RIVAL_BATCH))
            for name in ("auto", *names)
        ]
        lines.append(f"| {query} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _failures(results: Results) -> str:
    failed = [record for record in results.measurements if record["status"] != "ok"]
    failed += [record | {"status": "wrong answer"} for record in results.measurements if record.get("correct") is False]
    if not failed:
        return ""
    lines = ["## Not measured", "", "| query | engine | strategy | mode | batch | why |", "|---|---|---|---|---|---|"]
    for record in failed:
        why = f"{record['status']} {record.get('note', '')}".strip().replace("|", "\\|")
        cells = (*(str(record[name]) for name in ("query", "engine", "strategy", "mode", "batch")), why)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mark(record: Record | None) -> str:
    """A throughput with its footnotes."""
    if record is None:
        return "–"
    return _short(rate(record)) + ("†" if not record["finished"] else "") + _read_sign(record)


def _read_sign(record: Record) -> str:
    return "§" if "fresh_tuples_per_second" in record else ""


def _short(number: float) -> str:
    if not math.isfinite(number):
        return "–"
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.2f}{letter}"
    return f"{number:.2f}"


def _times(number: float, sign: str = "", record: Record | None = None) -> str:
    """A ratio, with the footnote of the measurement it comes from."""
    if not math.isfinite(number):
        return "–"
    figure = f"{number:,.0f}x" if number >= 100 else f"{number:.2f}x" if number >= 0.1 else f"{number:.2g}x"
    return sign + figure + ("†" if record and not record["finished"] else "")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(write(Path(name), sorted(Path(name).parent.glob(f"{Path(name).stem}-*.png"))))
