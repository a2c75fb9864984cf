"""The measurements of views on Spark as a Markdown page."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import Record, geometric_mean

FILE = "spark.jsonl"
FLAT = ("q01", "q03", "q05", "q07", "q08", "q09", "q10", "q12", "q14", "q19")
"""The flat queries with joins, and Q1."""
BATCH, SMALL_BATCH = 10_000, 1_000
OVERHEAD = "q06"
_IDENTITY = ("scale", "query", "what", "batch", "mode")


def identity(record: Record) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _IDENTITY)


def read(file: Path) -> list[Record]:
    """Of several measurements of the same thing, the last one."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        record = json.loads(line)
        if record["kind"] == "measurement":
            latest[identity(record)] = record
    return list(latest.values())


def machines(file: Path) -> list[Record]:
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [record for record in found if record["kind"] == "machine"]


@dataclass(frozen=True, slots=True)
class Results:
    """Measurements by what they are of."""

    known: dict[tuple[Any, ...], Record]

    @staticmethod
    def of(records: Iterable[Record]) -> Results:
        return Results({identity(record): record for record in records})

    def find(self, scale: float, query: str, what: str, batch: int | None = None, mode: str | None = None) -> Record:
        return self.known.get((scale, query, what, batch, mode), {})

    @property
    def scales(self) -> list[float]:
        return sorted({record["scale"] for record in self.known.values()})

    def queries(self, scale: float) -> list[str]:
        return sorted({record["query"] for record in self.known.values() if record["scale"] == scale})

    def firsts(self, scale: float, query: str) -> list[float]:
        """What the first batches of each kind took."""
        subject = {"scale": scale, "query": query, "what": "refresh"}.items()
        return [
            record["first_batch_seconds"]
            for record in self.known.values()
            if all(record[name] == value for name, value in subject)
        ]

    def seconds(self, scale: float, query: str, batch: int, mode: str) -> float:
        return float(self.find(scale, query, "refresh", batch, mode).get("seconds", math.nan))

    def recomputation(self, scale: float, query: str) -> float:
        return float(self.find(scale, query, "recompute").get("seconds", math.nan))

    def ratio(self, scale: float, query: str, mode: str, batch: int = BATCH, with_reading: bool = False) -> float:
        """How many times longer Spark SQL takes."""
        record = self.find(scale, query, "refresh", batch, mode)
        if not record:
            return math.nan
        own = record["seconds"] + (record["read_seconds"] if with_reading else 0.0)
        return self.recomputation(scale, query) / float(own)


def write(file: Path, plots: bool = True) -> Path:
    """Renders the JSON lines beside themselves."""
    results = Results.of(read(file))
    sections = ["# Views on Spark", _machines(file, results), *_against_recomputation(results), _growth(results)]
    sections += [_overhead(results), _bytes(results), *_sweep(file, results, plots)]
    sections += [
        *_first_load(file),
        *_reading(file),
        *_small_driver(file),
        *_scale(file),
        *_sharing(file),
        _errors(results),
    ]
    page = file.with_suffix(".md")
    page.write_text("\n\n".join(section for section in sections if section) + "\n")
    return page


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def seconds(number: float | None) -> str:
    return "–" if number is None or not math.isfinite(number) else f"{number:.3g}" if number < 100 else f"{number:.0f}"


def times(number: float) -> str:
    return f"{number:.1f}x" if math.isfinite(number) else "–"


def _machines(file: Path, results: Results) -> str:
    used = {record["run"] for record in results.known.values()}
    heads = ("run", "processor", "cores", "Spark", "its memory", "Spark version", "Python", "Numba")
    facts = [
        (m["run"], m["processor"], str(m["cores"]), m["master"], m["memory"], m["spark"], m["python"], m["numba"])
        for m in machines(file)
        if m["run"] in used
    ]
    return table(heads, facts)


def _against_recomputation(results: Results) -> list[str]:
    """A table per scale, and what it amounts to."""
    found = [f"## A batch of {BATCH:,} changes against Spark SQL", _EXPLANATION]
    for scale in results.scales:
        queries = [q for q in results.queries(scale) if math.isfinite(_best_ratio(results, scale, q))]
        if queries:
            found += [f"### Scale factor {scale:g}", _summary(results, scale, queries)]
            found.append(table(_HEADS, [_row(results, scale, query) for query in queries]))
    return found if len(found) > 2 else []


_EXPLANATION = f"""\
One session for everything. Views are over streams, on generated code, and were filled by Spark SQL with all rows but
those held back; a batch inserts rows that were held back and deletes old ones, four to one, over the tables a query
reads in proportion to their sizes. *arrow* batches are handed in at the driver, *frames* are data frames that read
Parquet files. Medians in seconds; the first batch of each kind, which compiles code or finds it in the cache, is not
among them. Spark SQL runs the query over the whole Parquet files, warm, and its answer is brought to the driver.
*Reading* brings the rows of the view to the driver afterwards. *Right*: after all batches the view was what Spark SQL
computes from what was loaded and what has changed. The last measurement of each thing counts: where only one kind of
batch was measured again, the other kind, the rows of state and the first batch are of an earlier run. The mean is the
geometric one over the flat queries with joins and Q1: {", ".join(FLAT)}."""

_HEADS = ("query", "Spark SQL", "arrow", "ratio", "frames", "ratio", "reading", "ratio of arrow with reading", "stages",
          "state rows", "load", "first batch", "right")  # fmt: skip


def _best_ratio(results: Results, scale: float, query: str) -> float:
    known = [results.ratio(scale, query, mode) for mode in ("arrow", "frames")]
    return max((ratio for ratio in known if math.isfinite(ratio)), default=math.nan)


def _summary(results: Results, scale: float, queries: list[str]) -> str:
    lines = []
    for mode in ("arrow", "frames"):
        ratios = {query: results.ratio(scale, query, mode) for query in queries}
        known = {query: ratio for query, ratio in ratios.items() if math.isfinite(ratio)}
        if known:
            mean = geometric_mean(ratio for query, ratio in known.items() if query in FLAT)
            worst = min(known, key=lambda query: known[query])
            slower = [query for query, ratio in known.items() if ratio < 1]
            lines.append(
                f"- {mode}: {times(mean)} in the mean, {times(known[worst])} at least ({worst}); "
                f"slower than Spark SQL: {', '.join(slower) or 'none'} of {len(known)}"
            )
    return "\n".join(lines)


def _row(results: Results, scale: float, query: str) -> list[str]:
    load, check = results.find(scale, query, "load"), results.find(scale, query, "check")
    own = {mode: results.find(scale, query, "refresh", BATCH, mode) for mode in ("arrow", "frames")}
    any_of = own["arrow"] or own["frames"]
    first = max(results.firsts(scale, query), default=math.nan)
    return [
        query,
        seconds(results.recomputation(scale, query)),
        seconds(own["arrow"].get("seconds")),
        times(results.ratio(scale, query, "arrow")),
        seconds(own["frames"].get("seconds")),
        times(results.ratio(scale, query, "frames")),
        seconds(any_of.get("read_seconds")),
        times(results.ratio(scale, query, "arrow", with_reading=True)),
        " / ".join(str(record["stages"]) for record in own.values() if record),
        f"{any_of.get('state_rows', 0):,}",
        seconds(load.get("load_seconds")),
        seconds(first),
        {True: "yes", False: "**no**", None: "–"}[check.get("correct")],
    ]


def _growth(results: Results) -> str:
    """The same batch over little and over much state."""
    scales = [scale for scale in results.scales if _measured(results, scale)]
    rows = []
    for query in sorted({query for scale in scales for query in _measured(results, scale)}):
        found = {scale: results.find(scale, query, "refresh", SMALL_BATCH, "arrow") for scale in scales}
        known = {scale: record for scale, record in found.items() if record}
        if len(known) > 1:
            least, most = known[min(known)], known[max(known)]
            cells = [seconds(found[scale].get("seconds")) for scale in scales]
            rows.append([query, *cells, f"{most['seconds'] / least['seconds']:.2f}"])
    if not rows:
        return ""
    heads = ("query", *(f"scale {scale:g}" for scale in scales), "largest ÷ smallest")
    return f"## A batch of {SMALL_BATCH:,} over little and much state, seconds\n\n" + table(heads, rows)


def _measured(results: Results, scale: float) -> list[str]:
    return [q for q in results.queries(scale) if results.find(scale, q, "refresh", SMALL_BATCH, "arrow")]


def _overhead(results: Results) -> str:
    rows = []
    for scale in results.scales:
        for mode in ("arrow", "frames"):
            record = results.find(scale, OVERHEAD, "refresh", SMALL_BATCH, mode)
            if record:
                ratio = record["seconds"] / record["empty_seconds"]
                own = [f"{scale:g}", mode, str(record["stages"]), seconds(record["seconds"])]
                rows.append([*own, seconds(record["empty_seconds"]), f"{ratio:.2f}"])
    if not rows:
        return ""
    text = "An empty job is one stage, a task per core in Python workers, that does nothing; one ran before each batch."
    heads = ("scale", "handed in as", "stages", "batch, s", "empty job, s", "ratio")
    return f"## Q6, a batch of {SMALL_BATCH:,}, against an empty job\n\n{text}\n\n" + table(heads, rows)


def _bytes(results: Results) -> str:
    """What a small batch writes."""
    rows = []
    for scale in results.scales:
        for query in _measured(results, scale):
            record = results.find(scale, query, "refresh", SMALL_BATCH, "arrow")
            written = record["checkpoint_growth"] + record["undo_bytes"]
            counts = [
                f"{record[name]:,}" for name in ("changed_rows", "packed_bytes", "checkpoint_growth", "undo_bytes")
            ]
            packed = max(record["packed_bytes"], 1)
            rows.append([f"{scale:g}", query, *counts, f"{written / packed:.2f}", f"{max(0, written - 3 * packed):,}"])
    if not rows:
        return ""
    text = """\
Rows of all views that a batch changed, in all partitions and at the driver, packed: 8 bytes for each word of their keys
and numbers. Written: what the checkpoint directory grew by (the log and the manifest), and what each partition notes in
order to be able to take the batch back. Arrays of state are changed in place."""
    heads = (
        "scale",
        "query",
        "changed rows",
        "packed bytes",
        "log",
        "to take back",
        "written ÷ packed",
        "more than 3x, by",
    )
    return f"## Bytes of a batch of {SMALL_BATCH:,}\n\n{text}\n\n" + table(heads, rows)


def _sweep(file: Path, results: Results, plots: bool) -> list[str]:
    """Where the lines cross."""
    sizes = sorted({record["batch"] for record in results.known.values() if record["what"] == "refresh"})
    if len(sizes) < 3:
        return []
    rows = []
    for mode in ("arrow", "frames"):
        for scale in results.scales:
            for query in results.queries(scale):
                cells = [results.seconds(scale, query, size, mode) for size in sizes]
                if sum(map(math.isfinite, cells)) > 2:
                    own = [seconds(cell) for cell in cells]
                    rows.append([query, f"{scale:g}", mode, *own, seconds(results.recomputation(scale, query))])
    heads = ("query", "scale", "handed in as", *(f"{size:,}" for size in sizes), "Spark SQL")
    found = ["## Batch sizes, seconds", table(heads, sorted(rows))]
    if plots and rows:
        found += [f"![{path.stem}]({path.name})" for path in _drawn(file)]
    return found


def _scale(file: Path) -> list[str]:
    """What `spark_scale` measured; of several measurements of the same thing, the last one."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "scale":
            same = ("what", "batches", "megabytes", "mode", "preferred", "executors", "killed")
            latest[
                tuple(str(record.get(name)) for name in same if record["what"] != "share" or name != "megabytes")
            ] = record
    found = list(latest.values())
    if not found:
        return []
    loads = [record["load"] for record in found]
    text = (
        f"Measured by `bench/spark_scale.py` on two cores with a load between {min(loads)} and {max(loads)}, its own\n"
        "included: ratios and bytes count, seconds do not."
    )
    parts = [_rebuilt(found), _moved(found), _stayed(found), _shares(found)]
    return ["## What grows with the data", text, *(part for part in parts if part)]


def _shares(found: list[Record]) -> str:
    """The state of each executor."""
    rows = [
        (
            str(r["executors"]),
            f"{r['groups']:,}",
            " + ".join(f"{each:g}" for each in r["megabytes"]),
            " + ".join(f"{each:g}" for each in r["megabytes_after"]) if r["killed"] else "–",
            "yes" if r["right"] else "**no**",
        )
        for r in found
        if r["what"] == "share"
    ]
    if not rows:
        return ""
    text = (
        "### State of executors\n\n"
        "Mapped state of a view in eight partitions, on executors with folders of their own;\n"
        "that of the killed one is still there."
    )
    heads = ("executors", "groups", "MB of each", "MB of each after one was killed and a batch applied", "right")
    return f"{text}\n\n{table(heads, rows)}"


def _first_load(file: Path) -> list[str]:
    """What `spark_load` measured; of several measurements of the same thing, the last one of each version."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "first load":
            latest[record["scale"], record["queries"], record["mode"], record.get("version", "now")] = record
    if not latest:
        return []
    loads = [record["load"] for record in latest.values()]
    text = f"""\
Views and the tables that they read, which keep their rows, get all rows in one batch; beside them, Spark SQL runs the
same queries one after the other, in the same session: *cold* is the first run, *warm* the median of later ones. The
*first* load starts Python workers, and Java compiles code for it; *later* is another one in the same session, into a
directory of its own. Processor seconds are those of the driver, of Java and of Python workers. *Before* is the version
that loaded views one after the other, and small tables by triggers; *again* is a later measurement of what is there
now, on a busier machine. Measured by `bench/spark_load.py` on two cores with a load between {min(loads)} and
{max(loads)}, its own included: ratios count, seconds do not. Of the processor time of a first load, a third is Java's
compilers at work, a sixth are Python workers, which start, and a tenth is the collection of garbage."""
    rows = [_first_load_row(key, record, unit) for key, record in latest.items() for unit in ("seconds", "cpu")]
    heads = ("scale", "queries", "rows as", "version", "measured", "cold", "warm", "first", "later", "first ÷ cold",
             "first ÷ warm", "later ÷ warm", "right")  # fmt: skip
    return ["## The first load", text, table(heads, rows)]


def _first_load_row(key: tuple[Any, ...], record: Record, unit: str) -> list[str]:
    cold, warm = record[f"cold_{unit}"], record[f"warm_{unit}"]
    first, later = record[f"first_load_{unit}"], record.get(f"load_{unit}", math.nan)
    scale, queries, mode, version = key
    measured = "seconds" if unit == "seconds" else "processor seconds"
    right = record["first_correct"] and record.get("correct", True)
    numbers = [*map(seconds, (cold, warm, first, later)), *map(times, (first / cold, first / warm, later / warm))]
    return [f"{scale:g}", queries, mode, version, measured, *numbers, "yes" if right else "**no**"]


def _reading(file: Path) -> list[str]:
    """What `spark_read` measured; of several measurements of the same thing, the last one."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] in ("read", "read before"):
            latest[record["kind"], record.get("view", "groups"), record["rows"], record["what"]] = record
    found = {key[1:]: record for key, record in latest.items() if key[0] == "read"}
    if not found:
        return []
    loads = [record["load"] for record in latest.values()]
    text = (
        "Views with a row per key as `to_spark()`, and the same rows from Parquet files. *groups* is made of one\n"
        "stored view (a key, a decimal, a count), *extremes* (MIN, MAX, COUNT) of the groups and of the values of\n"
        "each, *joined* of two aggregates, *large* and *share* of the groups and of a number at the driver.\n"
        "*scan* reads all columns and drops them, *first* is the first scan after the load, *batch* inserts 1,000\n"
        "rows while the changes of the view are kept. *Before* is the version in which results over several\n"
        "stored views were evaluated in Python. Measured by `bench/spark_read.py` on two cores with a load between\n"
        f"{min(loads)} and {max(loads)}, its own included. Memory is what the driver's Python process took more,\n"
        "before and now. Spark counts the rows of Parquet files without reading them."
    )
    views = list(dict.fromkeys(view for view, *_ in found))
    ordered = sorted(found, key=lambda key: (views.index(key[0]), key[1]))
    rows = [_read_row(found[key], key[0], latest.get(("read before", *key))) for key in ordered]
    timed = ("before, s", "now, s", "Parquet, s", "ratio")
    heads = ("view", "rows", "action", *timed, "driver, more MB", "first, s", "load of the view, s")
    return ["## Views as data frames", text, table(heads, rows)]


def _read_row(now: Record, view: str, before: Record | None) -> tuple[str, ...]:
    """A line of the table of `spark_read`; batches have nothing to do with Parquet."""
    earlier = "" if before is None else seconds(before["view_seconds"])
    line = (view, f"{now['rows']:,}", now["what"], earlier, seconds(now["view_seconds"]))
    if "parquet_seconds" not in now:
        return (*line, "", "", "", "", "")
    memory = "" if before is None else f"{before['view_megabytes']} / "
    return (
        *line,
        seconds(now["parquet_seconds"]),
        f"{now['view_seconds'] / now['parquet_seconds']:.1f}x",
        f"{memory}{now['view_megabytes']}",
        seconds(now["first_seconds"]),
        seconds(now["load_seconds"]),
    )


def _small_driver(file: Path) -> list[str]:
    """What `spark_driver` measured; of several measurements of the same thing, the last one of each side."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "driver":
            known = latest.setdefault((record["what"], record["rows"]), {})
            known.setdefault("digests", {}).update({side: record.get("digest") for side in record})
            if "digest" in record:
                known.pop("right", None)
            known.update(record)
    latest = {key: record for key, record in latest.items() if {"view", "by_hand"} <= record.keys()}
    if not latest:
        return []
    loads = [record["load"] for record in latest.values()]
    text = (
        "Batches as Parquet files, beside a driver with 1 GB for its JVM: the last batch of a view whose changes\n"
        "are kept, and the job that a user writes by hand (aggregate the batch, add the old contents, group, write;\n"
        "a join is evaluated again). Then the view is written to Parquet, and a job reads the changes of the batch.\n"
        f"Measured by `bench/spark_driver.py` with a load between {min(loads)} and {max(loads)}, its own included."
    )

    def cells(told: Record) -> tuple[str, str]:
        return seconds(told["seconds"]), f"{told['python']} / {told['jvm']}"

    rows = [
        (
            r["what"],
            f"{r['rows']:,}",
            f"{r['groups']:,}",
            *cells(r["view"]),
            *cells(r["by_hand"]),
            seconds(r["write"]["seconds"]),
            seconds(r["follow"]["seconds"]),
            "yes" if r.get("right") or r["digests"]["view"] == r["digests"]["by_hand"] else "**no**",
        )
        for r in latest.values()
    ]
    memory = "driver, more MB of Python / JVM"
    heads = (
        "view",
        "batch",
        "rows of the view",
        "view, s",
        memory,
        "by hand, s",
        memory,
        "write, s",
        "follow, s",
        "right",
    )
    return ["## A small driver", text, table(heads, rows)]


def _sharing(file: Path) -> list[str]:
    """What `spark_sharing` measured; of several measurements of the same thing, the last one."""
    latest: dict[tuple[Any, ...], Record] = {}
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "sharing":
            record.setdefault("queries", "equal" if record.get("equal") else "different")
            latest[tuple(record.get(fact) for fact in ("what", "where", "views", "queries", "groups"))] = record
    if not latest:
        return []
    loads = [record["load"] for record in latest.values()]
    text = (
        "1,250 rows at a time for views over the same two streams, the median of five batches after the first: CPU\n"
        "seconds of the interpreter and of four partitions in one process, seconds on Spark. Equal views have the\n"
        "same query. Others select from the same groups (HAVING): they are kept once. Others have one of three\n"
        "GROUP BYs and a sum of their own over the same join, or differ in a condition on one of the streams: what\n"
        "they have in common is kept once. On Spark their units become one before the first batch, which includes\n"
        "planning that.\n"
        f"Measured by `bench/spark_sharing.py` with a load between {min(loads)} and {max(loads)}."
    )
    measured = list(latest.values())
    places = {"process": "interpreter", "partitions": "four partitions", "spark": "Spark, two cores"}
    rows = [
        (
            places[r["where"]],
            str(r["views"]),
            r["queries"],
            seconds(r["declare_seconds"]) if "declare_seconds" in r else "",
            seconds(r["first_seconds"]) if "first_seconds" in r else "",
            seconds(r["seconds"]),
            f"{r['state_rows']:,}",
        )
        for r in _of(measured, "sharing")
    ]
    moved = [
        (
            f"{r['groups']:,}",
            f"{r['before']} to {r['after']}",
            seconds(r["moved_seconds"]),
            seconds(r["filled_seconds"]),
        )
        for r in _of(measured, "relocation")
    ]
    heads = ("where", "views", "queries", "declared, s", "first batch, s", "a batch, s", "rows of state")
    return [
        "## Views that share, and state that moves",
        text,
        table(heads, rows),
        "`repartition` of a view, beside the batch that filled it: CPU seconds of tasks in one process, interpreted.",
        table(("groups", "partitions", "move, s", "fill, s"), moved),
    ]


def _of(records: Sequence[Record], what: str) -> list[Record]:
    return [record for record in records if record["what"] == what]


def _rebuilt(records: Sequence[Record]) -> str:
    rows = [
        (
            str(r["steps"]),
            str(r["partitions"]),
            f"{r['log_bytes'] / 1e6:.1f}",
            f"{r['read_bytes'] / 1e6:.1f}",
            str(r["reads"]),
            f"{r['read_bytes'] / r['log_bytes']:.2f}",
            f"{r['log_bytes'] * r['steps'] * r['partitions'] / 1e6:,.0f}",
        )
        for r in _of(records, "rebuild")
    ]
    heads = ("steps in the log", "partitions", "log, MB", "read, MB", "reads", "read ÷ log", "whole logs, MB")
    text = "All partitions are rebuilt from a log. *Whole logs*: what reading the whole log for every step would take."
    return f"### Rebuilding partitions\n\n{text}\n\n{table(heads, rows)}"


def _moved(records: Sequence[Record]) -> str:
    by = {(r["megabytes"], r["mode"]): r for r in _of(records, "moves")}
    rows = []
    for size in sorted({size for size, _ in by}):
        each = [by.get((size, mode), {}) for mode in ("driver", "files")]
        peaks = [f"{r['python_megabytes']} / {r['jvm_megabytes']}" if r else "–" for r in each]
        rows.append((str(size), seconds(each[0].get("seconds")), peaks[0], seconds(each[1].get("seconds")), peaks[1]))
    heads = ("MB", "driver, s", "driver, more MB of Python / JVM", "files, s", "files, more MB of Python / JVM")
    limit = max((r["inline_bytes"] for r in _of(records, "moves")), default=0) >> 20
    text = (
        "Two stages of four tasks on two executors; every task of the first sends incompressible bytes to every\n"
        f"task of the second. A stage moves up to {limit} MB through the driver, and more through files."
    )
    return f"### Moves between stages\n\n{text}\n\n{table(heads, rows)}"


def _stayed(records: Sequence[Record]) -> str:
    rows = [
        (
            "the one that has the state" if r["preferred"] else "none",
            f"{r['moved']} of {r['of']}",
            seconds(r["seconds_a_stage"]),
        )
        for r in _of(records, "locality")
    ]
    text = "Stages of eight tasks on two executors of one core each; a task takes 20 ms."
    heads = ("preferred executor", "partitions that changed executors", "a stage, s")
    return f"### Partitions and executors\n\n{text}\n\n{table(heads, rows)}"


def _drawn(file: Path) -> list[Path]:
    try:
        from bench.spark_plot import draw
    except ImportError:
        print("no new plots: matplotlib is not installed (pip install -r bench/requirements.txt)")
        return sorted(file.parent.glob(f"{file.stem}-*.png"))
    return draw(file)


def _errors(results: Results) -> str:
    failed = [record for record in results.known.values() if record["status"] != "ok"]
    done = {(record["scale"], record["query"]) for record in results.known.values() if record["what"] == "check"}
    failed = [record for record in failed if (record["scale"], record["query"]) not in done]
    if not failed:
        return ""
    rows = [[f"{record['scale']:g}", record["query"], record.get("note", "").replace("|", "/")] for record in failed]
    return "## Not measured\n\n" + table(("scale", "query", "why"), rows)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(write(Path(name)))
