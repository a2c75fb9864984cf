"""The cost model: how many tuples a trigger program touches per unit of time (thesis, section 3.6.4).

    cost_exec(Q)  =  |Q|  +  sum of |Qi| over every Sum(Qi) in Q          tuples materialised
    cost(program) =  ρ_Q * cost_exec(result)  +  sum over tables R of ρ_R * (sum of cost_exec over the statements of R)

Cardinalities come from textbook estimates (independent columns, each value equally frequent, the smaller set of values
contained in the larger). An expression is costed in the order in which it runs: a Sum inside a product counts once for
each binding to its left. To the tuples materialised we add, with a smaller weight, the tuples visited on the way: 1 for
a lookup by a whole key, the matches for a slice, every row for a scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import assert_never

from viewlet.algebra.nodes import (
    Add,
    Call,
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
)
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import variable_set
from viewlet.triggers.program import Program, Statement, ViewDefinition
from viewlet.triggers.statistics import UNKNOWN, Size, Statistics
from viewlet.types import Table

VISIT_WEIGHT = 0.5
"""A tuple visited against one materialised."""
INEQUALITY = 1 / 3
"""The share of tuples that a condition of unknown selectivity keeps."""

Domains = Mapping[Var, float]
"""Distinct values of each variable bound so far."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The relations that atoms refer to."""

    tables: Mapping[str, Size]
    changes: Mapping[str, Size] = field(default_factory=dict)
    views: Mapping[str, Size] = field(default_factory=dict)

    def of(self, atom: Rel | Delta | View) -> Size:
        match atom:
            case Rel():
                return self.tables[atom.name]
            case Delta():
                return self.changes[atom.name]
            case View():
                return self.views[atom.name]
            case _:
                assert_never(atom)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One evaluation of an expression: its tuples, and what it took to enumerate them.

    `materialised` counts the tuples under every Sum, not those of the expression itself.
    """

    rows: float
    distinct: Domains = field(default_factory=dict)
    materialised: float = 0.0
    visited: float = 0.0


def estimate(expr: Expr, sizes: Sizes, bound: Domains | None = None) -> Estimate:
    """|Q| and the work to enumerate it once, in a context that binds variables to so many values."""
    given = bound or {}
    match expr:
        case Value():
            return Estimate(1.0)
        case Cond(scalar):
            return Estimate(selectivity(scalar, given))
        case Rel() | Delta() | View():
            return _atom(expr, sizes.of(expr), given)
        case Mul(factors):
            return _product(factors, sizes, given)
        case Add(terms):
            return _union([estimate(term, sizes, given) for term in terms])
        case Neg(body):
            return estimate(body, sizes, given)
        case Sum(keys, body):
            return _sum(estimate(body, sizes, given), [key for key in keys if key not in given])
        case Exists(body):
            return _sum(estimate(body, sizes, given), [var for var in outputs(body) if var not in given])
        case Lift(var, Value(scalar)):
            return _binding(var, given, prod(given.get(each, 1.0) for each in variable_set(scalar)))
        case Lift(var, body):
            inner = estimate(body, sizes, given)
            return _binding(var, given, prod(given.values()), inner.materialised, inner.visited)
        case Extremum(var, _, _, body):
            inner = estimate(body, sizes, given)
            return _binding(var, given, prod(given.values()), inner.materialised + inner.rows, inner.visited)
        case _:
            assert_never(expr)


def execution_cost(expr: Expr, sizes: Sizes) -> float:
    """cost_exec(Q) = |Q| + the tuples under every Sum, plus the weighted visits."""
    found = estimate(expr, sizes)
    return found.rows + found.materialised + VISIT_WEIGHT * found.visited


def selectivity(condition: Scalar, bound: Domains) -> float:
    """The share of tuples for which a condition holds."""
    match condition:
        case Call("=", (left, right), _):
            return 1 / max(_values(left, bound), _values(right, bound), 1.0)
        case Call("<>", (left, right), _):
            return 1 - 1 / max(_values(left, bound), _values(right, bound), 2.0)
        case Call("and" | "or", _, _):
            return _connected(condition, frozenset((var, bound.get(var, 1.0)) for var in variable_set(condition)))
        case Call("not", (arg,), _):
            return 1 - selectivity(arg, bound)
        case Call("is_not_null", _, _):
            return 1.0
        case Const(value, _):
            return 1.0 if value is True else 0.0
        case _:
            return INEQUALITY


@lru_cache(4096)
def _connected(condition: Call, values: frozenset[tuple[Var, float]]) -> float:
    """The share for a conjunction or disjunction, whose variables take so many values.

    Plans that are compared have the same long conditions at many places.
    """
    bound = dict(values)
    if condition.op == "and":
        return prod(selectivity(arg, bound) for arg in condition.args)
    return 1 - prod(1 - selectivity(arg, bound) for arg in condition.args)


def _values(scalar: Scalar, bound: Domains) -> float:
    """How many values a scalar takes; a constant takes one, an expression as many as its variables together."""
    return prod(bound.get(var, 1.0) for var in variable_set(scalar))


def _atom(atom: Rel | Delta | View, size: Size, bound: Domains) -> Estimate:
    """rows / values of the bound part, which contains the smaller of the two sets of values."""
    rows = size.rows
    joined = [(values, bound[arg]) for arg, values in zip(atom.args, size.distinct, strict=True) if arg in bound]
    parts = min(max(rows, 1.0), prod(values for values, _ in joined))
    per_value = rows / parts if parts else rows
    matches = per_value * prod(min(1.0, own / max(other, 1.0)) for own, other in joined)
    fresh = {arg: values for arg, values in zip(atom.args, size.distinct, strict=True) if arg not in bound}
    if not fresh:
        return Estimate(min(1.0, matches), {}, 0.0, 1.0)
    repeated = len(atom.args) - len(joined) - len(fresh)
    matches /= max(max(fresh.values()), 1.0) ** repeated
    return Estimate(matches, fresh, 0.0, max(1.0, per_value))


def _product(factors: Sequence[Expr], sizes: Sizes, bound: Domains) -> Estimate:
    """Left to right: each factor runs once for every tuple of the factors before it."""
    rows, materialised, visited = 1.0, 0.0, 0.0
    domains, own = dict(bound), dict[Var, float]()
    for factor in factors:
        found = estimate(factor, sizes, domains)
        materialised += rows * found.materialised
        visited += rows * found.visited
        rows *= found.rows
        own.update(found.distinct)
        domains.update(found.distinct)
    return Estimate(rows, own, materialised, visited)


def _union(terms: Iterable[Estimate]) -> Estimate:
    rows, materialised, visited = 0.0, 0.0, 0.0
    distinct: dict[Var, float] = {}
    for term in terms:
        rows, materialised, visited = rows + term.rows, materialised + term.materialised, visited + term.visited
        for var, values in term.distinct.items():
            distinct[var] = distinct.get(var, 0.0) + values
    return Estimate(rows, distinct, materialised, visited)


def _sum(body: Estimate, keys: Sequence[Var]) -> Estimate:
    """|Sum[A](Q)| = min(|Q|, values of A); materialising it costs |Q|."""
    distinct = {key: min(body.distinct.get(key, 1.0), max(body.rows, 1.0)) for key in keys}
    groups = min(body.rows, prod(distinct.values()))
    return Estimate(groups, distinct, body.materialised + body.rows, body.visited)


def _binding(var: Var, bound: Domains, values: float, materialised: float = 0.0, visited: float = 0.0) -> Estimate:
    if var in bound:
        return Estimate(1 / max(bound[var], 1.0), {}, materialised, visited)
    return Estimate(1.0, {var: max(values, 1.0)}, materialised, visited)


def view_size(view: ViewDefinition, sizes: Sizes) -> Size:
    """Keys of a view, from the definition over base tables that has the most of them."""
    found = [estimate(each.definition, sizes) for each in view.fields]
    largest = max(found, key=lambda each: each.rows)
    rows = min(largest.rows, prod(largest.distinct.get(key, 1.0) for key in view.keys))
    return Size(rows, tuple(min(largest.distinct.get(key, 1.0), max(rows, 1.0)) for key in view.keys))


def sizes_of(program: Program, tables: Mapping[str, Table], statistics: Statistics = UNKNOWN) -> Sizes:
    """Sizes of everything the program reads."""
    known = {name: statistics.size(table) for name, table in tables.items()}
    changes = {name: size.change(statistics.batch_rows) for name, size in known.items()}
    base = Sizes(known)
    return Sizes(known, changes, {view.name: view_size(view, base) for view in program.views})


@dataclass(frozen=True, slots=True)
class StatementCost:
    """One statement of one trigger, per change of the table."""

    table: str
    view: str
    replaces: bool
    cost: float


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """The cost of a program per unit of time, and where it comes from."""

    strategy: str
    statements: tuple[StatementCost, ...]
    rates: Mapping[str, float]
    result: float
    reading_rate: float
    views: Mapping[str, float]

    def trigger(self, table: str) -> float:
        """One change of the table."""
        return sum(each.cost for each in self.statements if each.table == table)

    @property
    def maintenance(self) -> float:
        """The sum of ρ_R * cost of R's trigger."""
        return sum(rate * self.trigger(table) for table, rate in self.rates.items())

    @property
    def total(self) -> float:
        """ρ_Q * cost_exec(result) + sum of ρ_R * cost of R's trigger."""
        return self.reading_rate * self.result + self.maintenance


def program_cost(program: Program, tables: Mapping[str, Table], statistics: Statistics = UNKNOWN) -> ProgramCost:
    """The maintenance cost of a whole program."""
    sizes = sizes_of(program, tables, statistics)
    statements = tuple(
        StatementCost(trigger.table, each.view, each.replaces, statement_cost(each, sizes))
        for trigger in program.triggers
        for each in trigger.statements
    )
    rates = {name: statistics.rate(name) for name, table in tables.items() if table.is_dynamic}
    return ProgramCost(
        program.strategy,
        statements,
        rates,
        execution_cost(program.result, sizes),
        statistics.reading_rate(rates),
        {name: size.rows for name, size in sizes.views.items()},
    )


def statement_cost(statement: Statement, sizes: Sizes) -> float:
    return sum(execution_cost(update.expr, sizes) for update in statement.updates)
