"""The order in which the factors of a product are joined.

Factors keep their own order, except that some wait: for the variables they need, for rows they can be joined on, and
for tables that multiply no rows. Of the tables that can be joined next, we take first

    one whose primary key is bound     every row so far meets at most one of its rows
    one that has the key of the rows   each of its rows meets at most one row so far
    any other                          rows meet rows: `customer JOIN supplier` on their country

so that a product is no larger on the way than it has to be, as far as declared keys can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from viewlet.algebra.nodes import Add, Exists, Expr, Lift, Rel, Sum, Var
from viewlet.algebra.scope import inputs, outputs
from viewlet.sqlgen.terms import Term
from viewlet.types import Table

Names = frozenset[str]


def arranged(
    factors: tuple[Expr, ...], bound: Mapping[str, Term], tables: Mapping[str, Table]
) -> tuple[Expr, ...] | None:
    """The factors in an order in which each has what it needs; None where there is no such order."""
    waiting, placed, known = list(factors), list[Expr](), set(bound)
    rows = {name for name, term in bound.items() if term.constant is None}
    key: Names | None = frozenset(rows)
    while waiting:
        ready = [factor for factor in waiting if _names(inputs(factor)) <= known]
        if not ready:
            return None
        joined = [factor for factor in ready if not _is_isolated(factor, rows)]
        chosen = (joined or ready)[0]
        if isinstance(chosen, Rel):
            atoms = [factor for factor in joined or ready if isinstance(factor, Rel)]
            chosen = min(atoms, key=lambda atom: _rank(atom, rows, key, tables)) if rows else chosen
            key = _key_after(chosen, rows, key, tables)
        elif not isinstance(chosen, Lift) and not _names(outputs(chosen)) <= known:
            key = None
        waiting.remove(chosen)
        placed.append(chosen)
        known |= _names(outputs(chosen))
        if not isinstance(chosen, Lift):
            rows |= _names(outputs(chosen))
    return tuple(placed)


def _rank(atom: Rel, rows: Set[str], key: Names | None, tables: Mapping[str, Table]) -> int:
    own = _primary_key(atom, tables)
    if own is not None and own <= rows:
        return 0
    return 1 if key is not None and key <= _names(atom.args) else 2


def _key_after(atom: Rel, rows: Set[str], key: Names | None, tables: Mapping[str, Table]) -> Names | None:
    """Variables of which the rows have no values twice, once the table is joined; None if we cannot tell."""
    own = _primary_key(atom, tables)
    if own is None:
        return None
    rank = _rank(atom, rows, key, tables) if rows else 1
    if rank == 0:
        return key
    return own if rank == 1 else None if key is None else key | own


def _primary_key(atom: Rel, tables: Mapping[str, Table]) -> Names | None:
    table = tables[atom.name]
    pairs = zip(table.column_names, atom.args, strict=True)
    return frozenset(var.name for column, var in pairs if column in table.primary_key) or None


def _is_isolated(factor: Expr, rows: Set[str]) -> bool:
    """It shares no variable with the rows before it, if there are any; constants join nothing."""
    return bool(rows) and isinstance(factor, Rel | Sum | Add | Exists) and rows.isdisjoint(_names(outputs(factor)))


def _names(variables: Iterable[Var]) -> Names:
    return frozenset(var.name for var in variables)
