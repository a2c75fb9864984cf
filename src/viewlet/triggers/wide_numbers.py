"""Programs whose numbers need not fit the 64-bit words of generated code.

The interpreter computes with integers of any size. Generated code keeps sums in 128 bits and everything else in words,
and refuses a batch that does not fit. `auto` therefore leaves such programs to the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.algebra.arithmetic import VARIANCES
from viewlet.algebra.nodes import Call, Cond, Value
from viewlet.algebra.traverse import calls, walk
from viewlet.triggers.program import Program
from viewlet.types import Table


def wide_values(tables: Iterable[Table]) -> str | None:
    """Why the values of some column need more than a word."""
    for table in tables:
        for column in table.columns:
            if column.type.is_wide:
                return f"values of {table.name}.{column.name}, a {column.type}, need not fit 64 bits"
    return None


def wide_numbers(program: Program) -> str | None:
    """Why a trigger computes numbers beyond a word: a variance of exact numbers reads its sum of squares."""
    updates = (u for trigger in program.triggers for statement in trigger.statements for u in statement.updates)
    for node in (node for update in updates for node in walk(update.expr)):
        if isinstance(node, Value | Cond) and any(_is_exact_variance(call) for call in calls(node.scalar)):
            return "a nested variance of exact numbers need not fit 64 bits"
    return None


def _is_exact_variance(call: Call) -> bool:
    return call.op in VARIANCES and not call.args[1].type.is_float
