"""What an update of triangles costs as the database grows: counted steps, CPU seconds, entries of views, and pauses.

Costs are counted steps of the kernel (tuples, entries and groups that it looks at or changes), with CPU seconds beside
them. The classical and the factorised approaches are the same kernel at the ends of the range of epsilon.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt, log
from typing import Any

import numpy as np

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
Epsilons = tuple[float, float, float]
LARGEST_FACTORISED = 20_000
"""Tuples up to which it is run: its view of two relations has an entry for every pair of neighbours of a hub."""
LARGEST_BASIC = 1_000_000
"""Tuples up to which approaches are measured that outgrow memory, or patience, beyond."""
UPDATES = 16
"""Tuples of a stream; each comes and goes in every relation."""


@dataclass(frozen=True)
class Approach:
    """A way to maintain the triangles, as a setting of the kernel."""

    name: str
    epsilons: Epsilons
    linear: bool = True
    largest: float = 1e9


APPROACHES = (
    Approach("adaptive, epsilon 1/2, linear space", (0.5, 0.5, 0.5)),
    Approach("adaptive, epsilon 1/2, space = 'any'", (0.5, 0.5, 0.5), linear=False, largest=LARGEST_BASIC),
    Approach("classical (epsilon 0)", (0.0, 0.0, 0.0)),
    Approach("classical (epsilon 1)", (1.0, 1.0, 1.0)),
    Approach("factorised (1/2, 0, 1)", (0.5, 0.0, 1.0), linear=False, largest=LARGEST_FACTORISED),
)


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
    return np.zeros(UPDATES, np.int64), np.zeros(UPDATES, np.int64)


def _in_both(size: int, random: np.random.Generator) -> Pairs:
    """Every second tuple is the one between hubs, the others are in the block."""
    side = isqrt(size // 2)
    firsts, seconds = (random.integers(0, side, UPDATES) + size for _ in range(2))
    firsts[::2] = seconds[::2] = 0
    return firsts, seconds


STREAMS = (
    Stream("hubs: linear for the others", _star, _hub_to_hub),
    Stream("hubs beside a dense block: a square root for this algorithm too", _star_and_grid, _in_both),
)


class Kernel:
    """The kernel under three tables, fed with columns."""

    def __init__(self, epsilons: Epsilons, linear: bool = True, rebalance_steps: int = 0) -> None:
        tables: dict[str, Table] = {}
        for name, columns in (("r", ("a", "b")), ("s", ("b", "c")), ("t", ("c", "a"))):
            text = f"CREATE TABLE {name} ({', '.join(f'{column} BIGINT NOT NULL' for column in columns)})"
            tables[name] = bind_statement(next(split_statements(text)), tables).table  # type: ignore[union-attr]
        sql = "SELECT COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a"
        found = recognise_triangle(bind_query(sql, tables).query, epsilons, linear)
        query = replace(found, rebalance_steps=rebalance_steps)
        plan = AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))
        self._dictionary = StringDictionary()
        self.state = FlatState(plan, tables, self._dictionary)
        self.state.warm_up()
        self._tables = tables
        self._readers = [plan.readers[name][0] for name in "rst"]

    def _change(self, relation: int, pairs: Pairs, times: int) -> ColumnChange:
        firsts, seconds = (np.ascontiguousarray(each, np.int64) for each in pairs)
        weights = np.full(len(firsts), times, np.int64)
        return ColumnChange({0: firsts, 1: seconds}, weights, self._tables["rst"[relation]], self._dictionary)

    def load(self, relations: Sequence[Pairs]) -> None:
        self.state.load([(reader, self._change(i, relations[i], 1)) for i, reader in enumerate(self._readers)])

    def apply(self, relation: int, pairs: Pairs, times: int) -> None:
        self.state.apply(self._readers[relation], self._change(relation, pairs, times))
        self.state.commit()

    @property
    def steps(self) -> int:
        return self.state.work.steps

    @property
    def entries(self) -> int:
        """Entries of all views."""
        return sum(size for name, size in self.state.facts().sizes.items() if name.startswith("V_"))


def cost(stream: Stream, size: int, approach: Approach) -> tuple[float, float]:
    """Steps and CPU microseconds per update."""
    kernel, random = Kernel(approach.epsilons, approach.linear), np.random.default_rng(1)
    kernel.load([stream.pairs(size // 3)] * 3)
    changes = stream.changes(size // 3, random)
    for times in (1, -1):  # what is loaded when it is first used does not count
        kernel.apply(0, changes, times)
    before, seconds, count = kernel.steps, 0.0, 0
    for relation in range(3):
        for times in (1, -1):
            started = time.process_time()
            kernel.apply(relation, changes, times)
            seconds += time.process_time() - started
            count += len(changes[0])
    return (kernel.steps - before) / count, 1e6 * seconds / count


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
        for approach in APPROACHES:
            fit = [size for size in sizes if size <= approach.largest]
            found = [cost(stream, size, approach) for size in fit]
            cells = [f"{steps:,.0f} ({micros:,.1f})" for steps, micros in found]
            cells += ["not run"] * (len(sizes) - len(fit))
            slope = f"{exponent(fit, [steps for steps, _ in found]):.2f}" if len(fit) > 1 else "not fitted"
            yield f"| {approach.name} | {' | '.join(cells)} | {slope} |"
        yield ""


# -- space ------------------------------------------------------------------------------------------------------------


def paths(size: int) -> list[Pairs]:
    """Heavy values of R next to all light values of S, whose last values are all different; then the same with few last
    values, so that these are heavy, too."""
    heavy, middles = isqrt(size) // 32 + 1, 4 * isqrt(size)
    each = max(1, isqrt(size) // 8)
    hubs, joints = np.arange(heavy), np.arange(middles)
    r = np.repeat(hubs, middles), np.tile(joints, heavy)
    s = np.repeat(joints, each), np.arange(middles * each)
    few = np.repeat(joints, each) + middles, np.tile(np.arange(each), middles)
    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    both = np.repeat(hubs, middles) + heavy, np.tile(joints, heavy) + middles
    joined = [tuple(map(np.concatenate, zip(*pair, strict=True))) for pair in ((r, both), (s, few))]
    return [*joined, none]  # type: ignore[list-item]


def space(sizes: Sequence[int]) -> Iterator[str]:
    yield "## Space\n"
    yield "Entries of the auxiliary views over a database of heavy values next to light ones, at epsilon 1/2.\n"
    yield f"| space | {' | '.join(f'{size:,} tuples' for size in sizes)} | exponent |"
    yield "|---|" + "---|" * (len(sizes) + 1)
    for name, linear in (("linear", True), ("any", False)):
        fit = [size for size in sizes if linear or size <= LARGEST_BASIC]
        found = [entries(paths(size), 0.5, linear) for size in fit]
        cells = [f"{count:,}" for count in found] + ["not run"] * (len(sizes) - len(fit))
        yield f"| {name} | {' | '.join(cells)} | {exponent(fit, found):.2f} |"
    yield ""


def entries(relations: list[Pairs], epsilon: float, linear: bool) -> int:
    kernel = Kernel((epsilon, epsilon, epsilon), linear)
    kernel.load(relations)
    return kernel.entries


# -- the trade-off ----------------------------------------------------------------------------------------------------

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
Tradeoff = list[tuple[float, float, float, float]]
"""For each epsilon the exponents of time, of space, and of linear space."""


def tight(size: int, epsilon: float) -> list[Pairs]:
    """One tuple of R meets as many values of S and T as an update may have to enumerate: heavy ones, or light ones."""
    count = max(2, round((2 * size) ** max(epsilon, 1 - epsilon) / 2))
    shared = np.arange(count)
    padding = round(2 * (3 * size) ** epsilon) if epsilon < 0.5 else 0
    firsts, seconds = np.repeat(shared, padding + 1), np.tile(np.arange(padding + 1), count)
    rest = np.arange(max(1, size - 2 * count - len(firsts))) + 10 * size
    return [(rest, rest), (np.zeros_like(shared), shared), (firsts, seconds)]


def many_paths(size: int, epsilon: float) -> list[Pairs]:
    """As many heavy values of R, next to light ones of S, as there may be."""
    heavy, middles = max(1, round(size ** (1 - epsilon) / 2)), round(4 * size**epsilon)
    each = max(1, min(round(size**epsilon / 4), round(size / middles)))
    joints, none = np.arange(middles), np.zeros(0, np.int64)
    r = np.repeat(np.arange(heavy), middles), np.tile(joints, heavy)
    return [r, (np.repeat(joints, each), np.arange(middles * each)), (none, none)]


def tight_cost(size: int, epsilon: float, linear: bool) -> float:
    kernel = Kernel((epsilon, epsilon, epsilon), linear)
    kernel.load(tight(size, epsilon))
    before = kernel.steps
    for times in (1, -1):
        kernel.apply(0, (np.zeros(1, np.int64), np.zeros(1, np.int64)), times)
    return (kernel.steps - before) / 2


def tradeoff(sizes: Sequence[int]) -> Tradeoff:
    """The exponents of time and space, fitted on databases that are the worst for each epsilon."""
    found = []
    for epsilon in GRID:
        steps = [tight_cost(size, epsilon, linear=False) for size in sizes]
        kept = [[entries(many_paths(size, epsilon), epsilon, linear) for size in sizes] for linear in (False, True)]
        found.append((epsilon, exponent(sizes, steps), *(max(1.0, exponent(sizes, each)) for each in kept)))
    return found  # type: ignore[return-value]


def show_tradeoff(found: Tradeoff, sizes: Sequence[int]) -> Iterator[str]:
    yield "## The trade-off over epsilon\n"
    yield "Exponents of the steps of an update and of the entries of the views, at least 1 for the tuples."
    yield f"They are fitted over databases of {sizes[0]:,} to {sizes[-1]:,} tuples that are the worst for each epsilon."
    yield "Figure 1 of the paper has the bounds.\n"
    yield "| epsilon | time | bound | space = 'any' | bound | linear space |"
    yield "|---|---|---|---|---|---|"
    for epsilon, steps, kept, linear in found:
        bounds = max(epsilon, 1 - epsilon), 1 + min(epsilon, 1 - epsilon)
        yield f"| {epsilon:g} | {steps:.2f} | {bounds[0]:g} | {kept:.2f} | {bounds[1]:g} | {linear:.2f} |"
    yield ""


# -- pauses -----------------------------------------------------------------------------------------------------------


@dataclass
class Pauses:
    """Seconds of single updates, by what they were spent on."""

    applying: list[float]
    rebalancing: list[float]
    rehashing: list[float]
    steps: int
    """The most steps of rebalancing in one update."""


def pauses(size: int, rebalance_steps: int) -> Pauses:
    """A graph with hubs that grows tuple by tuple, from nothing."""
    kernel, random = Kernel((0.5, 0.5, 0.5), True, rebalance_steps), np.random.default_rng(3)
    state, hubs = kernel.state, isqrt(size) // 4 + 1
    found, grown = Pauses([], [], [], 0), 0.0
    grow = state._grow

    def timed() -> None:
        nonlocal grown
        started = time.process_time()
        grow()
        grown += time.process_time() - started

    state._grow = timed  # type: ignore[method-assign]
    ends = random.integers(0, size // 8 + 1, (size, 2))
    ends[random.random(size) < 0.4, 0] %= hubs
    ends[random.random(size) < 0.4, 1] %= hubs
    for i in range(size):
        balanced, grown = state.work.balancing, 0.0
        change = kernel._change(i % 3, (ends[i : i + 1, 0], ends[i : i + 1, 1]), 1)
        started = time.process_time()
        state.apply(kernel._readers[i % 3], change)
        taken = time.process_time() - started - grown
        state.commit()
        (found.rebalancing if state.work.balancing > balanced else found.applying).append(taken)
        if grown:
            found.rehashing.append(grown)
    found.steps = state.work.longest
    return found


def show_pauses(size: int, limit: int) -> Iterator[str]:
    yield "## Pauses\n"
    yield f"CPU milliseconds of single updates of a graph with hubs that grows from nothing to {size:,} tuples:"
    yield "the median, the 99.9th percentile and the longest. Updates that rebalanced are told apart from those that"
    yield "did not; the growth of stores is part of neither.\n"
    yield "| rebalancing | updates without it | updates with it | their number | most steps of it | growing stores |"
    yield "|---|---|---|---|---|---|"
    pauses(min(size, 100), 1)  # what is loaded when it is first used does not count
    gc.disable()  # its pauses are those of what measures
    for name, steps in (("at once", 0), (f"rebalance_steps = {limit:,}", limit)):
        found = pauses(size, steps)
        cells = [_spread(found.applying), _spread(found.rebalancing), f"{len(found.rebalancing):,}", f"{found.steps:,}"]
        yield f"| {name} | {' | '.join(cells)} | {_spread(found.rehashing)} |"
    gc.enable()
    yield ""


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return " / ".join(f"{1e3 * each:,.3f}" for each in (*np.quantile(seconds, (0.5, 0.999)), max(seconds)))
