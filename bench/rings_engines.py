"""The engines that the ring benchmarks compare, all on the same generated code and the same stores.

A view tree is compiled as it is. *Higher-order with ring payloads* is what recursive delta compilation keeps, which is
DBToaster's strategy (appendix C of the F-IVM paper): the delta of a view for each of its relations is a product of the
change of that relation with views of what is left, one for each connected part, and these have deltas too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.rings_data import REAL
from viewlet.codegen.rings.cofactor_form import COUNT, SUMS, CofactorForm
from viewlet.codegen.rings.compiled_tree import CompiledTree
from viewlet.codegen.rings.compiler import compile_tree
from viewlet.codegen.rings.factorised import CompiledResult
from viewlet.codegen.rings.forms import Term
from viewlet.codegen.rings.plan import Propagation, TreePlan, Trigger, Variant
from viewlet.codegen.rings.tree_writer import write_module
from viewlet.rings.cofactor import CofactorRing
from viewlet.runtime.dictionary import StringDictionary
from viewlet.triggers.hypergraph import components
from viewlet.types import BIGINT, DOUBLE, SqlType
from viewlet.viewtree.ring_join import plan_join
from viewlet.viewtree.ring_tree import Keys, ViewTree

Types = Mapping[str, SqlType]


def types_of(attributes: Sequence[str]) -> dict[str, SqlType]:
    return {name: DOUBLE if name in REAL else BIGINT for name in attributes}


def tree_engine(tree: ViewTree, ring: Any, types: Types, updatable: frozenset[str] | None = None) -> CompiledTree:
    return compile_tree(tree, ring, types, updatable)


def clear(engine: CompiledTree) -> None:
    """Makes an engine as good as new, but for the room it has reserved."""
    for store in engine.stores.values():
        store.clear()


@dataclass(frozen=True, slots=True)
class Subquery:
    """A view of recursive delta compilation: some relations joined, and the variables that are not summed away."""

    relations: frozenset[str]
    keys: Keys

    def __str__(self) -> str:
        return f"{'⋈'.join(sorted(self.relations))}[{', '.join(self.keys)}]"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The views that recursive delta compilation keeps, and what each is joined from when a relation changes."""

    schemas: Mapping[str, Keys]
    parts: Mapping[Subquery, Mapping[str, tuple[Subquery, ...]]]

    @property
    def root(self) -> Subquery:
        return next(iter(self.parts))


def hierarchy(schemas: Mapping[str, Sequence[str]], keys: Sequence[str] = ()) -> Hierarchy:
    """Views and their deltas, from the whole join down to single relations.

    >>> found = hierarchy({"R": ("A", "B"), "S": ("A", "C")})
    >>> [str(view) for view in found.parts]
    ['R⋈S[]', 'S[A]', 'R[A]']
    """
    known = {name: tuple(schema) for name, schema in schemas.items()}
    parts: dict[Subquery, Mapping[str, tuple[Subquery, ...]]] = {}
    waiting = [Subquery(frozenset(known), tuple(keys))]
    while waiting:
        view = waiting.pop(0)
        if view in parts:
            continue
        own = [name for name in known if name in view.relations]
        parts[view] = {name: tuple(_left(view, name, own, known)) for name in own}
        waiting += [part for found in parts[view].values() for part in found]
    return Hierarchy(known, parts)


def _left(view: Subquery, changed: str, own: Sequence[str], schemas: Mapping[str, Keys]) -> Iterator[Subquery]:
    """What is left of a view without a relation whose variables are known, by connected parts."""
    bound = set(schemas[changed])
    rest = [name for name in own if name != changed]
    for part in components([frozenset(schemas[name]) - bound or frozenset({name}) for name in rest]):
        relations = [rest[i] for i in part]
        variables = dict.fromkeys(name for relation in relations for name in schemas[relation])
        keys = tuple(name for name in variables if name in bound or name in view.keys)
        yield Subquery(frozenset(relations), keys)


def higher_order_engine(tree: ViewTree, ring: CofactorRing, types: Types) -> CompiledTree:
    """Compiled code for the views of recursive delta compilation; `tree` names the relations and the result."""
    schemas = {name: tuple(schema) for name, schema in tree.order.relations.items()}
    planner = _Planner(tree, hierarchy(schemas))
    plan = planner.plan()
    form = _ReorderingForm(ring, tuple(planner.reordered))
    return CompiledTree(plan, form, write_module(plan, form, types), types, StringDictionary())


class _Planner:
    """Passages straight from the change of a relation to every view that has it.

    The numbers of a payload lie in the order in which the view's first relation makes them (the fact table comes first
    in its schema). Where another relation makes them in another order, they are put in order once per key of a batch.
    """

    def __init__(self, tree: ViewTree, views: Hierarchy) -> None:
        self.tree, self.views = tree, views
        self.reordered: list[tuple[Variant, Variant]] = []
        self._variants: dict[Subquery, Variant] = {}

    def plan(self) -> TreePlan:
        stored = tuple(self.variant(view) for view in self.views.parts)
        triggers = {
            name: Trigger(name, schema, False, tuple(self._propagations(name)), ())
            for name, schema in self.views.schemas.items()
        }
        return TreePlan(self.tree, stored, triggers)

    def variant(self, view: Subquery) -> Variant:
        if view not in self._variants:
            first = next(name for name in self.views.schemas if name in view.relations)
            name = self.tree.root.name if view == self.views.root else str(view)
            self._variants[view] = Variant(name, view.keys, (), self._order(view, first))
        return self._variants[view]

    def _order(self, view: Subquery, changed: str) -> Keys:
        """The variables in the order in which a change of a relation makes their sums."""
        others = [name for part in self.views.parts[view][changed] for name in self.variant(part).summed]
        return (*self._lifted(view, changed), *others)

    def _lifted(self, view: Subquery, changed: str) -> Keys:
        return tuple(name for name in self.views.schemas[changed] if name not in view.keys)

    def _propagations(self, changed: str) -> Iterator[Propagation]:
        leaf = Variant(changed, self.views.schemas[changed], (), ())
        for view, parts in self.views.parts.items():
            if changed not in view.relations:
                continue
            target = self.variant(view)
            order = self._order(view, changed)
            made = target if order == target.summed else Variant(f"{target.node} via {changed}", view.keys, (), order)
            factors = (leaf, *(self.variant(part) for part in parts[changed]))
            lifted = self._lifted(view, changed)
            join = plan_join([factor.keys for factor in factors], 0, lifted, made.keys)
            yield Propagation(made, factors, 0, lifted, join)
            if made is not target:
                self.reordered.append((made, target))
                yield Propagation(target, (made,), 0, (), plan_join([made.keys], 0, (), target.keys))


@dataclass(frozen=True)
class _ReorderingForm(CofactorForm):
    """Cofactors of degree 2 that can also be copied into another order of their variables."""

    reordered: tuple[tuple[Variant, Variant], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        orders = {
            f"order{i}": _places(self.numbers(made), self.numbers(target))
            for i, (made, target) in enumerate(self.reordered)
        }
        object.__setattr__(self, "tables", {**self.tables, **orders})

    def add_term(self, lines: Any, term: Term) -> None:
        pair = (term.factors[0].variant, term.target.variant) if len(term.factors) == 1 else None
        if pair not in self.reordered:
            super().add_term(lines, term)
            return
        source, target, order = term.factors[0], term.target, f"order{self.reordered.index(pair)}"
        lines.add(f"{target.word(COUNT)} += {source.word(COUNT)}")
        lines.add(f"{term.peak} = max({term.peak}, abs(float({target.word(COUNT)})))")
        with lines.block(f"for j in range({self.width(target.variant) - 1})"):
            place = f"{target.start + SUMS} + {order}[0, j]"
            lines.add(f"{target.floats}[{target.slot}, {place}] += {source.double(SUMS)[:-1]} + j]")


def _places(made: Sequence[str], wanted: Sequence[str]) -> Any:
    """For each sum and product in one order of variables, where it is in another."""
    size, at = len(made), {name: i for i, name in enumerate(wanted)}
    found = [at[name] for name in made]
    for i, left in enumerate(made):
        for right in made[i:]:
            a, b = sorted((at[left], at[right]))
            found.append(size + a * size - a * (a - 1) // 2 + b - a)
    return np.array([found], np.int64)


def result_engine(tree: ViewTree, variables: Sequence[str], types: Types) -> CompiledResult:
    """The rows of a join kept in pieces."""
    return CompiledResult(tree, types, variables)
