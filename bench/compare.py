"""Two source trees side by side: the benchmark queries before and after a change, in one run.

    git worktree add ../before main~20
    python -m bench.compare --before ../before --scale 0.1

Each tree measures with its own `bench.worker`, in processes that take turns, so that a noisy minute spoils both. What
counts is the better of the passes of each tree, the ratio of a query, and the geometric mean of the ratios.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from bench.records import Record
from bench.run import ROOT, WORKLOADS, isolated, names
from bench.worker import Spec


@dataclass(slots=True)
class Pair:
    """Tuples a second of one query in both trees, the best pass of each."""

    query: str
    before: float = 0.0
    after: float = 0.0
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after else None


def main(
    before: Annotated[Path, typer.Option(help="a checkout of the project as it was")],
    workload: Annotated[str, typer.Option(help="tpch, finance or all")] = "all",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor")] = 0.1,
    queries: Annotated[str, typer.Option(help="q01,axf,...; all when empty")] = "",
    rounds: Annotated[int, typer.Option(help="how often the trees take turns")] = 2,
    timeout: Annotated[float, typer.Option(help="seconds per measurement")] = 30.0,
    finance_file: Annotated[str, typer.Option(help="csv.gz of order-book messages; generated when empty")] = "",
    data: Annotated[Path, typer.Option(help="where generated tables are kept")] = ROOT / "bench" / "results" / "data",
    out: Annotated[Path | None, typer.Option(help="a file for the table")] = None,
) -> None:
    """Measure both trees, and print the ratios."""
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as caches:
        for name in list(WORKLOADS) if workload == "all" else [workload]:
            base = Spec(
                name, "", scale=scale if name == "tpch" else 0.0, stream="insert" if name == "tpch" else "book",
                finance_file=str(Path(finance_file).resolve()) if finance_file else "", data=str(data.resolve()),
                repeats=3, timeout=timeout,
            )  # fmt: skip
            for query in WORKLOADS[name]:
                if not queries or query in names(queries):
                    pairs.append(_measured(replace(base, query=query), before.resolve(), rounds, Path(caches)))
                    print(_line(pairs[-1]), flush=True)
    text = table(pairs)
    print(text)
    if out is not None:
        out.write_text(text)


def _measured(spec: Spec, before: Path, rounds: int, caches: Path) -> Pair:
    pair = Pair(spec.query)
    for _ in range(rounds):
        for name, tree in (("before", before), ("after", ROOT)):
            record = _in_tree(spec, tree, caches / name)
            if record.get("status") == "ok":
                setattr(pair, name, max(getattr(pair, name), record["best_tuples_per_second"]))
            else:
                pair.note = f"{name}: {record.get('status')} {record.get('note', '')}".strip()
    return pair


def _in_tree(spec: Spec, tree: Path, cache: Path) -> Record:
    """One measurement by the code of a tree, with a cache of its own."""
    cache.mkdir(mode=0o700, exist_ok=True)
    return isolated(spec, {"VIEWLET_CACHE": str(cache), "NUMBA_CACHE_DIR": str(cache)}, tree)


def geometric_mean(ratios: list[float]) -> float:
    """
    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def table(pairs: list[Pair]) -> str:
    """Markdown, a line per query."""
    rows = ["| query | before, tuples/s | after, tuples/s | after ÷ before |", "|---|---|---|---|"]
    rows += [f"| {p.query} | {p.before:,.0f} | {p.after:,.0f} | {_shown(p.ratio) or p.note} |" for p in pairs]
    ratios = [pair.ratio for pair in pairs if pair.ratio is not None]
    rows.append(f"| geometric mean of {len(ratios)} | | | {geometric_mean(ratios):.3f} |")
    return "\n".join(rows) + "\n"


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _line(pair: Pair) -> str:
    return f"{pair.query}: {pair.before:,.0f} -> {pair.after:,.0f} tuples/s {_shown(pair.ratio)} {pair.note}".rstrip()


if __name__ == "__main__":
    typer.run(main)
