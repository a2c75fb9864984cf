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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from viewlet.algebra.nodes import Cond, Delta, Expr, Lift, Rel, Value, Var
from viewlet.algebra.scope import Vars, free_variables, inputs
from viewlet.algebra.traverse import has_relations, relations
from viewlet.triggers.cost import selectivity
from viewlet.triggers.grouping import Join
from viewlet.triggers.hypergraph import components
from viewlet.triggers.join_tree.optimize import (
    SEARCH_BUDGET,
    SEARCH_LIMIT,
    Factor,
    Link,
    Mask,
    Optimizer,
    Product,
    mask_of,
    positions_of,
)
from viewlet.triggers.join_tree.tree import Tree, maximal_subtrees
from viewlet.triggers.statistics import Statistics
from viewlet.types import Table


@dataclass(slots=True)
class TreeGrouping:
    """The policy for one query; `statistics` has a size and a rate for each of its tables."""

    tables: Mapping[str, Table]
    statistics: Statistics
    _trees: dict[Product, tuple[Optimizer, Tree]] = field(default_factory=dict)
    _budget: int = SEARCH_BUDGET

    def __call__(self, join: Join) -> list[list[int]]:
        changed = [factor for factor in join.outside if isinstance(factor, Delta) or has_relations(factor)]
        if not changed:
            return components([free_variables(factor) - join.bound for factor in join.stored])
        found = [(_unchanged(factor), i) for i, factor in enumerate(join.stored)]
        found += [(_unchanged(factor), -1) for factor in changed]
        ordered = sorted(found, key=lambda pair: _name(pair[0]))
        factors = tuple(factor for factor, _ in ordered)
        links = tuple(factor for factor in join.floating if not isinstance(factor, Value))
        numbers = _numbers(factors, links)
        optimizer, tree = self._tree(self._product(factors, links, join.wanted, numbers))
        stored = {position for position, (_, i) in enumerate(ordered) if i >= 0}
        parts = [mask_of(group) for group in maximal_subtrees(tree, stored)]
        groups = optimizer.access_order(_mask(join.bound, numbers), parts)
        return [[ordered[position][1] for position in positions_of(group)] for group in groups]

    def _tree(self, product: Product) -> tuple[Optimizer, Tree]:
        found = self._trees.get(product)
        if found is None:
            optimizer = Optimizer(product, max(0, min(SEARCH_LIMIT, self._budget)))
            found = self._trees[product] = optimizer, optimizer.best()
            self._budget -= optimizer.weighed
        return found

    def _product(self, factors: Sequence[Expr], links: Sequence[Expr], wanted: Vars, numbers: Numbers) -> Product:
        """The product as the optimiser sees it: sizes, rates, and conditions where they apply."""
        domains: dict[Var, float] = {}
        for factor in factors:
            if isinstance(factor, Rel):
                size = self.statistics.size(self.tables[factor.name])
                for arg, values in zip(factor.args, size.distinct, strict=True):
                    domains[arg] = max(values, domains.get(arg, 1.0))
        used = self._used(factors, links, wanted)
        made = tuple(self._factor(factor, links, domains, used, numbers) for factor in factors)
        across = tuple(
            Link(
                _mask(inputs(link), numbers),
                _share(link, domains),
                numbers[link.var] if isinstance(link, Lift) else None,
            )
            for link in links
            if isinstance(link, Lift) or not any(inputs(link) <= free_variables(factor) for factor in factors)
        )
        return Product(made, across, _mask(wanted, numbers), tuple(domains.get(var, 1.0) for var in numbers))

    @staticmethod
    def _used(factors: Sequence[Expr], links: Sequence[Expr], wanted: Vars) -> Vars:
        """Variables that matter beyond their own factor."""
        times: dict[Var, int] = {}
        for factor in factors:
            for var in free_variables(factor):
                times[var] = times.get(var, 0) + 1
        shared = frozenset(var for var, count in times.items() if count > 1)
        return (shared | wanted).union(*(inputs(link) for link in links))

    def _factor(
        self, factor: Expr, links: Sequence[Expr], domains: Mapping[Var, float], used: Vars, numbers: Numbers
    ) -> Factor:
        own = free_variables(factor)
        local = [link for link in links if isinstance(link, Cond) and inputs(link) <= own]
        share = prod(_share(link, domains) for link in local)
        rate = sum(self.statistics.rate(table) for table in sorted(relations(factor)))
        if isinstance(factor, Rel):
            size = self.statistics.size(self.tables[factor.name])
            rows = max(size.rows * share, 1e-3)
            counts = dict(zip(factor.args, size.distinct, strict=True))
            shown = tuple((numbers[arg], min(counts[arg], max(rows, 1.0))) for arg in counts if arg in used)
            return Factor(shown, rows, rate, share)
        distinct = tuple(sorted((numbers[var], domains.get(var, 1.0)) for var in own))
        return Factor(
            distinct, prod(values for _, values in distinct) * share, rate, share, _mask(inputs(factor), numbers)
        )


Numbers = Mapping[Var, int]
"""The variables of a product, in the order in which it mentions them."""


def _numbers(factors: Sequence[Expr], links: Sequence[Expr]) -> Numbers:
    """Equal for products that differ in names only, wherever atoms mention every variable."""
    columns = [factor.args for factor in factors if isinstance(factor, Rel)]
    others = [sorted(free_variables(each), key=lambda var: var.name) for each in (*factors, *links)]
    variables = dict.fromkeys(var for group in (*columns, *others) for var in group)
    return {var: number for number, var in enumerate(variables)}


def _mask(variables: Iterable[Var], numbers: Numbers) -> Mask:
    return mask_of(numbers[var] for var in variables if var in numbers)


def _unchanged(factor: Expr) -> Expr:
    """The atom that a change is a change of."""
    return Rel(factor.name, factor.args) if isinstance(factor, Delta) else factor


def _name(factor: Expr) -> tuple[str, ...]:
    return ("", factor.name) if isinstance(factor, Rel) else (type(factor).__name__, *sorted(relations(factor)))


def _share(link: Expr, domains: Mapping[Var, float]) -> float:
    return selectivity(link.scalar, domains) if isinstance(link, Cond) else 1.0
