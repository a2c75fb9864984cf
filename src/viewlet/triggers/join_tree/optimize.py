"""The best join tree of a product under a model of what changes cost.

Every leaf changes at some rate. Its change visits the sibling views on the path to the root, a lookup where the change
binds all keys of a view and a slice where it binds some, and writes a row to the view of every node it passes. The
model charges visits, rows written, indexes kept for slices, and a little for every statement, which has to be compiled.

Trees are found by dynamic programming over connected sets of leaves. The best tree of a set depends only on the set and
on the variables that the rest uses. Therefore the tree of a subset is the subtree, and all triggers share the same
views. Variables are numbers here: products that differ in names only are one problem, and are solved once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from viewlet.triggers.join_tree.tree import Leaf, Node, Tree

WRITE = 2.0
"""A row written to a view, against a row visited."""
INDEX = 1.0
"""Keeping one index up to date when a row is written."""
STATEMENT = 0.05
"""One statement more, against one row visited by each change."""
EXHAUSTIVE = 9
"""Products of more leaves are not searched exhaustively."""
SEARCH_LIMIT = 40_000
"""Sibling views weighed up before a search settles for what it has found: about a tenth of a second."""
SEARCH_BUDGET = 4 * SEARCH_LIMIT
"""Sibling views weighed up for all products of one query; what is left over then is divided without a search."""


class _SearchLimitError(Exception):
    """The search has reached its limit of candidates."""


Mask = int
"""A set of leaves, or of variables: one bit each."""
Variable = int
"""A variable of a product, by its number."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A leaf to be: its rows once its own conditions are applied, and how many changes it sees for each of all.

    `needs` are variables that others have to bind first (a nested aggregate); `share` is what its own conditions keep.
    """

    distinct: tuple[tuple[Variable, float], ...]
    rows: float
    rate: float
    share: float = 1.0
    needs: Mask = 0

    @property
    def variables(self) -> Mask:
        return mask_of(var for var, _ in self.distinct)


@dataclass(frozen=True, slots=True)
class Link:
    """A condition or assignment across factors: it applies once its inputs are bound."""

    inputs: Mask
    share: float = 1.0
    output: Variable | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """What a tree depends on: `wanted` are the variables used outside, `domains` the values that each variable has."""

    factors: tuple[Factor, ...]
    links: tuple[Link, ...]
    wanted: Mask
    domains: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """The change of one leaf when it has reached a node."""

    visits: float
    rows: float
    bound: Mask


@dataclass(frozen=True, slots=True)
class Plan:
    tree: Tree
    cost: float
    arrivals: Mapping[int, Arrival]


def mask_of(positions: Iterable[int]) -> Mask:
    return sum(1 << position for position in positions)


def mask_union(masks: Iterable[Mask]) -> Mask:
    result = 0
    for mask in masks:
        result |= mask
    return result


def positions_of(mask: Mask) -> list[int]:
    return [position for position in range(mask.bit_length()) if mask >> position & 1]


@dataclass(slots=True)
class Optimizer:
    """Finds trees for one product; `weighed` counts the work of all searches so far."""

    product: Product
    limit: int = SEARCH_LIMIT
    weighed: int = 0
    _end: int = 0
    _factors: tuple[Factor, ...] = ()
    _variables: tuple[Mask, ...] = ()
    _plans: dict[Mask, Plan] = field(default_factory=dict)
    _views: dict[Mask, View] = field(default_factory=dict)
    _connected: dict[Mask, bool] = field(default_factory=dict)
    _applied: dict[Mask, tuple[bool, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._factors = self.product.factors
        self._variables = tuple(factor.variables for factor in self._factors)

    def best(self) -> Tree:
        """The cheapest tree where the search for it is short; else a tree that is better than its neighbours."""
        everything = (1 << len(self._factors)) - 1
        self._end = self.weighed + self.limit
        if len(self._factors) <= EXHAUSTIVE:
            try:
                return self.plan(everything).tree
            except _SearchLimitError:
                self._plans.clear()
                self._end = self.weighed + self.limit
        return self._merged(everything).tree

    def plan(self, mask: Mask) -> Plan:
        """The cheapest way to maintain the join of these leaves."""
        known = self._plans.get(mask)
        if known is None:
            if mask.bit_count() == 1:
                known = self._leaf(mask)
            else:
                known = min((self._node(mask, parts) for parts in self._partitions(mask)), key=lambda plan: plan.cost)
            self._plans[mask] = known
        return known

    def _merged(self, everything: Mask) -> Plan:
        """All leaves under one node, then as long as it pays two parts of it made one."""
        parts = [1 << i for i in range(len(self._factors))]
        current = self._node(everything, parts)
        while len(parts) > 2:
            try:
                tries = [(self._node(everything, merged), merged) for merged in self._pairs_merged(parts)]
            except _SearchLimitError:
                break
            if not tries:
                break
            best, merged = min(tries, key=lambda found: found[0].cost)
            if best.cost >= current.cost:
                break
            current, parts = best, merged
        return current

    def _pairs_merged(self, parts: list[Mask]) -> Iterator[list[Mask]]:
        """The parts with two of them made one, in every way that makes a view."""
        for i, left in enumerate(parts):
            for right in parts[i + 1 :]:
                if self._is_view(left | right):
                    self._plans.setdefault(left | right, self._node(left | right, [left, right]))
                    yield [*(part for part in parts if part not in (left, right)), left | right]

    def _leaf(self, mask: Mask) -> Plan:
        i = mask.bit_length() - 1
        factor = self._factors[i]
        arrival = Arrival(1.0, factor.share, self._variables[i])
        stored = 0.0 if factor.needs else factor.rate * WRITE * factor.share + STATEMENT
        return Plan(Leaf(i), stored, {i: arrival})

    def _node(self, mask: Mask, parts: Sequence[Mask]) -> Plan:
        plans = [self.plan(part) for part in parts]
        cost = sum(plan.cost for plan in plans)
        slices: dict[Mask, set[Mask]] = {part: set() for part in parts}
        arrivals: dict[int, Arrival] = {}
        for part, plan in zip(parts, plans, strict=True):
            others = [other for other in parts if other != part]
            for i, arrival in plan.arrivals.items():
                found = self._pass(mask, part, arrival, others, slices)
                arrivals[i] = found
                cost += self._factors[i].rate * (found.visits + WRITE * found.rows) + STATEMENT
        for part, plan in zip(parts, plans, strict=True):
            writes = sum(self._factors[i].rate * arrival.rows for i, arrival in plan.arrivals.items())
            cost += INDEX * len(slices[part]) * writes
        return Plan(Node(tuple(plan.tree for plan in plans)), cost, arrivals)

    def _pass(
        self, mask: Mask, part: Mask, arrival: Arrival, others: list[Mask], slices: dict[Mask, set[Mask]]
    ) -> Arrival:
        """What a change that has reached one child meets at the node above it."""
        self.weighed += len(others) ** 2
        if self.weighed > self._end and len(self._plans) > len(self._factors):
            raise _SearchLimitError
        visits, rows, bound = arrival.visits, arrival.rows, arrival.bound
        for other in self.access_order(bound, others):
            view = self.view(other)
            matches, found = view.lookup(bound)
            visits += rows * max(1.0, matches)
            rows *= found
            if view.keys & ~bound:
                slices[other].add(view.keys & bound)
            bound |= view.keys
        links = self.product.links
        if links:
            applied, before = self._links_applied(mask), self._links_applied(part)
            rows *= prod(link.share for i, link in enumerate(links) if applied[i] and not before[i])
        return Arrival(visits, rows, bound)

    def access_order(self, bound: Mask, others: Sequence[Mask]) -> list[Mask]:
        """Sibling views in the order in which a change should visit them: those first that leave the fewest rows."""
        if len(others) < 2:
            return list(others)
        left, placed = [(other, self.view(other)) for other in others], list[Mask]()
        while left:
            first = min(left, key=lambda each: (bool(each[1].needs & ~bound), each[1].lookup(bound)[1]))
            left.remove(first)
            placed.append(first[0])
            bound |= first[1].keys
        return placed

    def view(self, mask: Mask) -> View:
        """The view of these leaves: its keys, and how many rows it has."""
        known = self._views.get(mask)
        if known is None:
            known = self._views[mask] = self._make_view(mask)
        return known

    def _make_view(self, mask: Mask) -> View:
        inside, outside = self._members(mask), self._members(~mask)
        distinct: dict[Variable, float] = {}
        rows = 1.0
        for factor in sorted((self._factors[i] for i in inside), key=lambda each: each.rows):
            shared = [max(values, distinct[var], 1.0) for var, values in factor.distinct if var in distinct]
            rows *= factor.rows / (prod(shared) or 1.0)
            for var, values in factor.distinct:
                distinct[var] = min(values, distinct.get(var, values))
        applied = self._links_applied(mask)
        for number, link in enumerate(self.product.links):
            if applied[number]:
                rows *= link.share
                if link.output is not None:
                    values = prod(distinct.get(var, 1.0) for var in positions_of(link.inputs))
                    distinct[link.output] = max(1.0, values) ** 0.5
        wanted = self.product.wanted | mask_union(self._variables[i] | self._factors[i].needs for i in outside)
        wanted |= mask_union(link.inputs for i, link in enumerate(self.product.links) if not applied[i])
        shown = {var: values for var, values in distinct.items() if wanted >> var & 1}
        rows = min(max(rows, 1e-3), prod(max(values, 1.0) for values in shown.values()))
        needs = mask_union(self._factors[i].needs for i in inside)
        if len(inside) > 1:
            needs &= ~mask_of(distinct)
        counts = tuple(
            (1 << var, min(values, max(rows, 1.0)), self.product.domains[var]) for var, values in shown.items()
        )
        return View(counts, rows, mask_of(shown), needs)

    def _links_applied(self, mask: Mask) -> tuple[bool, ...]:
        """Which conditions and assignments have their inputs bound by these leaves."""
        known = self._applied.get(mask)
        if known is None:
            bound = mask_union(self._variables[i] for i in self._members(mask))
            known = self._applied[mask] = tuple(self._applies(link, bound) for link in self.product.links)
        return known

    def _applies(self, link: Link, bound: Mask) -> bool:
        assigned = (each.output for each in self.product.links if each.output is not None and each != link)
        return not link.inputs & ~(bound | mask_of(set(assigned)))

    def _members(self, mask: Mask) -> list[int]:
        return [i for i in range(len(self._factors)) if mask >> i & 1]

    def _partitions(self, mask: Mask) -> Iterator[list[Mask]]:
        """Ways to divide the leaves of a node among its children, the flattest among them."""
        yield from (parts for parts in self._divided(mask) if len(parts) > 1)

    def _divided(self, mask: Mask) -> Iterator[list[Mask]]:
        if not mask:
            yield []
            return
        lowest = mask & -mask
        rest = mask ^ lowest
        others = rest
        while True:
            part = lowest | others
            if self._is_view(part):
                for parts in self._divided(mask ^ part):
                    yield [part, *parts]
            if not others:
                return
            others = (others - 1) & rest

    def _is_view(self, mask: Mask) -> bool:
        """Whether the leaves are connected, and bind what the nested ones among them need."""
        if mask.bit_count() == 1:
            return True
        known = self._connected.get(mask)
        if known is None:
            known = self._connected[mask] = self._is_connected(self._members(mask))
        return known

    def _is_connected(self, members: list[int]) -> bool:
        bound = mask_union(self._variables[i] for i in members if not self._factors[i].needs)
        if any(self._factors[i].needs & ~bound for i in members):
            return False
        reached, left = self._variables[members[0]], members[1:]
        while joined := [i for i in left if self._variables[i] & reached]:
            left = [i for i in left if not self._variables[i] & reached]
            reached |= mask_union(self._variables[i] for i in joined)
        return not left


@dataclass(slots=True)
class View:
    """A subtree as its siblings see it: for each key its bit, its values here, and its values anywhere."""

    values: tuple[tuple[Mask, float, float], ...]
    rows: float
    keys: Mask
    needs: Mask
    _lookups: dict[Mask, tuple[float, float]] = field(default_factory=dict)

    def lookup(self, bound: Mask) -> tuple[float, float]:
        """Rows with given values of the bound keys, and those that a change finds, whose values may not occur."""
        given = bound & self.keys
        known = self._lookups.get(given)
        if known is None:
            parts = prod(values for key, values, _ in self.values if key & given)
            matches = self.rows / min(max(self.rows, 1e-3), max(parts, 1e-3))
            hit = prod(min(1.0, values / domain) for key, values, domain in self.values if key & given)
            known = self._lookups[given] = matches, matches * hit
        return known
