"""Triangles under updates: how costs grow, throughput beside other strategies, and pauses.

python -m bench.graphs --out docs/benchmarks/graphs.md
python -m bench.graphs --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.graph_costs import Tradeoff, exponents, show_pauses, show_tradeoff, space, tradeoff
from bench.graph_throughput import GRAPHS, throughput
from bench.split_costs import show_splits

SECTIONS = ("exponents", "space", "tradeoff", "throughput", "pauses", "four")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--largest", type=float, default=1e7, help="tuples of the largest database")
    parser.add_argument("--edges", type=int, default=3_000_000, help="edges of the graphs for throughput")
    parser.add_argument("--rounds", type=int, default=5, help="how often the strategies take turns; the median counts")
    parser.add_argument("--without", default="-", help="beginnings of names that are left out, with ; between them")
    parser.add_argument("--graphs", default="hubs,power_law", help="the graphs for throughput")
    parser.add_argument("--updates", type=int, default=200_000, help="single updates for pauses")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="which parts of the page")
    parser.add_argument("--out", type=Path, help="a file for the tables; a plot is drawn beside it")
    given = parser.parse_args()
    if given.quick:
        given.largest, given.edges, given.rounds, given.updates = 500, 200, 1, 100
    lines: list[str] = []
    for line in _page(given):
        print(line, flush=True)
        lines.append(line)
    if given.out is not None:
        given.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _page(given: argparse.Namespace) -> Iterator[str]:
    powers = [2, 2.7] if given.quick else [3.5, *np.arange(4, np.log10(given.largest) + 0.1)]
    sizes = [int(10**power) for power in powers]
    yield "# Triangles under updates\n"
    yield "Written by `python -m bench.graphs`, one thread.\n"
    for section in given.sections.split(","):
        match section:
            case "exponents":
                yield from exponents(sizes)
            case "space":
                yield from space(sizes)
            case "tradeoff":
                small = [size for size in (10**4, 3 * 10**4, 10**5) if size <= given.largest]
                found = tradeoff(small if len(small) > 1 else sizes)
                yield from show_tradeoff(found, small if len(small) > 1 else sizes)
                yield from _plot(found, given.out)
            case "throughput":
                yield "## Throughput\n"
                yield "Batches of 1,000 inserts or deletes, on generated code, medians of several rounds.\n"
                for maker in [each for each in GRAPHS if each.__name__ in given.graphs.split(",")]:
                    seconds = 0.0 if given.quick else 0.5
                    yield from throughput(maker(given.edges), given.rounds, seconds, given.without.split(";"))
            case "pauses":
                yield from show_pauses(given.updates, 1000)
            case "four":
                yield from show_splits([8, 24] if given.quick else [250, 750, 1500])
            case _:
                raise SystemExit(f"no section {section!r}: there are {', '.join(SECTIONS)}")


def _plot(found: Tradeoff, out: Path | None) -> Iterator[str]:
    if out is None:
        return
    try:
        draw(found, out.with_suffix(".png"))
    except ImportError:
        print("no plot: matplotlib is not installed (pip install -r bench/requirements.txt)")
        return
    yield f"![The trade-off over epsilon]({out.stem}.png)\n"


def draw(found: Tradeoff, target: Path) -> None:
    """Figure 1 of the paper: its bounds as lines, what was measured as points."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.8))
    epsilons = [epsilon for epsilon, *_ in found]
    grid: Sequence[float] = np.linspace(0, 1, 101).tolist()
    axes.plot(grid, [max(e, 1 - e) for e in grid], color="C0", label="bound of time")
    axes.plot(grid, [1 + min(e, 1 - e) for e in grid], color="C1", label="bound of space")
    axes.plot(epsilons, [steps for _, steps, _, _ in found], "o", color="C0", label="steps of an update")
    axes.plot(epsilons, [kept for _, _, kept, _ in found], "s", color="C1", label="entries of views, space = 'any'")
    axes.plot(epsilons, [linear for *_, linear in found], "^", color="C2", label="entries of views, linear space")
    axes.set_xlabel("epsilon")
    axes.set_ylabel("exponent of the size")
    axes.set_ylim(0, 2)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
