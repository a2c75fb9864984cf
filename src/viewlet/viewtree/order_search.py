"""Finds a variable order: the least width first, then the least cost of updates.

The width of an order is the largest exponent of a view's join: how the size of what is joined at a variable grows with
the database (`widths.py`). Only the relations below a variable bound it, unless indicators bring in the others. The
cost of an update is what a changed row visits on its way up: at each variable, as many combinations as there can be of
the values that the row does not fix.

Only variables that several relations share, and free ones, have to be ordered; the others of each relation form a chain
below. The order below a set of variables depends on nothing but that set: its connected parts are ordered separately,
and each part is solved once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log

from viewlet.errors import SchemaError
from viewlet.triggers.hypergraph import components
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.widths import cover_number

TYPICAL_ROWS = 1000.0
"""Rows of a relation of which nothing is known."""
MOST_JOINED = 14
"""Variables to be ordered; the search meets up to 2 to the power of this many sets."""

Variables = frozenset[str]


def find_order(
    relations: Mapping[str, Sequence[str]],
    free: Collection[str] = (),
    *,
    updatable: Collection[str] | None = None,
    rows: Mapping[str, float] | None = None,
    rates: Mapping[str, float] | None = None,
    indicators: bool = False,
) -> VariableOrder:
    """The best order for a join; free variables are above the others in each connected part.

    `rows` are the sizes of relations where they are known, `rates` how often each changes against the others;
    `indicators` says that the view tree will have them.
    """
    sizes = {name: max(2.0, (rows or {}).get(name, TYPICAL_ROWS)) for name in relations}
    changing = {name: (rates or {}).get(name, 1.0) for name in relations if updatable is None or name in updatable}
    schemas = {name: frozenset(schema) for name, schema in relations.items()}
    search = _Search(schemas, frozenset(free), sizes, changing, indicators)
    return VariableOrder(search.roots(), relations)


@dataclass(frozen=True, slots=True)
class _Plan:
    cost: float
    branch: Branch


@dataclass(slots=True)
class _Search:
    relations: Mapping[str, Variables]
    free: Variables
    rows: Mapping[str, float]
    rates: Mapping[str, float]
    indicators: bool
    limit: Fraction | None = None
    _widths: dict[Variables, Fraction] = field(default_factory=dict)
    _plans: dict[Variables, _Plan | None] = field(default_factory=dict)
    _covers: dict[tuple[Variables, Variables, Variables], Fraction] = field(default_factory=dict)

    def roots(self) -> tuple[Branch, ...]:
        """The best orders of the parts of the join, each of the least width it can have."""
        joined = self._joined()
        if len(joined) > MOST_JOINED:
            raise SchemaError(f"{len(joined)} variables are too many to search: give the variable order")
        found: list[Branch] = []
        for part in self._parts(frozenset().union(*self.relations.values())):
            shared = part & joined
            if not shared:
                found.append(chain(*sorted(part)))
                continue
            self.limit = self._width(shared)
            plan = self._plan(shared)
            assert plan is not None, "the order that has the least width is one"
            found.append(plan.branch)
        return tuple(found)

    def _joined(self) -> Variables:
        """Variables that have to be ordered."""
        names = [name for schema in self.relations.values() for name in schema]
        return frozenset(name for name in names if names.count(name) > 1) | self.free

    def _parts(self, variables: Variables) -> list[Variables]:
        """The connected components of some variables, in the order of their names."""
        edges = [edge for schema in self.relations.values() if (edge := schema & variables)]
        parts = (frozenset[str]().union(*(edges[i] for i in group)) for group in components(edges))
        return sorted(parts, key=sorted)

    def _choices(self, part: Variables) -> list[str]:
        return sorted(part & self.free) or sorted(part)

    def _keys(self, part: Variables) -> Variables:
        """dep: the ordered variables outside a part that share a relation with it."""
        near = frozenset[str]().union(*(schema for schema in self.relations.values() if schema & part))
        return (near & self._joined()) - part

    def _width(self, part: Variables) -> Fraction:
        """The least width of the orders of a part."""
        if part not in self._widths:
            around = self._keys(part)
            self._widths[part] = min(
                max(
                    self._cover(part, around | {top}),
                    *(self._width(rest) for rest in self._parts(part - {top})),
                    Fraction(0),
                )
                for top in self._choices(part)
            )
        return self._widths[part]

    def _plan(self, part: Variables) -> _Plan | None:
        """The cheapest order of a part among those within the width."""
        if part not in self._plans:
            plans = [plan for top in self._choices(part) if (plan := self._with_top(part, top)) is not None]
            self._plans[part] = min(plans, key=lambda plan: plan.cost, default=None)
        return self._plans[part]

    def _with_top(self, part: Variables, top: str) -> _Plan | None:
        joined_here = self._keys(part) | {top}
        assert self.limit is not None
        if self._cover(part, joined_here) > self.limit:
            return None
        below, cost = list[Branch](), 0.0
        for rest in self._parts(part - {top}):
            if (plan := self._plan(rest)) is None:
                return None
            below.append(plan.branch)
            cost += plan.cost
        for name, schema in self.relations.items():
            if not schema & part:
                continue
            cost += self.rates.get(name, 0.0) * TYPICAL_ROWS ** float(self._cover(part, joined_here - schema, schema))
            if not schema & part - {top} and (own := sorted(schema - self._joined())):
                below.append(chain(*own))
        return _Plan(cost, Branch(top, tuple(below)))

    def _cover(self, part: Variables, variables: Variables, fixed: Variables = frozenset()) -> Fraction:
        """The exponent of the number of combinations of values above a part, where those of `fixed` are given."""
        if (part, variables, fixed) not in self._covers:
            edges: dict[Variables, Fraction] = {}
            for name, schema in self.relations.items():
                if self.indicators or schema & part:
                    size = Fraction(log(self.rows[name]) / log(TYPICAL_ROWS)).limit_denominator(1000)
                    edge = schema - fixed
                    edges[edge] = min(size, edges.get(edge, size))
            self._covers[part, variables, fixed] = cover_number(variables, edges)
        return self._covers[part, variables, fixed]
