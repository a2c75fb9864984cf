"""Stored views that one engine keeps and others read: inner views that programs of different queries have in common.

    a:  on items: a_items[id].sum += ...      on orders: a_total[customer] += Δorders(id, customer) * a_items.sum[id]
    b:  on items: b_items[id].sum += ...      on orders: b_total[day] += Δorders(id, _, day) * b_items.sum[id]

`a_items` and `b_items` have the same definition. The engine of `b` borrows the view: it reads that of `a`, and does not
run its own statements for it. In the trigger of a table the engines that borrow a view run before its owner, so that
increments of the interpreter read the state before the trigger, as those of the owner do; its assignments run when the
next trigger begins, or at the end. Compiled triggers see each row after those before it: they borrow views only that do
not change in the triggers that read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import atoms
from viewlet.triggers.program import Program, Statement


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A stored view that another engine keeps, under a name of its own."""

    owner: Any
    name: str


def lendable(program: Program) -> frozenset[str]:
    """The views that others may read: neither they nor what their statements read is ever assigned."""
    reads = _reads(program)
    assigned = {statement.view for statement in program.statements if statement.replaces}
    return frozenset(view.name for view in program.views if assigned.isdisjoint(_reached(reads, (view.name,))))


def borrowable_by_rows(program: Program) -> frozenset[str]:
    """The views that triggers which run row by row may read from others: those that change a view do not read it."""
    found = {view.name for view in program.views} - {s.view for s in program.statements if s.replaces}
    for trigger in program.triggers:
        changed = {statement.view for statement in trigger.statements}
        found -= {name for statement in trigger.statements for name in views_read(statement) & changed}
    return frozenset(found)


def needed_for(program: Program, names: Iterable[str]) -> frozenset[str]:
    """Some views, and those that it takes to maintain them."""
    return _reached(_reads(program), names)


def _reached(reads: Mapping[str, set[str]], names: Iterable[str]) -> frozenset[str]:
    found, due = set[str](), list(names)
    while due:
        name = due.pop()
        if name not in found:
            found.add(name)
            due.extend(reads.get(name, ()))
    return frozenset(found)


def _reads(program: Program) -> dict[str, set[str]]:
    """The views that the statements of each view read."""
    found: dict[str, set[str]] = {}
    for statement in program.statements:
        found.setdefault(statement.view, set()).update(views_read(statement))
    return found


def views_read(statement: Statement) -> frozenset[str]:
    """The views that a statement reads."""
    return frozenset(atom.name for u in statement.updates for atom in atoms(u.expr) if isinstance(atom, View))
