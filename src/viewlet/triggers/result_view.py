"""The view that holds the result of a program, where one view does."""

from __future__ import annotations

from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, View
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program


def result_store(program: Program) -> str | None:
    """The one view whose rows make the result, each on its own: then a change of the result is one of those rows."""
    atoms = [node for node in walk(program.result) if isinstance(node, View)]
    if len({(atom.name, atom.args) for atom in atoms}) != 1 or len(set(atoms[0].args)) < len(atoms[0].args):
        return None
    name = atoms[0].name
    assigned = any(s.replaces and s.view == name for trigger in program.triggers for s in trigger.statements)
    return None if assigned else name


def change_store(program: Program) -> str | None:
    """The view that makes the result, if its rows are not needed to know how the result changes.

    The result is linear in it, and no statement reads it: what a batch adds to the empty view is the change.
    """
    name = result_store(program)
    updates = (update for trigger in program.triggers for s in trigger.statements for update in s.updates)
    if name is None or any(_reads(update.expr, name) for update in updates):
        return None
    nested = (node for node in walk(program.result) if isinstance(node, Exists | Extremum | Lift))
    return None if any(_reads(node, name) for node in nested) else name


def _reads(expr: Expr, view: str) -> bool:
    return any(isinstance(node, View) and node.name == view for node in walk(expr))
