"""Tests against many constants as one test against a set.

x = 1 or x = 2 or x in (3, 4)    ->  x in (1, 2, 3, 4)
x <> 1 and x <> 2 and x <> 3     ->  not x in (1, 2, 3)

Both sides are NULL where x is. Constants other than NULL count, and NaN is left alone: it is not equal to itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.algebra.nodes import Call, Const, Scalar
from viewlet.types import BOOLEAN

FEW = 3
"""Fewer tests stay comparisons."""


def merge_memberships(tests: Sequence[Scalar], connective: str) -> tuple[Scalar, ...]:
    """The arguments of an "or" or an "and", with the tests of one scalar against constants made one."""
    if len(tests) < FEW:
        return tuple(tests)
    found = [_members(test, connective) for test in tests]
    members: dict[Scalar, dict[Const, None]] = {}
    counts: dict[Scalar, int] = {}
    for each in found:
        if each is not None:
            members.setdefault(each[0], {}).update(dict.fromkeys(each[1]))
            counts[each[0]] = counts.get(each[0], 0) + 1
    merged: dict[Scalar, None] = {}
    for test, each in zip(tests, found, strict=True):
        if each is None or counts[each[0]] < FEW:
            merged[test] = None
        else:
            merged[_membership(each[0], tuple(members[each[0]]), connective)] = None
    return tuple(merged)


def _membership(scalar: Scalar, members: tuple[Const, ...], connective: str) -> Scalar:
    type = BOOLEAN.with_nullable(scalar.type.nullable)
    found = Call("in", (scalar, *members), type)
    return found if connective == "or" else Call("not", (found,), type)


def _members(test: Scalar, connective: str) -> tuple[Scalar, tuple[Const, ...]] | None:
    """The scalar that a test compares with constants, and the constants."""
    match test:
        case Call("=" | "<>" as op, (left, right), _) if op == ("=" if connective == "or" else "<>"):
            scalar, member = (right, left) if isinstance(left, Const) else (left, right)
            return (scalar, (member,)) if isinstance(member, Const) and _fits(scalar, member) else None
        case Call("in", (scalar, *members), _) if connective == "or":
            return scalar, tuple(member for member in members if isinstance(member, Const))
        case Call("not", (Call("in", (scalar, *members), _),), _) if connective == "and":
            return scalar, tuple(member for member in members if isinstance(member, Const))
        case _:
            return None


def _fits(scalar: Scalar, member: Const) -> bool:
    """The comparison is one of values held alike."""
    if isinstance(scalar, Const) or member.value is None or member.value != member.value:
        return False
    return scalar.type.same_representation(member.type)
