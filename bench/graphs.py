"""Triangles under updates: how the cost of an update grows, and throughput beside other strategies.

    python -m bench.graphs --out docs/benchmarks/graphs.md
    python -m bench.graphs --quick

Costs are counted steps of the kernel (tuples, entries and groups that it looks at or changes), with CPU seconds beside
them. The classical and the factorised approaches are the same kernel at the ends of the range of epsilon.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt, log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewlet
from viewlet.adaptive.flat_state import FlatState
from viewlet.adaptive.plan import AdaptivePlan
from viewlet.algebra.recognise_triangle import recognise_triangle
from viewlet.changes import ColumnChange
from viewlet.runtime.dictionary import StringDictionary
from viewlet.sql import bind_statement, split_statements
from viewlet.sql.bind import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.types import Table

Pairs = tuple[Any, Any]
"""First and second values."""
APPROACHES = {
    "adaptive, epsilon 1/2": (0.5, 0.5, 0.5),
    "classical (epsilon 0)": (0.0, 0.0, 0.0),
    "classical (epsilon 1)": (1.0, 1.0, 1.0),
    "factorised (1/2, 0, 1)": (0.5, 0.0, 1.0),
}
LARGEST_FACTORISED = 10_000
"""Tuples up to which it is run: its view of two relations has an entry for every pair of neighbours of a hub."""
CYCLES = "FROM e x JOIN e y ON x.target = y.source JOIN e z ON y.target = z.source AND z.target = x.source"
STRATEGIES = ("adaptive", "higher-order", "view-tree")


@dataclass(frozen=True)
class Stream:
    """A relation that all three are copies of, and tuples that come and go in each of them in turn."""

    name: str
    pairs: Callable[[int], Pairs]
    changes: Callable[[int, np.random.Generator], Pairs]


def _star(size: int) -> Pairs:
    """One value with all others, in either place."""
    leaves = np.arange(1, size // 2 + 1)
    hub = np.zeros_like(leaves)
    return np.concatenate([hub, leaves]), np.concatenate([leaves, hub])


def _grid(size: int) -> Pairs:
    """Every value of a set with every one of it: all degrees are the square root."""
    side = np.arange(isqrt(size))
    return np.repeat(side, len(side)), np.tile(side, len(side))


def _star_and_grid(size: int) -> Pairs:
    """Both, each with half of the tuples and values of its own."""
    star, grid = _star(size // 2), _grid(size // 2)
    return tuple(np.concatenate([one, other + size]) for one, other in zip(star, grid, strict=True))  # type: ignore[return-value]


def _hub_to_hub(size: int, random: np.random.Generator) -> Pairs:
    return np.zeros(64, np.int64), np.zeros(64, np.int64)


def _in_both(size: int, random: np.random.Generator) -> Pairs:
    """Every second tuple is the one between hubs, the others are in the block."""
    side = isqrt(size // 2)
    firsts, seconds = (random.integers(0, side, 64) + size for _ in range(2))
    firsts[::2] = seconds[::2] = 0
    return firsts, seconds


STREAMS = (
    Stream("hubs: linear for the others", _star, _hub_to_hub),
    Stream("hubs beside a dense block: a square root for this algorithm too", _star_and_grid, _in_both),
)


class Kernel:
    """The kernel under three tables, fed with columns."""

    def __init__(self, epsilons: tuple[float, float, float]) -> None:
        tables: dict[str, Table] = {}
        for name, columns in (
            ("r", "a BIGINT NOT NULL, b"),
            ("s", "b BIGINT NOT NULL, c"),
            ("t", "c BIGINT NOT NULL, a"),
        ):
            text = f"CREATE TABLE {name} ({columns} BIGINT NOT NULL)"
            tables[name] = bind_statement(next(split_statements(text)), tables).table  # type: ignore[union-attr]
        sql = "SELECT COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
        query = recognise_triangle(bind_query(sql, tables).query, epsilons)
        plan = AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))
        self._dictionary = StringDictionary()
        self.state = FlatState(plan, tables, self._dictionary)
        self._tables = tables
        self.readers = [plan.readers[name][0] for name in "rst"]

    def change(self, relation: int, pairs: Pairs, times: int) -> ColumnChange:
        firsts, seconds = (np.ascontiguousarray(each, np.int64) for each in pairs)
        weights = np.full(len(firsts), times, np.int64)
        return ColumnChange({0: firsts, 1: seconds}, weights, self._tables["rst"[relation]], self._dictionary)


def cost(stream: Stream, size: int, epsilons: tuple[float, float, float]) -> tuple[float, float, int]:
    """Steps and CPU microseconds per update, and the entries of the views."""
    kernel, random = Kernel(epsilons), np.random.default_rng(1)
    pairs = stream.pairs(size // 3)
    kernel.state.load([(reader, kernel.change(i, pairs, 1)) for i, reader in enumerate(kernel.readers)])
    changes = stream.changes(size // 3, random)
    before, count = kernel.state.facts().work.steps, 0
    started = time.process_time()
    for i, reader in enumerate(kernel.readers):
        for times in (1, -1):
            kernel.state.apply(reader, kernel.change(i, changes, times))
            kernel.state.commit()
            count += len(changes[0])
    seconds = time.process_time() - started
    facts = kernel.state.facts()
    entries = sum(size for name, size in facts.sizes.items() if name.startswith("V_"))
    return (facts.work.steps - before) / count, 1e6 * seconds / count, entries


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit([log(size) for size in sizes], [log(max(value, 1.0)) for value in values], 1)[0])


def exponents(sizes: Sequence[int]) -> Iterator[str]:
    yield "## How the cost of an update grows\n"
    yield "Counted steps per update, CPU microseconds in parentheses, and the exponent of the steps in the size.\n"
    for stream in STREAMS:
        yield f"### {stream.name}\n"
        yield f"| approach | {' | '.join(f'{size:,} tuples' for size in sizes)} | exponent |"
        yield "|---|" + "---|" * (len(sizes) + 1)
        for name, epsilons in APPROACHES.items():
            fit = [size for size in sizes if epsilons[1:] != (0.0, 1.0) or size <= LARGEST_FACTORISED]
            found = [cost(stream, size, epsilons) for size in fit]
            cells = [f"{steps:,.0f} ({micros:,.1f})" for steps, micros, _ in found]
            cells += ["not run"] * (len(sizes) - len(fit))
            yield f"| {name} | {' | '.join(cells)} | {exponent(fit, [steps for steps, _, _ in found]):.2f} |"
        yield ""


def hubs(leaves: int) -> tuple[pa.Table, list[pa.Table]]:
    """Ten hubs that share all their neighbours; edges between hubs come and go."""
    count, ends = 10, np.arange(100, 100 + leaves)
    source = np.concatenate([*(np.full(leaves, hub) for hub in range(count)), *(ends for _ in range(count))])
    target = np.concatenate([*(ends for _ in range(count)), *(np.full(leaves, hub) for hub in range(count))])
    between = [(i, j) for i in range(count) for j in range(count)]
    edges = pa.table({"source": [i for i, _ in between], "target": [j for _, j in between]})
    signed = [edges.append_column("_multiplicity", pa.array([sign] * len(between))) for sign in (1, -1)]
    return pa.table({"source": source, "target": target}), signed


def power_law(edges: int) -> tuple[pa.Table, list[pa.Table]]:
    """Vertices with degrees of a power law; batches of 1,000 edges come, and those of the batch before go."""
    random = np.random.default_rng(2)
    vertices = max(10, edges // 8)
    ranks = random.permutation(vertices)

    def ends(count: int) -> Any:
        return ranks[np.minimum((vertices * random.random(count) ** 2.5).astype(np.int64), vertices - 1)]

    whole = pa.table({"source": ends(edges), "target": ends(edges)})
    batches = [pa.table({"source": ends(1000), "target": ends(1000)}) for _ in range(5)]
    signed = []
    for batch in batches:
        signed += [batch.append_column("_multiplicity", pa.array([sign] * 1000)) for sign in (1, -1)]
    return whole, signed


def throughput(name: str, graph: tuple[pa.Table, list[pa.Table]], limit: float) -> Iterator[str]:
    whole, batches = graph
    yield f"### {name}: {whole.num_rows:,} edges\n"
    yield "| strategy | updates per CPU second | CPU seconds to load |"
    yield "|---|---|---|"
    answers = set()
    for strategy in STRATEGIES:
        db = viewlet.connect(engine="compiled")
        db.execute("CREATE STREAM e (source BIGINT NOT NULL, target BIGINT NOT NULL)")
        db.execute(f"CREATE MATERIALIZED VIEW n WITH (strategy = '{strategy}') AS SELECT COUNT(*) AS n {CYCLES}")
        started = time.process_time()
        db.insert("e", whole)
        loaded = time.process_time() - started
        rows, started = 0, time.process_time()
        while time.process_time() - started < limit or not rows:
            for batch in batches:
                db.apply({"e": batch})
                rows += batch.num_rows
        rate = rows / (time.process_time() - started)
        answers.add(tuple(db.view("n").rows()))
        yield f"| {strategy} | {rate:,.0f} | {loaded:,.2f} |"
        db.close()
    assert len(answers) == 1, answers
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--largest", type=float, default=1e6, help="tuples of the largest database")
    parser.add_argument("--edges", type=int, default=300_000, help="edges of the graphs for throughput")
    parser.add_argument("--limit", type=float, default=2.0, help="CPU seconds for each strategy")
    parser.add_argument("--out", type=Path, help="a file for the tables")
    given = parser.parse_args()
    powers = [3.5, *np.arange(4, np.log10(given.largest) + 0.1)]
    sizes = [120, 480] if given.quick else [int(10**power) for power in powers]
    edges, limit = (80, 0.0) if given.quick else (given.edges, given.limit)
    lines: list[str] = []
    for line in _page(sizes, edges, limit):
        print(line, flush=True)
        lines.append(line)
    if given.out is not None:
        given.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _page(sizes: Sequence[int], edges: int, limit: float) -> Iterator[str]:
    yield "# Triangles under updates\n"
    yield "Written by `python -m bench.graphs`.\n"
    yield from exponents(sizes)
    yield "## Throughput\n"
    yield "Batches of inserts and deletes, on generated code, one thread.\n"
    yield from throughput("hubs", hubs(max(4, edges // 100)), limit)
    yield from throughput("power law", power_law(edges), limit)


if __name__ == "__main__":
    main()
