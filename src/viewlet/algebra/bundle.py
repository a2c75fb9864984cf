"""Many tests of the same variables as one condition.

x + 1 > y and x + 2 > y and ... and z > 3   ->   {x + 1 > y and x + 2 > y and ...} * {z > 3}

Whatever binds the variables of one test binds those of all: nothing moves between them, and one factor is compiled
faster than a thousand. Comparisons of two variables, and equalities with one, stay apart: rows are found by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.nodes import Call, Scalar, Var, once
from viewlet.algebra.traverse import variable_set
from viewlet.types import BOOLEAN

MANY = 16
"""Fewer tests of the same variables stay conditions of their own."""


def bundle(tests: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The arguments of an "and", with many tests of the same variables made one."""
    groups: dict[frozenset[Var], list[Scalar]] = {}
    for test in tests:
        if not _finds_rows(test):
            groups.setdefault(variable_set(test), []).append(test)
    made: dict[Scalar, None] = {}
    for test in tests:
        group = [test] if _finds_rows(test) else groups[variable_set(test)]
        made[test if len(group) < MANY else _together(tuple(group))] = None
    return tuple(made)


@once
def is_bundle(conjunction: Call) -> bool:
    """A conjunction that `bundle` would make again, and that is therefore not taken apart."""
    tests = conjunction.args
    alike = len(tests) >= MANY and len({variable_set(test) for test in tests}) == 1
    return alike and not any(map(_finds_rows, tests))


def _finds_rows(test: Scalar) -> bool:
    match test:
        case Call("=", (Var(), _) | (_, Var()), _) | Call(_, (Var(), Var()), _):
            return True
        case _:
            return False


def _together(tests: tuple[Scalar, ...]) -> Call:
    return Call("and", tests, BOOLEAN.with_nullable(any(test.type.nullable for test in tests)))
