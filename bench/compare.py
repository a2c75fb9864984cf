"""Two source trees side by side: the benchmark queries before and after a change, in one run.

    git worktree add ../before main~20
    python -m bench.compare --before ../before --scale 0.1
    python -m bench.compare --before ../before --spark 'local[2]' --queries q03,q06

Each tree runs in a process of its own with its own `bench.measure`. The two take turns pass by pass, and change who
begins, so that a noisy moment spoils neighbours of both. What counts is the median of the ratios of two passes that
followed one another, and the geometric mean of these medians.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from bench.run import ROOT, WORKLOADS, names
from bench.worker import Spec


@dataclass(slots=True)
class Pair:
    """Tuples a second of one query in both trees, pass by pass."""

    query: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """
        >>> Pair("q", [10.0, 20.0, 5.0], [11.0, 20.0, 50.0]).ratio
        1.1
        """
        ratios = [after / before for before, after in zip(self.before, self.after, strict=True)]
        return statistics.median(ratios) if ratios else None


@dataclass(slots=True)
class Side:
    """A process with the engine of one tree."""

    process: subprocess.Popen[str]

    def run_pass(self) -> float:
        """Tuples a second of one pass over the stream."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise RuntimeError((self.process.stderr.read().strip().splitlines() or ["no output"])[-1][:300])
        tuples, seconds = json.loads(line)
        return float(tuples / seconds)


def main(
    before: Annotated[Path, typer.Option(help="a checkout of the project as it was")],
    workload: Annotated[str, typer.Option(help="tpch, finance or all")] = "all",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor")] = 0.1,
    queries: Annotated[str, typer.Option(help="q01,axf,...; all when empty")] = "",
    passes: Annotated[int, typer.Option(help="passes of each tree, at most")] = 41,
    seconds: Annotated[float, typer.Option(help="seconds per query, after which it is enough")] = 15.0,
    finance_file: Annotated[str, typer.Option(help="csv.gz of order-book messages; generated when empty")] = "",
    spark: Annotated[str, typer.Option(help="a master: batches of TPC-H on Spark instead of streams in-process")] = "",
    data: Annotated[Path, typer.Option(help="where generated tables are kept")] = ROOT / "bench" / "results" / "data",
    out: Annotated[Path | None, typer.Option(help="a file for the table")] = None,
) -> None:
    """Measure both trees, and print the ratios."""
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as caches:
        for name in ["tpch"] if spark else list(WORKLOADS) if workload == "all" else [workload]:
            base = Spec(
                name, "", scale=scale if name == "tpch" else 0.0, stream="insert" if name == "tpch" else "book",
                finance_file=str(Path(finance_file).resolve()) if finance_file else "", data=str(data.resolve()),
                engine="spark" if spark else "viewlet",
            )  # fmt: skip
            for query in WORKLOADS[name]:
                if not queries or query in names(queries):
                    spec = replace(base, query=query)
                    pairs.append(measured(spec, before.resolve(), passes, seconds, Path(caches), spark))
                    print(_line(pairs[-1]), flush=True)
    text = table(pairs)
    print(text)
    if out is not None:
        out.write_text(text)


def measured(spec: Spec, before: Path, passes: int, seconds: float, caches: Path, master: str) -> Pair:
    """Both trees in turns; the first pass of each, which may compile, does not count."""
    pair = Pair(spec.query)
    with ExitStack() as stack:
        old = stack.enter_context(side(spec, before, caches / "before", master))
        new = stack.enter_context(side(spec, ROOT, caches / "after", master))
        try:
            for each in (old, new):
                each.run_pass()
            deadline = time.perf_counter() + seconds
            while len(pair.before) < passes and (len(pair.before) < 3 or time.perf_counter() < deadline):
                order = ((old, pair.before), (new, pair.after))
                for each, rates in order if len(pair.before) % 2 else reversed(order):
                    rates.append(each.run_pass())
        except RuntimeError as error:
            pair.before, pair.after, pair.note = [], [], str(error)
    return pair


@contextmanager
def side(spec: Spec, tree: Path, cache: Path, master: str) -> Iterator[Side]:
    """A process for a tree, with a cache of its own."""
    cache.mkdir(mode=0o700, exist_ok=True)
    paths = os.pathsep.join([str(tree), str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "turns.py"), json.dumps(asdict(spec)), master],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tree,
        env=os.environ | {"PYTHONPATH": paths, "VIEWLET_CACHE": str(cache), "NUMBA_CACHE_DIR": str(cache)},
    )  # fmt: skip
    try:
        yield Side(process)
    finally:
        process.kill()
        process.communicate()


def geometric_mean(ratios: list[float]) -> float:
    """
    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def table(pairs: list[Pair]) -> str:
    """Markdown, a line per query: medians of the rates, and the median of their ratios."""
    rows = ["| query | before, tuples/s | after, tuples/s | after ÷ before | passes |", "|---|---|---|---|---|"]
    for p in pairs:
        if p.ratio is None:
            rows.append(f"| {p.query} | | | {p.note} | |")
        else:
            rates = f"{statistics.median(p.before):,.0f} | {statistics.median(p.after):,.0f}"
            rows.append(f"| {p.query} | {rates} | {p.ratio:.2f} | {len(p.before)} |")
    ratios = [pair.ratio for pair in pairs if pair.ratio is not None]
    rows.append(f"| geometric mean of {len(ratios)} | | | {geometric_mean(ratios):.3f} | |")
    return "\n".join(rows) + "\n"


def _line(pair: Pair) -> str:
    return f"{pair.query}: {'' if pair.ratio is None else f'{pair.ratio:.3f}'} {pair.note}".rstrip()


if __name__ == "__main__":
    typer.run(main)
