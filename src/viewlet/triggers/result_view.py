"""The views that hold the result of a program, where the rows of the result are theirs."""

from __future__ import annotations

from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, Mul, Sum, View, summands
from viewlet.algebra.scope import free_variables
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program


def result_store(program: Program) -> str | None:
    """The one view whose rows make the result, each row of the result from one of them."""
    stores, atoms = result_stores(program), _atoms(program.result)
    return stores[0] if len({(atom.name, atom.args) for atom in atoms}) == 1 and stores else None


def result_stores(program: Program) -> tuple[str, ...]:
    """The views whose rows make the result, each on its own, or none: a change of the result is one of those rows.

    Every term of the result reads one of them, so that what the rows of one make does not depend on the others.
    """
    found: dict[str, None] = {}
    for term in summands(program.result):
        atoms = _atoms(term)
        if len({(atom.name, atom.args) for atom in atoms}) > 1 or any(len({*a.args}) < len(a.args) for a in atoms):
            return ()
        if _aggregates_rows(term):
            return ()
        found.update(dict.fromkeys(atom.name for atom in atoms))
    assigned = {s.view for trigger in program.triggers for s in trigger.statements if s.replaces}
    return () if assigned & found.keys() else tuple(found)


def _aggregates_rows(term: Expr) -> bool:
    """A nested aggregate is of several rows of a view, as an extreme is: one of them alone does not tell it."""
    nested = (node for node in walk(term) if isinstance(node, Exists | Extremum | Lift))
    return any(not free_variables(node).issuperset(atom.args) for node in nested for atom in _atoms(node))


def counting_field(program: Program) -> View | None:
    """The field that is not zero in as many rows as the result has: that of a GROUP BY without HAVING."""
    body = program.result
    while isinstance(body, Sum):  # equal rows are added up, which changes no total
        body = body.body
    factors = body.factors if isinstance(body, Mul) else (body,)
    present = [factor.body for factor in factors if isinstance(factor, Exists)]
    bound = [factor.var for factor in factors if isinstance(factor, Lift)]
    if len(present) != 1 or len(bound) + 1 < len(factors) or len(set(bound)) < len(bound):
        return None
    (shown,) = present
    if not isinstance(shown, View) or result_store(program) != shown.name or set(bound) & set(shown.args):
        return None
    return shown


def change_stores(program: Program) -> tuple[str, ...]:
    """The views that make the result, if their rows are not needed to know how the result changes.

    The result is linear in them, and no statement reads them: what a batch adds to the empty views is the change.
    """
    names = frozenset(result_stores(program))
    updates = (update for trigger in program.triggers for s in trigger.statements for update in s.updates)
    if any(_reads(update.expr, names) for update in updates):
        return ()
    nested = (node for node in walk(program.result) if isinstance(node, Exists | Extremum | Lift))
    return () if any(_reads(node, names) for node in nested) else tuple(sorted(names))


def _atoms(expr: Expr) -> frozenset[View]:
    return frozenset(node for node in walk(expr) if isinstance(node, View))


def _reads(expr: Expr, views: frozenset[str]) -> bool:
    return any(isinstance(node, View) and node.name in views for node in walk(expr))
