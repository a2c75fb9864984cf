"""View trees as a way of grouping factors into views.

    ΔR(a, b) * S(a, c, e) * T(c, d)  with the tree ((S T) R)  ->  {S, T}
    R(a, b) * ΔS(a, c, e) * T(c, d)                           ->  {R}, {T}

The tree is not stored between statements but derived for each product, by a rule that depends only on its factors and
on the requested variables: changed atoms count like the atoms they are changes of, nested aggregates like atoms over
the variables they share, and values do not count at all. A view is a subtree, and the tree of its product is that
subtree again; so the views of all triggers coincide, nested aggregates and self-joins included, and no statement needs
to know which query it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from viewlet.algebra.nodes import Cond, Delta, Expr, Lift, Rel, Value, Var
from viewlet.algebra.scope import Vars, free_variables, inputs
from viewlet.algebra.traverse import has_relations, relations
from viewlet.triggers.cost import selectivity
from viewlet.triggers.grouping import Join
from viewlet.triggers.hypergraph import components
from viewlet.triggers.statistics import Statistics
from viewlet.types import Table
from viewlet.viewtree.optimize import Factor, Link, Optimizer, mask_of, positions_of
from viewlet.viewtree.tree import Tree, maximal_subtrees

Shape = tuple[tuple[Expr, ...], tuple[Expr, ...], Vars]
"""What the tree of a product depends on."""


@dataclass(slots=True)
class TreeGrouping:
    """The policy for one query; `statistics` has a size and a rate for each of its tables."""

    tables: Mapping[str, Table]
    statistics: Statistics
    _trees: dict[Shape, tuple[Optimizer, Tree]] = field(default_factory=dict)

    def __call__(self, join: Join) -> list[list[int]]:
        changed = [factor for factor in join.outside if isinstance(factor, Delta) or has_relations(factor)]
        if not changed:
            return components([free_variables(factor) - join.bound for factor in join.stored])
        found = [(_unchanged(factor), i) for i, factor in enumerate(join.stored)]
        found += [(_unchanged(factor), -1) for factor in changed]
        ordered = sorted(found, key=lambda pair: _name(pair[0]))
        optimizer, tree = self._tree(tuple(factor for factor, _ in ordered), join)
        stored = {position for position, (_, i) in enumerate(ordered) if i >= 0}
        groups = optimizer.access_order(join.bound, [mask_of(group) for group in maximal_subtrees(tree, stored)])
        return [[ordered[position][1] for position in positions_of(group)] for group in groups]

    def _tree(self, factors: tuple[Expr, ...], join: Join) -> tuple[Optimizer, Tree]:
        links = tuple(factor for factor in join.floating if not isinstance(factor, Value))
        shape = (factors, links, join.wanted)
        if shape not in self._trees:
            optimizer = self.optimizer(factors, links, join.wanted)
            self._trees[shape] = optimizer, optimizer.best()
        return self._trees[shape]

    def optimizer(self, factors: Sequence[Expr], links: Sequence[Expr], wanted: Vars) -> Optimizer:
        """The product as the optimiser sees it: sizes, rates, and conditions where they apply."""
        domains: dict[Var, float] = {}
        for factor in factors:
            if isinstance(factor, Rel):
                size = self.statistics.size(self.tables[factor.name])
                for arg, values in zip(factor.args, size.distinct, strict=True):
                    domains[arg] = max(values, domains.get(arg, 1.0))
        used = self._used(factors, links, wanted)
        made = [self._factor(factor, links, domains, used) for factor in factors]
        across = [
            Link(inputs(link), _share(link, domains), link.var if isinstance(link, Lift) else None)
            for link in links
            if isinstance(link, Lift) or not any(inputs(link) <= free_variables(factor) for factor in factors)
        ]
        return Optimizer(made, across, wanted, domains)

    @staticmethod
    def _used(factors: Sequence[Expr], links: Sequence[Expr], wanted: Vars) -> Vars:
        """Variables that matter beyond their own factor."""
        times: dict[Var, int] = {}
        for factor in factors:
            for var in free_variables(factor):
                times[var] = times.get(var, 0) + 1
        shared = frozenset(var for var, count in times.items() if count > 1)
        return (shared | wanted).union(*(inputs(link) for link in links))

    def _factor(self, factor: Expr, links: Sequence[Expr], domains: Mapping[Var, float], used: Vars) -> Factor:
        own = free_variables(factor)
        local = [link for link in links if isinstance(link, Cond) and inputs(link) <= own]
        share = prod(_share(link, domains) for link in local)
        rate = sum(self.statistics.rate(table) for table in relations(factor))
        if isinstance(factor, Rel):
            size = self.statistics.size(self.tables[factor.name])
            rows = max(size.rows * share, 1e-3)
            distinct = {
                arg: min(values, max(rows, 1.0)) for arg, values in zip(factor.args, size.distinct, strict=True)
            }
            return Factor({var: values for var, values in distinct.items() if var in used}, rows, rate, share)
        distinct = {var: domains.get(var, 1.0) for var in own}
        return Factor(distinct, prod(distinct.values()) * share, rate, share, inputs(factor))


def _unchanged(factor: Expr) -> Expr:
    """The atom that a change is a change of."""
    return Rel(factor.name, factor.args) if isinstance(factor, Delta) else factor


def _name(factor: Expr) -> tuple[str, ...]:
    return ("", factor.name) if isinstance(factor, Rel) else (type(factor).__name__, *sorted(relations(factor)))


def _share(link: Expr, domains: Mapping[Var, float]) -> float:
    return selectivity(link.scalar, domains) if isinstance(link, Cond) else 1.0
