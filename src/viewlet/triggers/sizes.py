"""Sizes of tables: measured where they are, else inferred from how the query joins them.

A column that meets the primary key of another table refers to it: many rows to one. Where nothing has been measured, a
table is assumed to have `DEFAULT_FANOUT` times as many rows as those it refers to. Unless rates are known, large tables
are assumed to change more often than small ones, in proportion to the square root of their sizes. That is a compromise
between equal rates and rates proportional to the sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, Rel, Var
from viewlet.algebra.query import Query
from viewlet.algebra.scope import close_scopes
from viewlet.algebra.simplify import simplify_monomials
from viewlet.algebra.traverse import Names, all_variables, children
from viewlet.triggers.statistics import DEFAULT_FANOUT, Size, Statistics
from viewlet.types import Table

LARGEST = 1_000_000.0
"""Rows of a table that no other refers to."""
RATE_EXPONENT = 0.5
"""How the rate of changes grows with the size of a table."""
FEW_VALUES = 100.0
"""Values of a column that no join uses."""


def complete(statistics: Statistics, query: Query, tables: Mapping[str, Table]) -> Statistics:
    """The same statistics with a size and a rate for every table of the query."""
    atoms = _atoms(query)
    inferred = _inferred_sizes(atoms, tables)
    sizes = {name: statistics.sizes.get(name) or inferred.get(name) or statistics.size(tables[name]) for name in tables}
    whole = sum(sizes[name].rows ** RATE_EXPONENT for name in {atom.name for atom in atoms}) or 1.0
    rates = {
        name: statistics.rates.get(name, size.rows**RATE_EXPONENT / whole) if tables[name].is_dynamic else 0.0
        for name, size in sizes.items()
    }
    return Statistics(sizes, rates, statistics.query_rate, statistics.batch_rows, not statistics.known)


@lru_cache(maxsize=16)
def _atoms(query: Query) -> tuple[Rel, ...]:
    """The atoms of all products of the query, with joined columns sharing a variable; strategies are tried in turn."""
    names = Names(var.name for var in all_variables(query.expr))
    monomials = simplify_monomials(close_scopes(query.expr), tuple(query.output), names)
    return tuple(atom for each in monomials for factor in each.factors for atom in _atoms_of(factor, names))


def _atoms_of(expr: Expr, names: Names) -> Iterator[Rel]:
    if isinstance(expr, Rel):
        yield expr
    elif isinstance(expr, Lift | Extremum | Exists):
        for monomial in simplify_monomials(expr.body, (), names):
            for factor in monomial.factors:
                yield from _atoms_of(factor, names)
    else:
        for child in children(expr):
            yield from _atoms_of(child, names)


def _inferred_sizes(atoms: Sequence[Rel], tables: Mapping[str, Table]) -> dict[str, Size]:
    keyed = _keyed_variables(atoms, tables)
    users: dict[Var, int] = defaultdict(int)
    refers: dict[str, dict[int, str]] = defaultdict(dict)  # table -> position -> the table whose key it meets
    for atom in atoms:
        for i, arg in enumerate(atom.args):
            users[arg] += 1
            if arg in keyed and keyed[arg] != atom.name:
                refers[atom.name][i] = keyed[arg]
    referred = {name: {source for source in refers if name in refers[source].values()} for name in tables}
    rows = {atom.name: max(1.0, LARGEST / DEFAULT_FANOUT ** _depth(atom.name, referred, frozenset())) for atom in atoms}
    joined = {(atom.name, i) for atom in atoms for i, arg in enumerate(atom.args) if users[arg] > 1}

    def distinct(table: Table, i: int) -> float:
        own = rows[table.name]
        if table.primary_key == (table.columns[i].name,):
            return own
        if i in refers[table.name]:
            return min(own, rows[refers[table.name][i]])
        return own / DEFAULT_FANOUT if (table.name, i) in joined else min(FEW_VALUES, own / DEFAULT_FANOUT)

    return {
        name: Size(count, tuple(distinct(tables[name], i) for i in range(len(tables[name].columns))))
        for name, count in rows.items()
    }


def _keyed_variables(atoms: Sequence[Rel], tables: Mapping[str, Table]) -> dict[Var, str]:
    """Variables that are the whole primary key of some atom, with its table."""
    found: dict[Var, str] = {}
    for atom in atoms:
        table = tables[atom.name]
        for arg, name in zip(atom.args, table.column_names, strict=True):
            if table.primary_key == (name,):
                found[arg] = atom.name
    return found


def _depth(table: str, referred: Mapping[str, set[str]], seen: frozenset[str]) -> int:
    """The length of the longest chain of references to a table, not counting circles."""
    seen |= {table}
    sources = referred.get(table, set()) - seen
    return max((1 + _depth(source, referred, seen) for source in sources), default=0)
