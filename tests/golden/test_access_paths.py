"""In the triggers of flat acyclic queries every view is reached by keys: no view is scanned, whatever the change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from viewlet.algebra.checker import check
from viewlet.algebra.nodes import Add, Exists, Expr, Extremum, Lift, Mul, Neg, Rel, Sum, Value, View, factors_of
from viewlet.algebra.printer import show
from viewlet.algebra.scope import NONE, Vars, free_variables, outputs
from viewlet.algebra.simplify import simplify_monomials
from viewlet.algebra.traverse import Names, all_variables, has_relations, walk
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.hypergraph import cyclic_core
from viewlet.triggers.program import Program
from workloads import tpch

TABLES = {
    each.table.name: each.table
    for each in parse_statements(";".join(tpch.TABLES.values()), {})
    if isinstance(each, CreateTable)
}


def program_of(sql: str, name: str) -> Program:
    return compile_query(name, bind_query(sql, TABLES).query, TABLES, "higher-order")


def is_flat_and_acyclic(program: Program) -> bool:
    """No view that the result reads has a nested aggregate, and the join of each can be taken apart ear by ear."""
    read = {node.name for node in walk(program.result) if isinstance(node, View)}
    tops = [field.definition for view in program.views if view.name in read for field in view.fields]
    for top in tops:
        for monomial in simplify_monomials(top, top.keys, Names(var.name for var in all_variables(top))):
            if any(not isinstance(factor, Rel) and has_relations(factor) for factor in monomial.factors):
                return False
            if cyclic_core([free_variables(factor) for factor in monomial.factors if isinstance(factor, Rel)]):
                return False
    return bool(tops)


def scans(expr: Expr, bound: Vars) -> Iterator[Expr]:
    """The stored atoms that are reached with none of their keys bound, in evaluation order."""
    match expr:
        case Rel(_, args) | View(_, _, args):
            if args and not bound & set(args):
                yield expr
        case Mul(factors):
            for factor in factors:
                yield from scans(factor, bound)
                bound |= outputs(factor)
        case Add(terms):
            for term in terms:
                yield from scans(term, bound)
        case Lift(_, Value()):
            return
        case Neg(body) | Exists(body) | Sum(_, body) | Lift(_, body) | Extremum(_, _, _, body):
            yield from scans(body, bound)
        case _:
            return


FLAT = {"q01", "q03", "q06", "q07", "q08", "q09", "q10", "q11", "q12", "q14", "q19"}


@cache
def program_of_query(name: str) -> Program:
    return program_of(next(query.sql for query in tpch.QUERIES if query.name == name), name)


@pytest.mark.parametrize("name", [query.name for query in tpch.QUERIES])
def test_views_of_flat_queries_are_reached_by_keys(name: str) -> None:
    program = program_of_query(name)
    assert is_flat_and_acyclic(program) == (name in FLAT)
    found = [
        f"on {trigger.table}, {statement.view}.{update.field}: {show(atom)}"
        for trigger in program.triggers
        for statement in trigger.statements
        for update in statement.updates
        for atom in scans(update.expr, NONE)
    ]
    assert not found or name not in FLAT
    made = [step.after for step in program.passes]
    made += [field.definition for view in program.views for field in view.fields]
    for expr in [*made, program.result]:
        check(expr, tables=TABLES, closed=True)


def test_a_scan_is_noticed() -> None:
    program = program_of("SELECT COUNT(*) FROM nation, region WHERE n_regionkey > r_regionkey", "v")
    exprs = [u.expr for t in program.triggers for s in t.statements for u in s.updates]
    assert any(list(scans(expr, NONE)) for expr in exprs)
    assert all(len(factors_of(expr)) for expr in exprs)
