"""Streams of changes of edges for the tests: random, skewed and adversarial, with deletes and multiplicities."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random

LENGTH = 600 if os.environ.get("VIEWLET_ADAPTIVE") == "full" else 100
Edge = tuple[int, int]
Change = tuple[int, int, int, int]
"""A change of one tuple: the relation, its two values, and the multiplicity that is added."""


def _mixed(random: Random, length: int, edge: Callable[[], Edge], deletes: float) -> Iterator[Change]:
    """Inserts of what `edge` draws, mixed with deletes of what is there; some multiplicities are not one."""
    held: list[dict[Edge, int]] = [{}, {}, {}]
    for _ in range(length):
        relation = random.randrange(3)
        known = held[relation]
        if known and random.random() < deletes:
            pair = random.choice(list(known))
            times = -known[pair] if random.random() < 0.7 else random.choice((-1, 1))
        else:
            pair, times = edge(), random.choice((1, 1, 1, 2, 3))
        known[pair] = known.get(pair, 0) + times
        if not known[pair]:
            del known[pair]
        yield relation, *pair, times


def uniform(random: Random, length: int) -> Iterator[Change]:
    """All pairs of a few values are as likely."""
    return _mixed(random, length, lambda: (random.randrange(9), random.randrange(9)), 0.35)


def power_law(random: Random, length: int) -> Iterator[Change]:
    """Few values have most of the tuples."""

    def value() -> int:
        return int(random.paretovariate(0.9)) % 40

    return _mixed(random, length, lambda: (value(), value()), 0.3)


def star(random: Random, length: int) -> Iterator[Change]:
    """Everything meets at one value, in the place of either variable."""

    def edge() -> Edge:
        leaf = random.randrange(1, 30)
        return (0, leaf) if random.random() < 0.5 else (leaf, 0)

    return _mixed(random, length, edge, 0.3)


def bipartite(random: Random, length: int) -> Iterator[Change]:
    """A dense block: every value of one side with every value of the other."""
    return _mixed(random, length, lambda: (random.randrange(5), 100 + random.randrange(12)), 0.2)


def grow_and_shrink(random: Random, length: int) -> Iterator[Change]:
    """One value's degree goes up and down over both thresholds, and the database with it."""
    edges = [(relation, 0, leaf, 1) for leaf in range(length // 12) for relation in range(3)]
    edges += [(relation, leaf, 0, 1) for leaf in range(1, length // 12) for relation in range(3)]
    for _ in range(2):
        yield from edges
        random.shuffle(edges)
        yield from ((relation, first, second, -times) for relation, first, second, times in edges)


def cancelling(random: Random, length: int) -> Iterator[Change]:
    """Multiplicities of both signs, as streams have them: sums cancel though there are tuples."""
    for _ in range(length):
        yield random.randrange(3), random.randrange(6), random.randrange(6), random.choice((-2, -1, 1, 1, 2))


STREAMS: dict[str, Callable[[Random, int], Iterator[Change]]] = {
    each.__name__: each for each in (uniform, power_law, star, bipartite, grow_and_shrink, cancelling)
}
