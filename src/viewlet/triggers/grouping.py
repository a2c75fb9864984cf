"""Which stored factors of a product become one view: the policy in which the strategies over views differ.

    ΔS(b, c) * R(a, b) * Q(a) * T(c, d)  ->  {R, Q}, {T}

A policy sees the whole product and answers with groups of its stored factors; each group becomes a view over the
variables it shares with the rest. Any partition is correct: the policy decides about cost only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewlet.algebra.nodes import Expr, Rel
from viewlet.algebra.scope import NONE, Vars, free_variables
from viewlet.triggers.hypergraph import components, cyclic_core


@dataclass(frozen=True, slots=True)
class Join:
    """A product to be divided: what may be stored, what stays outside, and the conditions and values between them."""

    stored: Sequence[Expr]
    outside: Sequence[Expr]
    floating: Sequence[Expr]
    bound: Vars
    """What the change and the context bind."""
    wanted: Vars
    """What the rest of the statement needs of the product."""
    cyclic: bool = False
    """The change falls into a join with a cycle."""


Grouping = Callable[[Join], list[list[int]]]
"""Groups of indexes into `stored`, each of them once."""


def by_components(join: Join) -> list[list[int]]:
    """Higher-order maintenance: factors connected by variables that are not bound become one view.

    In a cyclic join the atoms of a cycle that the change has opened stay apart: joined, they would be the paths that it
    closes, of which there are more than of anything else. Cycles it has left whole are views, and so are the ears, each
    bunch of them behind the variables by which it hangs on to a cycle (thesis, section 3.6.1).
    """
    stored = join.stored
    edges = [free_variables(factor) - join.bound for factor in stored]
    if not join.cyclic:
        return components(edges)
    atoms = [i for i, factor in enumerate(stored) if isinstance(factor, Rel)]
    shapes = [free_variables(stored[i]) for i in atoms]
    whole = {atoms[i] for i in cyclic_core(shapes)}
    around = {atoms[i] for i in cyclic_core([*shapes, join.bound]) if i < len(atoms)}
    ears = [i for i in range(len(stored)) if i not in whole | around]
    hinges = NONE.union(*(free_variables(stored[i]) for i in whole | around))
    cycles = sorted(whole)
    return sorted(
        [[cycles[j] for j in group] for group in components([edges[i] for i in cycles])]
        + [[i] for i in sorted(around - whole)]
        + [[ears[j] for j in group] for group in components([edges[i] - hinges for i in ears])]
    )
