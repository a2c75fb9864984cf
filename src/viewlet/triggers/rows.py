"""The row triggers of a whole program, for engines that take one row at a time.

A program does not carry the schemas of its tables, and needs no more of them than its changes show: how many columns a
row has, and their types.
"""

from __future__ import annotations

from viewlet.algebra.nodes import Delta
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program, Trigger
from viewlet.triggers.single import RowTrigger, row_trigger
from viewlet.types import Column, Table


def row_triggers(program: Program, sign: int) -> tuple[RowTrigger, ...]:
    """What the insertion (sign 1) or deletion (sign -1) of one row does, for every table with a trigger."""
    return tuple(row_trigger(trigger, row_schema(trigger), sign) for trigger in program.triggers)


def row_schema(trigger: Trigger) -> Table:
    """The columns of the trigger's table, named as the trigger names them; none if it never reads the change."""
    atoms = (
        node
        for statement in trigger.statements
        for update in statement.updates
        for node in walk(update.expr)
        if isinstance(node, Delta) and node.name == trigger.table
    )
    atom = next(atoms, None)
    if atom is None:
        return Table(trigger.table, ())
    names = [arg.name if arg not in atom.args[:i] else f"{arg.name}#{i}" for i, arg in enumerate(atom.args)]
    return Table(trigger.table, tuple(Column(name, arg.type) for name, arg in zip(names, atom.args, strict=True)))
