"""Triggers for one row: the row's values in place of the change, and no loops over it (thesis, sections 2.3, 3.2.3).

    on orders: spend[custkey] += Sum[custkey](Δorders(orderkey, custkey, total) * total)
    on insert into orders values (:orderkey, :custkey, :total): spend[:custkey] += :total

Key variables that every term binds to the same parameter are extracted from the expression and name the key directly
(range restriction).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from viewlet.algebra.delta import single_row
from viewlet.algebra.expand import Monomial, collect
from viewlet.algebra.nodes import MULTIPLICITY, Expr, Lift, Value, Var
from viewlet.algebra.order import order
from viewlet.algebra.scope import Vars, reads_own_variable
from viewlet.algebra.simplify import simplify_monomials
from viewlet.algebra.substitute import substitute
from viewlet.algebra.traverse import Names, all_variables, mentions
from viewlet.triggers.factorise import factorise
from viewlet.triggers.program import Statement, Trigger, Update
from viewlet.types import Table


@dataclass(frozen=True, slots=True)
class RowTrigger:
    """What the insertion (sign 1) or deletion (sign -1) of one row does, or its change by a multiplicity (no sign)."""

    table: str
    row: tuple[Var, ...]
    sign: int | None
    statements: tuple[Statement, ...]


def row_trigger(trigger: Trigger, table: Table, sign: int | None, simplified: bool = True) -> RowTrigger:
    """The trigger specialised to one inserted or deleted row, and `simplified` by what is known of it."""
    row = _row(table)
    specialise = _specialise if simplified else _assigned
    statements = (specialise(statement, table, row, sign) for statement in trigger.statements)
    return RowTrigger(trigger.table, row, sign, tuple(s for s in statements if s.updates))


def _row(table: Table) -> tuple[Var, ...]:
    """A variable for each column, none of them the multiplicity's: a column may be called like that."""
    names = {MULTIPLICITY.name}
    row: list[Var] = []
    for column in table.columns:
        name = f":{column.name}"
        while name in names:
            name += "'"
        names.add(name)
        row.append(Var(name, column.type))
    return tuple(row)


def _specialise(statement: Statement, table: Table, row: tuple[Var, ...], sign: int | None) -> Statement:
    if statement.replaces:
        return statement
    updates = []
    given = frozenset(row) if sign is not None else frozenset((*row, MULTIPLICITY))
    for update in statement.updates:
        names = Names(var.name for var in all_variables(update.expr))
        change = single_row(update.expr, table.name, row, sign, _unread(update.expr, statement))
        updates.append((update.field, simplify_monomials(change, statement.args, names, given)))
    restriction = _restriction([m for _, monomials in updates for m in monomials], statement.args, given)
    args = tuple(restriction.get(arg, arg) for arg in statement.args)
    return Statement(
        statement.view,
        args,
        tuple(
            Update(field, _ordered([_restrict(m, restriction) for m in monomials], args, given))
            for field, monomials in updates
            if monomials
        ),
    )


def _assigned(statement: Statement, table: Table, row: tuple[Var, ...], sign: int | None) -> Statement:
    """The statement with assignments of the row's values where it reads the change, and otherwise as it is."""
    if statement.replaces:
        return statement
    updates = (
        Update(each.field, single_row(each.expr, table.name, row, sign, _unread(each.expr, statement)))
        for each in statement.updates
    )
    return Statement(statement.view, statement.args, tuple(updates))


def _unread(expr: Expr, statement: Statement) -> Vars:
    """Variables that stand in one place: they are bound there, and nothing reads them."""
    single, _ = mentions(expr)
    return single.difference(statement.args)


def _ordered(monomials: list[Monomial], args: tuple[Var, ...], given: Vars) -> Expr:
    free = tuple(arg for arg in args if arg not in given)
    return order(factorise(collect(monomials, free, given), free, given), given)


def _restriction(monomials: list[Monomial], keys: tuple[Var, ...], given: Vars) -> dict[Var, Var]:
    """Keys that every term assigns the same parameter."""
    found = [
        {
            factor.var: factor.body.scalar
            for factor in monomial.factors
            if isinstance(factor, Lift)
            and factor.var in keys
            and isinstance(factor.body, Value)
            and isinstance(factor.body.scalar, Var)
            and factor.body.scalar in given
        }
        for monomial in monomials
    ]
    if not found:
        return {}
    shared = reduce(lambda left, right: dict(left.items() & right.items()), found)
    restriction: dict[Var, Var] = {}
    for key in sorted(shared, key=keys.index):  # of keys that are equal, one may be made of another
        wider = restriction | {key: shared[key]}
        if not any(map(reads_own_variable, (f for monomial in monomials for f in _restrict(monomial, wider).factors))):
            restriction = wider
    return restriction


def _restrict(monomial: Monomial, restriction: dict[Var, Var]) -> Monomial:
    kept = [
        factor
        for factor in monomial.factors
        if not (isinstance(factor, Lift) and factor.var in restriction and isinstance(factor.body, Value))
    ]
    return Monomial(monomial.coefficient, tuple(substitute(factor, restriction) for factor in kept))
