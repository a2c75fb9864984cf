"""The best join tree of a product under a model of what changes cost.

Every leaf changes at some rate. Its change visits the sibling views on the path to the root, a lookup where the change
binds all keys of a view and a slice where it binds some, and writes a row to the view of every node it passes. The
model charges visits, rows written, indexes kept for slices, and a little for every statement, which has to be compiled.

Trees are found by dynamic programming over connected sets of leaves. The best tree of a set depends only on the set and
on the variables that the rest uses. Therefore the tree of a subset is the subtree, and all triggers share the same
views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from viewlet.algebra.nodes import Var
from viewlet.algebra.scope import NONE, Vars
from viewlet.viewtree.tree import Leaf, Node, Tree

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


class _SearchLimitError(Exception):
    """The search has reached its limit of candidates."""


Mask = int
"""A set of leaves, or of variables: one bit each."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A leaf to be: its rows once its own conditions are applied, and how many changes it sees for each of all.

    `needs` are variables that others have to bind first (a nested aggregate); `share` is what its own conditions keep.
    """

    distinct: Mapping[Var, float]
    rows: float
    rate: float
    share: float = 1.0
    needs: Vars = NONE

    @property
    def variables(self) -> Vars:
        return frozenset(self.distinct)


@dataclass(frozen=True, slots=True)
class Link:
    """A condition or assignment across factors: it applies once its inputs are bound."""

    inputs: Vars
    share: float = 1.0
    output: Var | None = None


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
    """Finds trees for one product. `wanted` are the variables used outside; `domains` counts values by variable."""

    factors: Sequence[Factor]
    links: Sequence[Link]
    wanted: Vars
    domains: Mapping[Var, float]
    _plans: dict[Mask, Plan] = field(default_factory=dict)
    _views: dict[Mask, View] = field(default_factory=dict)
    _connected: dict[Mask, bool] = field(default_factory=dict)
    _applied: dict[Mask, tuple[bool, ...]] = field(default_factory=dict)
    _bits: dict[Var, Mask] = field(default_factory=dict)
    _weighed: int = 0

    def __post_init__(self) -> None:
        for factor in self.factors:
            for var in (*factor.distinct, *factor.needs):
                self._bits.setdefault(var, 1 << len(self._bits))
        for link in self.links:
            if link.output is not None:
                self._bits.setdefault(link.output, 1 << len(self._bits))

    def best(self) -> Tree:
        """The cheapest tree where the search for it is short; else a tree that is better than its neighbours."""
        everything = (1 << len(self.factors)) - 1
        if len(self.factors) <= EXHAUSTIVE:
            try:
                return self.plan(everything).tree
            except _SearchLimitError:
                self._plans.clear()
                self._weighed = 0
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
        parts = [1 << i for i in range(len(self.factors))]
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
        factor = self.factors[i]
        arrival = Arrival(1.0, factor.share, self._set_of(factor.variables))
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
                cost += self.factors[i].rate * (found.visits + WRITE * found.rows) + STATEMENT
        for part, plan in zip(parts, plans, strict=True):
            writes = sum(self.factors[i].rate * arrival.rows for i, arrival in plan.arrivals.items())
            cost += INDEX * len(slices[part]) * writes
        return Plan(Node(tuple(plan.tree for plan in plans)), cost, arrivals)

    def _pass(
        self, mask: Mask, part: Mask, arrival: Arrival, others: list[Mask], slices: dict[Mask, set[Mask]]
    ) -> Arrival:
        """What a change that has reached one child meets at the node above it."""
        self._weighed += len(others) ** 2
        if self._weighed > SEARCH_LIMIT and len(self._plans) > len(self.factors):
            raise _SearchLimitError
        visits, rows, bound = arrival.visits, arrival.rows, arrival.bound
        for other in self._access_order(bound, others):
            view = self.view(other)
            matches, found = view.lookup(bound)
            visits += rows * max(1.0, matches)
            rows *= found
            if view.keys & ~bound:
                slices[other].add(view.keys & bound)
            bound |= view.keys
        if self.links:
            applied, before = self._links_applied(mask), self._links_applied(part)
            rows *= prod(link.share for i, link in enumerate(self.links) if applied[i] and not before[i])
        return Arrival(visits, rows, bound)

    def access_order(self, bound: Vars, others: Sequence[Mask]) -> list[Mask]:
        """Sibling views in the order in which a change should visit them: those first that leave the fewest rows."""
        return self._access_order(self._set_of(bound), others)

    def _access_order(self, bound: Mask, others: Sequence[Mask]) -> list[Mask]:
        if len(others) < 2:
            return list(others)
        left, placed = [(other, self.view(other)) for other in others], list[Mask]()
        while left:
            first = min(left, key=lambda each: (bool(each[1].needs & ~bound), each[1].lookup(bound)[1]))
            left.remove(first)
            placed.append(first[0])
            bound |= first[1].keys
        return placed

    def _set_of(self, variables: Iterable[Var]) -> Mask:
        """The variables that occur in the product, as bits."""
        return mask_union(self._bits.get(var, 0) for var in variables)

    def view(self, mask: Mask) -> View:
        """The view of these leaves: its keys, and how many rows it has."""
        known = self._views.get(mask)
        if known is None:
            known = self._views[mask] = self._make_view(mask)
        return known

    def _make_view(self, mask: Mask) -> View:
        inside, outside = self._members(mask), self._members(~mask)
        distinct: dict[Var, float] = {}
        rows = 1.0
        for factor in sorted(inside, key=lambda each: each.rows):
            shared = [var for var in factor.distinct if var in distinct]
            rows *= factor.rows / (prod(max(factor.distinct[var], distinct[var], 1.0) for var in shared) or 1.0)
            for var, values in factor.distinct.items():
                distinct[var] = min(values, distinct.get(var, values))
        applied = self._links_applied(mask)
        for link_number, link in enumerate(self.links):
            if applied[link_number]:
                rows *= link.share
                if link.output is not None:
                    distinct[link.output] = max(1.0, prod(distinct.get(var, 1.0) for var in link.inputs)) ** 0.5
        wanted = self.wanted.union(*(factor.variables | factor.needs for factor in outside))
        wanted = wanted.union(*(link.inputs for i, link in enumerate(self.links) if not applied[i]))
        keys = frozenset(distinct) & wanted
        rows = min(max(rows, 1e-3), prod(max(distinct[key], 1.0) for key in keys))
        needs = NONE.union(*(factor.needs for factor in inside)) - frozenset(distinct) if len(inside) > 1 else NONE
        if len(inside) == 1:
            needs = inside[0].needs
        shown = {key: values for key, values in distinct.items() if key in keys}
        counts = tuple(
            (self._bits[key], min(each, max(rows, 1.0)), self.domains.get(key, 1.0)) for key, each in shown.items()
        )
        return View(counts, rows, self._set_of(keys), self._set_of(needs))

    def _links_applied(self, mask: Mask) -> tuple[bool, ...]:
        """Which conditions and assignments have their inputs bound by these leaves."""
        known = self._applied.get(mask)
        if known is None:
            bound = NONE.union(*(factor.variables for factor in self._members(mask)))
            known = self._applied[mask] = tuple(self._applies(link, bound) for link in self.links)
        return known

    def _applies(self, link: Link, bound: Vars) -> bool:
        return link.inputs <= bound | {each.output for each in self.links if each.output is not None and each != link}

    def _members(self, mask: Mask) -> list[Factor]:
        return [factor for i, factor in enumerate(self.factors) if mask >> i & 1]

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

    @staticmethod
    def _is_connected(members: list[Factor]) -> bool:
        bound = NONE.union(*(factor.variables for factor in members if not factor.needs))
        if any(not factor.needs <= bound for factor in members):
            return False
        reached, left = members[0].variables, members[1:]
        while joined := [factor for factor in left if factor.variables & reached]:
            reached = reached.union(*(factor.variables for factor in joined))
            left = [factor for factor in left if factor not in joined]
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
