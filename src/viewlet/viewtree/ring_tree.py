"""View trees over rings: which views keep a join of relations with payloads fresh (Figures 3 and 5 of the paper).

    A ── B           V@A[] ── V@B[A] ── R(A, B)
     └── C ── D            └─ V@C[A] ── V@D[C] ── T(C, D)
          └── E                     └── V@E[A, C] ── S(A, C, E)

There is one view for each variable: it joins the views below it, and unless the variable is free it is multiplied by
the variable's lift and summed over it. A variable with a single view below it makes no view of its own: chains of
variables that only one relation has, and identical views of free variables, are one view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from viewlet.errors import SchemaError
from viewlet.viewtree.order import Branch, VariableOrder

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationLeaf:
    """A relation of the join, with its columns in their own order."""

    relation: str
    keys: Keys

    @property
    def name(self) -> str:
        return self.relation

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(self.keys)})"


@dataclass(frozen=True, slots=True)
class IndicatorLeaf:
    """∃ keys of a relation that is joined elsewhere: 1 where it has rows, to keep the view above it small."""

    relation: str
    keys: Keys
    at: str

    @property
    def name(self) -> str:
        return f"∃{self.relation}@{self.at}"

    def __str__(self) -> str:
        return f"∃{','.join(self.keys)} {self.relation}"


@dataclass(frozen=True, slots=True)
class View:
    """The join of `children`, lifted and summed over the `bound` among the `variables` that it stands for."""

    variables: Keys
    bound: Keys
    keys: Keys
    children: tuple[Node, ...]

    @property
    def name(self) -> str:
        return f"V@{','.join(self.variables)}"

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(self.keys)}]"


Node = RelationLeaf | IndicatorLeaf | View


@dataclass(frozen=True)
class ViewTree:
    """A tree of views over the relations of a join; `sources` says which stored relation one repeats."""

    root: View
    order: VariableOrder
    free: frozenset[str]
    sources: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by its name, parents before children."""
        return {node.name: node for node in walk(self.root)}

    @cached_property
    def parents(self) -> Mapping[str, View]:
        """The view above each node but the root."""
        return {child.name: view for view in self.views for child in view.children}

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(node for node in self.nodes.values() if isinstance(node, View))

    @property
    def indicators(self) -> tuple[IndicatorLeaf, ...]:
        return tuple(node for node in self.nodes.values() if isinstance(node, IndicatorLeaf))

    def source(self, relation: str) -> str:
        return self.sources.get(relation, relation)

    @cached_property
    def relations(self) -> frozenset[str]:
        """The stored relations that may change."""
        return frozenset(self.source(name) for name in self.order.relations)

    def instances(self, source: str) -> tuple[str, ...]:
        """The relations of the join that stand for one stored relation."""
        return tuple(name for name in self.order.relations if self.source(name) == source)

    def path(self, leaf: str) -> tuple[View, ...]:
        """The views that a change of a leaf passes, from the lowest to the root."""
        found, name = list[View](), leaf
        while name in self.parents:
            found.append(self.parents[name])
            name = found[-1].name
        return tuple(found)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, parents first."""
    yield node
    if isinstance(node, View):
        for child in node.children:
            yield from walk(child)


def leaves(node: Node) -> frozenset[str]:
    """The names of the relations and indicators below a node."""
    return frozenset(found.name for found in walk(node) if not isinstance(found, View))


def build_tree(
    order: VariableOrder,
    free: Collection[str] = (),
    *,
    placed: Mapping[str, str] | None = None,
    sources: Mapping[str, str] | None = None,
    compose: bool = True,
) -> ViewTree:
    """τ(ω, F): the view tree of a variable order for a query that keeps the `free` variables.

    Relations are below their lowest variable, or further below if `placed` says so. `compose` makes one view of
    each chain of views.
    """
    everything = order.variables
    if unknown := [name for name in free if name not in everything]:
        raise SchemaError(f"free variable {unknown[0]!r} is in no relation of the join")
    leaf_of = {name: _leaf_variable(order, name, (placed or {}).get(name)) for name in order.relations}
    builder = _Builder(order, frozenset(free), leaf_of, compose)
    tops = [builder.grow(root) for root in order.roots]
    root = tops[0] if len(tops) == 1 else builder.join((), tuple(tops))
    assert isinstance(root, View), "the variable at the top always makes a view"
    names = [node.name for node in walk(root)]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"a relation is called {repeated!r}, like a view of the tree: give it another alias")
    return ViewTree(root, order, frozenset(free), dict(sources or {}))


def _leaf_variable(order: VariableOrder, relation: str, wanted: str | None) -> str:
    lowest = order.lowest(relation)
    if wanted is None or wanted == lowest:
        return lowest
    if wanted not in order.variables or lowest not in order.ancestors(wanted):
        raise SchemaError(f"relation {relation!r} cannot be placed at {wanted!r}: that is not below {lowest!r}")
    return wanted


@dataclass(frozen=True, slots=True)
class _Builder:
    order: VariableOrder
    free: frozenset[str]
    leaves_at: Mapping[str, str]
    compose: bool

    def grow(self, branch: Branch) -> Node:
        own = (RelationLeaf(name, tuple(keys)) for name, keys in self.order.relations.items() if self.at(name, branch))
        children = (*own, *(self.grow(child) for child in branch.below))
        if not children:
            raise SchemaError(f"no relation is placed at or below variable {branch.variable!r}")
        return self.view(branch.variable, children)

    def at(self, relation: str, branch: Branch) -> bool:
        return self.leaves_at[relation] == branch.variable

    def view(self, variable: str, children: tuple[Node, ...]) -> Node:
        if self.compose and len(children) == 1:
            (child,) = children
            if isinstance(child, View):
                return self.join((variable, *child.variables), child.children)
            if variable in self.free and self.order.ancestors(variable):
                return child  # nothing to sum, nothing to join: the relation itself
        return self.join((variable,), children)

    def join(self, variables: Keys, children: tuple[Node, ...]) -> View:
        bound = tuple(name for name in variables if name not in self.free)
        found = {key for child in children for key in child.keys} - {*bound}
        return View(variables, bound, tuple(name for name in self.order.variables if name in found), children)


def materialised(tree: ViewTree, updatable: Set[str] | None = None) -> tuple[str, ...]:
    """μ(τ, U): the nodes to store under changes of the given relations, parents first; all change by default.

    The root is the result. Any other node is stored where a change from elsewhere meets it: its parent sees changes of
    leaves that are not below the node itself.
    """
    changing = changing_leaves(tree, tree.relations if updatable is None else updatable)
    below = {name: leaves(node) for name, node in tree.nodes.items()}
    return tuple(
        name
        for name in tree.nodes
        if name not in tree.parents or (below[tree.parents[name].name] - below[name]) & changing
    )


def changing_leaves(tree: ViewTree, updatable: Set[str]) -> frozenset[str]:
    """The leaves that change with the given stored relations; an indicator changes with its relation."""
    if unknown := [name for name in updatable if name not in tree.relations]:
        raise SchemaError(f"{unknown[0]!r} is not a relation of the join")
    return frozenset(
        node.name
        for node in tree.nodes.values()
        if not isinstance(node, View) and tree.source(node.relation) in updatable
    )


def describe(tree: ViewTree, stored: Collection[str] = ()) -> str:
    """The tree as text, one node a line; stored ones are marked with a star."""
    lines: list[str] = []

    def write(node: Node, depth: int) -> None:
        what = f" = ⊕{','.join(node.bound)}" if isinstance(node, View) and node.bound else ""
        lines.append(f"{'  ' * depth}{'*' if node.name in stored else ' '} {node}{what}")
        if isinstance(node, View):
            for child in node.children:
                write(child, depth + 1)

    write(tree.root, 0)
    return "\n".join(lines)
