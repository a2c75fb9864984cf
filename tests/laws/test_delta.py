"""One law governs maintenance: Q(D + ΔD) = Q(D) + ΔQ(D, ΔD); and what the domains in a delta promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.expressions import (
    TABLES,
    changes,
    databases,
    expressions,
    meaning,
    merged,
    names_for,
    plus,
    rows_of,
    sorted_vars,
    state_of,
    table_names,
)
from viewlet.algebra.checker import check
from viewlet.algebra.delta import delta, single_row
from viewlet.algebra.domain import extract_domain
from viewlet.algebra.expand import collect, expand
from viewlet.algebra.nodes import Expr, Var, mul
from viewlet.algebra.order import order
from viewlet.algebra.scope import NONE, Vars, close_scopes, outputs
from viewlet.algebra.simplify import simplify


def ready(change: Expr, keys: tuple[Var, ...], bound: Vars = NONE) -> Expr:
    """A delta in an order that evaluates.

    It has to be expanded first: a sum of changes may need what a nested aggregate binds, and the aggregate what every
    term of the sum binds; term by term there is an order. Scopes need not be closed: what a domain projects away may be
    bound next to it, which narrows the domain to the key at hand, and that it still covers.
    """
    expanded = collect(expand(change, names_for(change), alone=True), keys, bound)
    check(expanded, bound, TABLES)
    return order(expanded, bound)


@given(expressions(), databases, changes())
def test_the_delta_law(expr: Expr, database: dict, change: tuple) -> None:
    table, rows = change
    keys = sorted_vars(outputs(expr))
    change_of_query = delta(close_scopes(expr), table)
    before = meaning(expr, state_of(database), keys)
    moved = meaning(ready(change_of_query, keys), state_of(database, table, rows), keys)
    assert plus(before, moved) == meaning(expr, state_of(merged(database, table, rows)), keys)


@given(expressions(), databases, changes())
def test_the_delta_law_after_simplification(expr: Expr, database: dict, change: tuple) -> None:
    table, rows = change
    keys = sorted_vars(outputs(expr))
    closed = close_scopes(expr)
    change_of_query = simplify(delta(closed, table), names_for(closed))
    check(change_of_query, tables=TABLES, closed=True)
    before = meaning(expr, state_of(database), keys)
    moved = meaning(order(change_of_query), state_of(database, table, rows), keys)
    assert plus(before, moved) == meaning(expr, state_of(merged(database, table, rows)), keys)


@given(expressions(), databases, changes())
def test_a_domain_is_an_indicator_that_covers_the_change(expr: Expr, database: dict, change: tuple) -> None:
    table, rows = change
    change_of_query = delta(close_scopes(expr), table)
    domain = extract_domain(change_of_query)
    state = state_of(database, table, rows)
    assert set(meaning(order(domain), state).values()) <= {1}
    keys = sorted_vars(outputs(change_of_query))
    restricted = ready(mul(domain, change_of_query), keys)
    assert meaning(restricted, state, keys) == meaning(ready(change_of_query, keys), state, keys)


@given(expressions(), databases, table_names, st.data(), st.sampled_from([1, -1]))
def test_one_row_in_place_of_a_change(expr: Expr, database: dict, table: str, data: st.DataObject, sign: int) -> None:
    row = data.draw(rows_of(table))
    closed = close_scopes(expr)
    change_of_query = delta(closed, table)
    parameters = tuple(Var(f":{column.name}", column.type) for column in TABLES[table].columns)
    given_ = frozenset(parameters)
    special = single_row(change_of_query, table, parameters, sign)
    keys = sorted_vars(outputs(change_of_query))
    expected = meaning(ready(change_of_query, keys), state_of(database, table, {row: sign}), keys)
    environment = dict(zip(parameters, row, strict=True))
    assert meaning(ready(special, keys, given_), state_of(database), keys, environment) == expected
    simple = simplify(special, names_for(special), given_)
    check(simple, given_, TABLES, closed=True)
    assert meaning(order(simple, given_), state_of(database), keys, environment) == expected
