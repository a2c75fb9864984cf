"""Which rows of a table can change anything at all: those with certain values in one column.

    SELECT SUM(x) FROM t WHERE g = 'a' AND x > 3      rows of t with 'a' in g
    SELECT x FROM t WHERE k IN (1, 2)                 rows of t with 1 or 2 in k
    SELECT COUNT(*) FROM t JOIN u ON t.k = u.k WHERE u.g = 'a'      any row of t; rows of u with 'a' in g

A thousand views over one table, each of its own customer, so cost a new row no more than a few. A program has a guard
if every statement of its triggers is a product with a condition that is false for all other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from viewlet.algebra.nodes import Add, Call, Cond, Const, Delta, Exists, Expr, Mul, Neg, Rel, Scalar, Sum, Var
from viewlet.algebra.traverse import walk
from viewlet.triggers.program import Program
from viewlet.types import INTEGER_BITS, Datum, Kind

_EXACT = {**dict.fromkeys(INTEGER_BITS, "integer"), Kind.VARCHAR: "text", Kind.DATE: "day", Kind.TIMESTAMP: "time"}
"""Types whose values are equal where Python finds them equal, in rows and in constants; those of one name compare."""
Values = dict[Var, frozenset[Datum]]
Found = dict[int, frozenset[Datum]]


@dataclass(frozen=True, slots=True)
class Guard:
    """Rows without one of the `values` in a column change nothing."""

    position: int
    values: frozenset[Datum]


def guard_of(program: Program, table: str) -> Guard | None:
    """What the rows of a table need to have to change anything of a program, if that can be told by one column."""
    triggers = [*program.triggers, *(trigger for layer in program.layers for trigger in layer.triggers)]
    found: list[Found] = []
    for trigger in triggers:
        if trigger.table != table:
            continue
        for statement in trigger.statements:
            for update in statement.updates:
                if not statement.replaces:
                    found.append(_guards(update.expr, table))
                elif any(isinstance(each, Rel | Delta) and each.name == table for each in walk(update.expr)):
                    return None
    shared = _either(found)
    if not shared:
        return None
    position = min(shared, key=lambda each: (len(shared[each]), each))
    return Guard(position, shared[position])


def _either(found: Iterable[Found]) -> Found:
    """What holds whichever of some expressions is not zero: columns that all of them name, with all their values."""

    def join(one: Found, other: Found) -> Found:
        return {position: one[position] | other[position] for position in one.keys() & other.keys()}

    every = list(found)
    return reduce(join, every) if every else {}


def _guards(expr: Expr, table: str) -> Found:
    """The columns of which the change needs some values, or else the expression is zero."""
    match expr:
        case Sum(_, body) | Neg(body) | Exists(body):
            return _guards(body, table)
        case Add(terms):
            return _either([_guards(term, table) for term in terms])
        case Mul(factors):
            places = {var: position for factor in factors for var, position in _columns(factor, table).items()}
            found: Found = {}
            for factor in factors:
                if isinstance(factor, Cond):
                    wanted = {places[var]: values for var, values in _values(factor.scalar).items() if var in places}
                else:
                    wanted = _guards(factor, table)
                for position, values in wanted.items():
                    found[position] = found[position] & values if position in found else values
            return found
        case _:
            return {}


def _columns(factor: Expr, table: str) -> Mapping[Var, int]:
    """The variables that a factor binds to columns of the change."""
    match factor:
        case Delta(name, args) if name == table:
            return {var: position for position, var in enumerate(args)}
        case Exists(body):
            return _columns(body, table)
        case Sum(keys, body):
            return {var: position for var, position in _columns(body, table).items() if var in keys}
        case Mul(factors):
            return {var: position for each in factors for var, position in _columns(each, table).items()}
        case _:
            return {}


def _values(condition: Scalar) -> Values:
    """The variables that have one of some values wherever a condition is true."""
    match condition:
        case Call("=", (Var() as var, Const() as const), _) | Call("=", (Const() as const, Var() as var), _):
            return _one_of(var, [const])
        case Call("in", (Var() as var, *others), _):
            return _one_of(var, others)
        case Call("and", sides, _):
            found: Values = {}
            for side in sides:
                for var, values in _values(side).items():
                    found[var] = found[var] & values if var in found else values
            return found
        case Call("or", sides, _):
            each = [_values(side) for side in sides]
            return {var: _union(side[var] for side in each) for var in each[0] if all(var in side for side in each)}
        case _:
            return {}


def _one_of(var: Var, others: Sequence[Scalar]) -> Values:
    """A variable that equals one of some constants; none equals NULL."""
    kind = _EXACT.get(var.type.kind)
    constants = [other for other in others if isinstance(other, Const)]
    known = [const for const in constants if const.value is not None]
    if kind is None or len(constants) < len(others) or any(_EXACT.get(const.type.kind) != kind for const in known):
        return {}
    return {var: frozenset(const.value for const in known)}


def _union(values: Iterable[Collection[Datum]]) -> frozenset[Datum]:
    return frozenset().union(*values)
