"""Whether arithmetic of a program may leave 64 bits, where generated code wraps round and the interpreter refuses."""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.algebra.nodes import Call, Cond, Scalar, Value
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program
from viewlet.types import Kind

WORD_DIGITS = 18
"""Decimals of so many digits always fit."""
_GROWING = frozenset({"+", "-", "*", "neg", "abs"})


def overflowing(program: Program) -> Call | None:
    """Arithmetic in a trigger whose result, going by its type, need not fit.

    Decimals widen with every operation, so their type tells. Integers do not: any arithmetic may leave their range.
    """
    updates = (u for trigger in program.triggers for statement in trigger.statements for u in statement.updates)
    scalars = (node.scalar for u in updates for node in walk(u.expr) if isinstance(node, Value | Cond))
    return next((call for scalar in scalars for call in _calls(scalar) if _may_overflow(call)), None)


def _may_overflow(call: Call) -> bool:
    if call.op not in _GROWING:
        return False
    return call.type.is_integer or (call.type.kind is Kind.DECIMAL and call.type.precision > WORD_DIGITS)


def _calls(scalar: Scalar) -> Iterator[Call]:
    if isinstance(scalar, Call):
        yield scalar
        for argument in scalar.args:
            yield from _calls(argument)
