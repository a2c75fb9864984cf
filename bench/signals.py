"""What signals cost: FFT and FIR beside plain SciPy, groups beside pandas, overlap and add, the latency of a batch.

python -m bench.signals --out docs/benchmarks/signals.md
python -m bench.signals --samples 2000000

Every figure comes from a process of its own: the median of CPU seconds of several runs, ours and the rival's taking
turns. Rivals get arrays or data frames that are sorted by time; pandas is measured on a share of the groups where there
are many, and its time multiplied.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from bench.isolation import ROOT, isolated

PAGE = """# signals

What signals cost, written by `python -m bench.signals` ({facts}). Every figure is from a process of its own, in
nanoseconds of CPU time per sample: the median of several runs, ours and the rival's taking turns.

## The cost of the embedding: one signal, array in and array out

{samples:,} samples. *plain* is `scipy.fft.rfft` of all windows at once, or `scipy.signal.oaconvolve` (up to 256 taps
`numpy.convolve`, where that is faster). *online* has arrays of 65,536 samples pushed one after the other; *per window*
is a call of `rfft` for each window.

{embedding}

## Many groups

Arrow tables of (group, time, value), the groups interleaved. *correlate* is with 32 values; *upsample and filter* is
query 4 of the thesis: a signal with period 20 upsampled to 5, added to another, filtered. The rival is `groupby.apply`
of pandas with NumPy, which returns time and value of each group; it is given one in so many groups that 2,000 are left,
and its time multiplied. *peak MB* is that of the process behind our first run, with the table. PySpark correlates by
`applyInPandas` on two cores, from a file, with a tenth of the samples, and from 100,000 groups on a tenth of the
groups; its time is that of all its processes behind a first job.

{groups}

*online*: the same correlation as a view over a stream, in batches that have one sample in ten of every group.

{online}

## tempo

A sample every second by linear interpolation of readings at irregular times, in {tempo_groups} groups
({tempo_samples:,} readings). The rival is `TSDF.interpolate` of dbl-tempo on Spark, with two cores.

{tempo}

## Overlap and add

100 groups, windows of 256, `fft().ifft().overlap_add()`. *by hand* is the same loop over groups and windows in NumPy,
from the same table, which it sorts by group, to a table with the same columns; *arrays* is the loop alone, from an
array for each group, and gives no table. Peak memory is that of the process behind our first run.

{overlap}

## A batch

10,000 events over 10,000 groups through `sample(..., "linear")` and `sosfilt` (two sections) of a view over a
stream: {latency} ms of CPU time for a warm batch (an Arrow table).
"""
PLOT = "\n![throughput and memory by window, taps, groups and hop](signals.png)\n"
FFT_SIZES, FIR_TAPS = (64, 256, 1024, 4096), (64, 256, 1024, 2048)
GROUPS, HOPS = (10, 1_000, 100_000, 1_000_000), (256, 64, 16, 4, 1)


@dataclass(frozen=True)
class Run:
    """One line of a table: what is measured, with which size, on how many samples."""

    what: str
    size: int
    samples: int


def turns(actions: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """The median CPU seconds of each action, taking turns."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            started = time.process_time()
            action()
            if number:
                found[name].append(time.process_time() - started)
    return {name: median(times) for name, times in found.items()}


def per_sample(seconds: dict[str, float], samples: int) -> dict[str, float]:
    return {name: each / samples * 1e9 for name, each in seconds.items()}


def one_signal() -> Any:
    from viewlet.signals import source

    return source(time="t", value="x", is_timestamp=False).sample(1)


def pushed(query: Any, x: Any, size: int = 65_536) -> None:
    run = query.start()
    for begin in range(0, len(x), size):
        run.push(x[begin : begin + size])


def fft(run: Run) -> dict[str, float]:
    """Spectra of tumbling windows."""
    import numpy as np
    import scipy.fft

    x = np.random.default_rng(0).normal(size=run.samples)
    query = one_signal().window(run.size).rfft()
    whole = x[: len(x) // run.size * run.size].reshape(-1, run.size)

    def each() -> None:
        for row in whole:
            scipy.fft.rfft(row)

    query.run(x)
    peak = peak_memory()
    actions = {"ours": lambda: query.run(x), "plain": lambda: scipy.fft.rfft(whole)}
    found = turns({**actions, "online": lambda: pushed(query, x), "per window": each}, 3)
    return {**per_sample(found, run.samples), "MB": peak}


def fir(run: Run) -> dict[str, float]:
    """Long and short convolutions."""
    import numpy as np
    import scipy.signal

    random = np.random.default_rng(0)
    x, taps = random.normal(size=run.samples), random.normal(size=run.size)
    query = one_signal().fir(taps)
    query.run(x)
    peak = peak_memory()
    actions = {"ours": lambda: query.run(x), "plain": lambda: scipy.signal.oaconvolve(x, taps)}
    if run.size <= 256:
        actions["direct"] = lambda: np.convolve(x, taps)
    found = turns({**actions, "online": lambda: pushed(query, x)}, 3)
    found["plain"] = min(found["plain"], found.pop("direct", found["plain"]))
    return {**per_sample(found, run.samples), "MB": peak}


def interleaved(groups: int, samples: int, period: int = 1, seed: int = 0) -> Any:
    import numpy as np
    import pyarrow as pa

    count = max(1, samples // groups)
    return pa.table(
        {
            "g": np.tile(np.arange(groups), count),
            "t": np.repeat(np.arange(count) * period, groups),
            "x": np.random.default_rng(seed).random(count * groups),
        }
    )


def peak_memory() -> float:
    """The most megabytes that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def share(groups: int) -> int:
    """The part of the groups that pandas is given."""
    return max(1, groups // 2_000)


def correlate(run: Run) -> dict[str, float]:
    """Query 3."""
    import numpy as np
    import pandas as pd
    import pyarrow.compute as pc

    from viewlet.signals import source

    values = np.random.default_rng(1).normal(size=32)
    table = interleaved(run.size, run.samples)
    query = source(key="g", time="t", value="x", is_timestamp=False).sample(1).correlate(values)
    frame = table.filter(pc.less(table["g"], run.size // share(run.size))).to_pandas()

    def one(group: Any) -> Any:
        if len(group) < len(values):
            return pd.DataFrame({"t": group.t[:0], "y": group.x[:0]})
        return pd.DataFrame({"t": group.t[31:], "y": np.correlate(group.x.to_numpy(), values, "valid")})

    query.run(table)
    peak = peak_memory()
    found = turns({"ours": lambda: query.run(table), "pandas": lambda: frame.groupby("g")[["t", "x"]].apply(one)}, 3)
    seconds = {"ours": found["ours"], "pandas": found["pandas"] * share(run.size)}
    return {**per_sample(seconds, table.num_rows), "MB": peak}


def online(run: Run) -> dict[str, float]:
    """Query 3 over a stream: every batch has as many samples of every group."""
    import numpy as np
    import pyarrow as pa

    import viewlet

    values = np.random.default_rng(1).normal(size=32)
    db = viewlet.connect()
    db.execute("CREATE STREAM r (g BIGINT NOT NULL, t BIGINT NOT NULL, x DOUBLE)")
    db.create_view("v", db.signal("r", key="g", time="t", value="x").sample(1).correlate(values), retain=1)
    each = run.samples // run.size // 10
    seconds = []
    for number in range(10):
        batch = interleaved(run.size, run.samples // 10, seed=number)
        batch = batch.set_column(1, "t", pa.array(batch["t"].to_numpy() + number * each))
        started = time.process_time()
        db.insert("r", batch)
        seconds.append(time.process_time() - started)
    return {"ours": median(seconds) / (run.samples / 10) * 1e9, "MB": peak_memory()}


def is_extreme(x: Any) -> Any:
    """The condition of query 4."""
    return (x < 0.0001) | (x > 1.9999)


def upsample(run: Run) -> dict[str, float]:
    """Query 4: `samples` of the finer signal, a quarter as many of the other."""
    import numpy as np
    import pandas as pd
    import pyarrow.compute as pc

    from viewlet.signals import source

    coarse = interleaved(run.size, run.samples // 4, 20, 1)
    fine = interleaved(run.size, coarse.num_rows * 4, 5, 2)
    s1, s2 = (source(name, key="g", time="t", value="x", is_timestamp=False) for name in ("s1", "s2"))
    total = s1.sample(20).resample(5, "linear", max_gap=20) + s2.sample(5)
    query = total.where("bench.signals:is_extreme")
    least = run.size // share(run.size)
    first, second = (each.filter(pc.less(each["g"], least)).to_pandas() for each in (coarse, fine))

    def rival() -> None:
        known = dict(iter(first.groupby("g")))

        def one(group: Any) -> Any:
            other = known[group.name]
            inside = group.t.to_numpy() <= other.t.to_numpy()[-1]
            t, x = group.t.to_numpy()[inside], group.x.to_numpy()[inside]
            y = np.interp(t, other.t.to_numpy(), other.x.to_numpy()) + x
            kept = is_extreme(y)
            return pd.DataFrame({"t": t[kept], "y": y[kept]})

        second.groupby("g")[["t", "x"]].apply(one)

    query.run({"s1": coarse, "s2": fine})
    peak = peak_memory()
    found = turns({"ours": lambda: query.run({"s1": coarse, "s2": fine}), "pandas": rival}, 3)
    seconds = {"ours": found["ours"], "pandas": found["pandas"] * share(run.size)}
    return {**per_sample(seconds, coarse.num_rows + fine.num_rows), "MB": peak}


def overlap(run: Run) -> dict[str, float]:
    """Query 5 with hops of `size`."""
    import numpy as np
    import pyarrow as pa
    import scipy.fft

    from viewlet.signals import source

    groups = 100
    table = interleaved(groups, run.samples)
    query = source(key="g", time="t", value="x", is_timestamp=False).sample(1)
    query = query.window(256, run.size).fft().ifft().overlap_add()
    signals = np.ascontiguousarray(table["x"].to_numpy().reshape(-1, groups).T)

    def added(arrays: Any) -> list[Any]:
        sums = []
        for x in arrays:
            y = np.zeros(len(x), complex)
            windows = np.lib.stride_tricks.sliding_window_view(x, 256)[:: run.size]
            for begin in range(0, len(windows), 512):
                part = scipy.fft.ifft(scipy.fft.fft(windows[begin : begin + 512]))
                for number, row in enumerate(part, begin):
                    y[number * run.size : number * run.size + 256] += row
            sums.append(y)
        return sums

    def by_hand() -> Any:
        keys, times, values = (table[name].to_numpy() for name in ("g", "t", "x"))
        order = np.argsort(keys, kind="stable")
        sums = np.concatenate(added(np.split(values[order], np.flatnonzero(np.diff(keys[order])) + 1)))
        real, imaginary = np.ascontiguousarray(sums.real), np.ascontiguousarray(sums.imag)
        return pa.table({"g": keys[order], "t": times[order], "x_re": real, "x_im": imaginary})

    query.run(table)
    peak = peak_memory()
    actions = {"ours": lambda: query.run(table), "by hand": by_hand, "arrays": lambda: added(signals)}
    return {**per_sample(turns(actions, 3), table.num_rows), "MB": peak}


def latency(run: Run) -> dict[str, float]:
    """Milliseconds of a batch with an event for each of `size` groups."""
    import numpy as np
    import pyarrow as pa
    import scipy.signal

    import viewlet

    db = viewlet.connect()
    db.execute("CREATE STREAM r (g BIGINT NOT NULL, t BIGINT NOT NULL, x DOUBLE)")
    signal = db.signal("r", key="g", time="t", value="x").sample(10, "linear")
    db.create_view("v", signal.sosfilt(scipy.signal.butter(4, 0.2, output="sos")), retain=100)
    random, found = np.random.default_rng(0), []
    for number in range(40):
        columns = {"g": random.permutation(run.size), "t": np.full(run.size, number * 10 + 3)}
        batch = pa.table({**columns, "x": random.normal(size=run.size)})
        started = time.process_time()
        db.insert("r", batch)
        found.append(time.process_time() - started)
    return {"ours": median(found[10:]) * 1e3}


def tree_seconds() -> float:
    """CPU seconds of this process and all processes under it, those that have ended too."""
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_under(pid: int) -> bool:
        return pid == os.getpid() or (pid in found and is_under(found[pid][0]))

    return sum(seconds for pid, (_, seconds) in found.items() if is_under(pid))


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.sql.shuffle.partitions", "4")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def on_spark(work: Callable[[Any, Any], Any], table: Any) -> float:
    """CPU seconds of a job over a table in a file, behind one that warms the session up."""
    import tempfile

    import pyarrow.parquet as pq

    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/rows.parquet")
        pq.write_table(table.slice(0, 10_000), f"{folder}/few.parquet")
        for name in ("few", "rows"):
            started = tree_seconds()
            frame = work(spark, spark.read.parquet(f"{folder}/{name}.parquet"))
            frame.write.format("noop").mode("overwrite").save()
    found = tree_seconds() - started
    spark.stop()
    return found


def pyspark(run: Run) -> dict[str, float]:
    """Query 3 by `applyInPandas`; of many groups, a tenth."""
    import numpy as np
    import pandas as pd

    values = np.random.default_rng(1).normal(size=32)
    groups = run.size // 10 if run.size >= 100_000 else run.size
    table = interleaved(groups, max(run.samples, 40 * groups))

    def one(group: Any) -> Any:
        x = group.x.to_numpy()
        if len(x) < 32:
            return pd.DataFrame({"g": group.g[:0], "t": group.t[:0], "y": group.x[:0]})
        return pd.DataFrame({"g": group.g[31:], "t": group.t[31:], "y": np.correlate(x, values, "valid")})

    seconds = on_spark(lambda _, frame: frame.groupBy("g").applyInPandas(one, "g long, t long, y double"), table)
    return per_sample({"pyspark": seconds}, table.num_rows)


def tempo(run: Run) -> dict[str, float]:
    """A sample every second of readings at irregular times, by linear interpolation; `dbl-tempo` is the rival."""
    import numpy as np
    import pyarrow as pa

    from viewlet.signals import source

    count = run.samples // run.size
    times = np.cumsum(np.random.default_rng(2).integers(1_000_000, 3_000_000, (count, run.size)), axis=0)
    columns = {"g": np.tile(np.arange(run.size), count), "x": np.random.default_rng(3).random(count * run.size)}
    table = pa.table({**columns, "t": pa.array(times.reshape(-1)).cast(pa.timestamp("us"))})

    def work(spark: Any, frame: Any) -> Any:
        from tempo import TSDF

        rows = TSDF(frame.withColumn("t", frame.t.cast("timestamp")), ts_col="t", partition_cols=["g"])
        return rows.interpolate(freq="1 second", func="mean", target_cols=["x"], method="linear").df

    query = source(key="g", time="t", value="x", ticks=1_000_000).sample("1s", "linear")
    ours = turns({"ours": lambda: query.run(table)}, 3)["ours"]
    return per_sample({"ours": ours, "tempo": on_spark(work, table)}, table.num_rows)


MEASURES: dict[str, Callable[[Run], dict[str, float]]] = {
    "fft": fft,
    "fir": fir,
    "correlate": correlate,
    "upsample": upsample,
    "overlap": overlap,
    "latency": latency,
    "online": online,
    "pyspark": pyspark,
    "tempo": tempo,
}
Figures = dict[Run, dict[str, float] | None]


def runs(samples: int, largest: int = 10**6) -> Iterator[Run]:
    for size in FFT_SIZES:
        yield Run("fft", size, samples)
    for taps in FIR_TAPS:
        yield Run("fir", taps, samples)
    for what in ("correlate", "upsample"):
        for groups in GROUPS:
            if groups <= largest:
                yield Run(what, groups, max(samples, (40 if what == "correlate" else 20) * groups))
    yield Run("online", 1_000_000, 5 * samples)
    for groups in GROUPS[:-1]:
        yield Run("pyspark", groups, samples // 10)
    yield Run("tempo", 100, samples // 100)
    for hop in HOPS:
        yield Run("overlap", hop, max(100 * 512, samples // (20 if hop > 16 else 200)))
    yield Run("latency", 10_000, 0)


def number(found: dict[str, float] | None, name: str) -> str:
    if found is None or name not in found:
        return "–"
    return f"{found[name]:,.0f}" if found[name] >= 100 else f"{found[name]:.3g}"


def ratio(found: dict[str, float] | None, above: str, below: str) -> str:
    return "–" if found is None or above not in found or below not in found else f"{found[above] / found[below]:.2f}"


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


HEAD = ["what", "groups", "samples"]


def page(figures: Figures, samples: int) -> str:
    """The tables in Markdown."""
    embedding, groups, added, streamed, rival = [], [], [], [], []
    delay, tempo_run = "–", Run("tempo", 0, 0)
    spark = {run.size: found for run, found in figures.items() if run.what == "pyspark"}
    for run, found in figures.items():
        if run.what in ("fft", "fir"):
            cells = [number(found, name) for name in ("ours", "plain", "online", "per window")]
            embedding.append([run.what, f"{run.size:,}", *cells, ratio(found, "ours", "plain")])
        elif run.what in ("correlate", "upsample"):
            label = {"upsample": "upsample and filter"}.get(run.what, run.what)
            there = spark.get(run.size) if run.what == "correlate" else None
            both = {**(found or {}), **(there or {})}
            cells = [number(both, name) for name in ("ours", "pandas", "pyspark", "MB")]
            ratios = [ratio(both, name, "ours") for name in ("pandas", "pyspark")]
            groups.append([label, f"{run.size:,}", f"{run.samples:,}", *cells, *ratios])
        elif run.what == "online":
            streamed.append([f"{run.size:,}", f"{run.samples:,}", number(found, "ours"), number(found, "MB")])
        elif run.what == "tempo":
            tempo_run = run
            rival.append([number(found, "ours"), number(found, "tempo"), ratio(found, "tempo", "ours")])
        elif run.what == "pyspark":
            continue
        elif run.what == "overlap":
            cells = [number(found, name) for name in ("ours", "by hand", "arrays", "MB")]
            added.append([str(run.size), f"{run.samples:,}", *cells, ratio(found, "by hand", "ours")])
        else:
            delay = number(found, "ours")
    return PAGE.format(
        facts=f"Python {platform.python_version()}, {os.cpu_count()} cores",
        samples=samples,
        embedding=table(["what", "size", "ours", "plain", "online", "per window", "ours / plain"], embedding),
        groups=table([*HEAD, "ours", "pandas", "PySpark", "peak MB", "pandas / ours", "PySpark / ours"], groups),
        online=table([*HEAD[1:], "ours", "peak MB"], streamed),
        tempo=table(["ours", "tempo", "tempo / ours"], rival),
        tempo_groups=tempo_run.size,
        tempo_samples=tempo_run.samples,
        overlap=table(["hop", "samples", "ours", "by hand", "arrays", "peak MB", "by hand / ours"], added),
        latency=delay,
    )


PLOTS = (
    ("window", "fft", ("ours", "plain", "online", "per window")),
    ("taps", "fir", ("ours", "plain", "online")),
    ("groups", "correlate", ("ours", "pandas")),
    ("groups", "upsample", ("ours", "pandas")),
    ("hop", "overlap", ("ours", "by hand")),
)
"""Figures 7.8 to 7.12."""


def draw(figures: Figures, target: Path) -> None:
    """Throughput above, memory below, against the sizes of windows and filters, the number of groups and the hop."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(PLOTS), figsize=(4 * len(PLOTS), 6))
    for column, (label, what, names) in enumerate(PLOTS):
        lines = {run.size: found for run, found in figures.items() if run.what == what and found is not None}
        for name in names:
            rates = [1e3 / found[name] for found in lines.values()]
            axes[0, column].plot(list(lines), rates, marker="o", label=f"{what}, {name}")
        axes[1, column].plot(list(lines), [found["MB"] for found in lines.values()], marker="o", label=f"{what}, ours")
        for each, shown in zip(axes[:, column], ("million samples a second", "peak MB"), strict=True):
            each.set(xlabel=label, ylabel=shown, xscale="log", yscale="log")
            each.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def main(
    samples: Annotated[int, typer.Option(help="samples of a figure")] = 20_000_000,
    only: Annotated[str, typer.Option(help="measure these only, by name")] = "",
    largest: Annotated[int, typer.Option(help="the largest number of groups")] = 10**6,
    keep: Annotated[
        Path | None, typer.Option(help="a file of figures, to which those that are measured are added")
    ] = None,
    timeout: Annotated[float, typer.Option(help="seconds per figure")] = 600.0,
    out: Annotated[Path | None, typer.Option(help="a file for the tables; a plot is drawn beside it")] = None,
    worker: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure what signals cost, and print tables in Markdown."""
    if worker is not None:
        run = Run(**json.loads(worker))
        print(json.dumps(MEASURES[run.what](run)))
        return
    held = json.loads(keep.read_text()) if keep is not None and keep.exists() else []
    known = {Run(**run): found for run, found in held}
    figures: Figures = {}
    for run in runs(samples, largest):
        if only and run.what not in only.split(","):
            if run in known:
                figures[run] = known[run]
            continue
        figures[run] = isolated("bench.signals", asdict(run), ROOT / "src", timeout)
        print(run, figures[run], flush=True)
        if keep is not None:
            known[run] = figures[run]
            keep.write_text(json.dumps([[asdict(each), found] for each, found in known.items()]))
    text = page(figures, samples)
    print(text)
    if out is not None:
        out.write_text(text)
        try:
            draw(figures, out.with_suffix(".png"))
            out.write_text(text + PLOT)
        except ImportError:
            print("no plot: matplotlib is not installed (pip install -r bench/requirements.txt)")


if __name__ == "__main__":
    typer.run(main)
