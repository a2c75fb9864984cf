"""Random well-scoped expressions over three tiny tables with NULLs, and random databases and changes for them.

A variable is taken from what is bound to the left, or is new; so no two share a name unless they mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from viewlet.algebra.evaluate import Number, State, evaluate
from viewlet.algebra.nodes import (
    Call,
    Cond,
    Const,
    Exists,
    Expr,
    Extreme,
    Extremum,
    Lift,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    add,
    call,
    compare,
    mul,
    neg,
    sum_over,
)
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import Names, all_variables
from viewlet.triggers.store import MapStore
from viewlet.types import BIGINT, BOOLEAN, VARCHAR, Column, Datum, Row, SqlType, Table

NUMBER = BIGINT
PRESENT = BIGINT.with_nullable(False)
TABLES = {
    "R": Table("R", (Column("a", NUMBER), Column("b", PRESENT))),
    "S": Table("S", (Column("b", NUMBER), Column("c", NUMBER))),
    "T": Table("T", (Column("c", PRESENT), Column("s", VARCHAR))),
}
Rows = dict[Row, int]
Bound = tuple[Var, ...]


@dataclass(slots=True)
class Maker:
    """Draws expressions; `bound` is always what the factors to the left bind."""

    draw: Callable[[st.SearchStrategy], object]
    count: int = 0

    def expression(self, depth: int = 2) -> Expr:
        """A closed query: a product or a sum of products, grouped by some of its columns."""
        if self.chance(1, 4):
            return self.sum_of_terms((), depth)
        body = self.product((), depth, first_atom=True)
        if self.chance(1, 3):
            return body
        return Sum(self.some(sorted_vars(outputs(body))), body)

    def product(self, bound: Bound, depth: int, first_atom: bool = False) -> Expr:
        factors: list[Expr] = [self.atom(bound)] if first_atom else []
        for _ in range(self.number(1, 3)):
            now = bound + tuple(var for factor in factors for var in sorted_vars(outputs(factor)) if var not in bound)
            factors.append(self.factor(tuple(dict.fromkeys(now)), depth))
        product = mul(*factors)
        return neg(product) if self.chance(1, 6) else product

    def factor(self, bound: Bound, depth: int) -> Expr:
        simple = [self.atom, self.atom, self.value, self.condition, self.assignment]
        nested = [self.nested_sum, self.nested_sum, self.group, self.exists, self.extremum]
        if depth > 0 and self.chance(2, 5):
            make = self.pick([*nested, self.sum_of_terms])
            return make(bound, depth - 1)
        return self.pick(simple)(bound)

    def atom(self, bound: Bound, wanted: Var | None = None) -> Expr:
        table = TABLES[self.pick(list(TABLES))] if wanted is None else TABLES[self.pick(["R", "S"])]
        args: list[Var] = []
        for column in table.columns:
            known = [var for var in (*bound, *args) if var.type.same_representation(column.type)]
            if wanted is not None and wanted not in args:
                args.append(wanted)
            elif known and self.chance(1, 2):
                args.append(self.pick(known))
            else:
                args.append(self.fresh(column.type, column.name))
        return Rel(table.name, tuple(args))

    def value(self, bound: Bound) -> Expr:
        return Value(self.scalar(bound, 2))

    def condition(self, bound: Bound) -> Expr:
        return Cond(self.truth(bound, 1))

    def assignment(self, bound: Bound) -> Expr:
        scalar = self.scalar(bound, 1)
        return Lift(self.fresh(scalar.type, "v"), Value(scalar))

    def nested_sum(self, bound: Bound, depth: int) -> Expr:
        """(x := Q), correlated through the variables Q takes from `bound`."""
        parts = [Sum((), self.product(bound, depth)) for _ in range(self.number(1, 2))]
        return Lift(self.fresh(PRESENT, "x"), add(*parts))

    def group(self, bound: Bound, depth: int) -> Expr:
        body = self.product(bound, depth)
        return Sum(self.some(sorted_vars(outputs(body))), body)

    def exists(self, bound: Bound, depth: int) -> Expr:
        return Exists(self.group(bound, depth))

    def extremum(self, bound: Bound, depth: int) -> Expr:
        of = self.fresh(NUMBER, "o")
        body = mul(self.atom(bound, of), self.condition((*bound, of)), Cond(is_not_null(of)))
        which = self.pick([Extreme.MIN, Extreme.MAX])
        return Extremum(self.fresh(NUMBER, "m"), which, of, Sum((of,), body))

    def sum_of_terms(self, bound: Bound, depth: int) -> Expr:
        """Terms that bind the same columns, each in its own way."""
        keys = tuple(self.fresh(NUMBER, "k") for _ in range(self.number(0, 2)))
        terms = []
        for _ in range(self.number(2, 3)):
            binders = [self.binder(key, bound) for key in keys]
            rest = self.factor((*bound, *keys), depth)
            term = sum_over(keys, mul(*binders, rest))
            terms.append(neg(term) if self.chance(1, 3) else term)
        return add(*terms)

    def binder(self, key: Var, bound: Bound) -> Expr:
        return Lift(key, Value(self.scalar(bound, 1))) if self.chance(1, 4) else self.atom(bound, key)

    def scalar(self, bound: Bound, depth: int) -> Scalar:
        numbers = [var for var in bound if var.type.is_integer]
        if depth == 0 or self.chance(1, 2):
            if numbers and self.chance(4, 5):
                return self.pick(numbers)
            return Const(self.number(-1, 3), PRESENT) if self.chance(5, 6) else Const(None, NUMBER)
        left, right = self.scalar(bound, depth - 1), self.scalar(bound, depth - 1)
        either = NUMBER.with_nullable(left.type.nullable or right.type.nullable)
        match self.number(0, 5):
            case 0:
                return call("neg", left, type=left.type)
            case 1:
                both = NUMBER.with_nullable(left.type.nullable and right.type.nullable)
                return call("coalesce", left, right, type=both)
            case 2:
                return call("case", self.truth(bound, depth - 1), left, right, type=either)
            case n:
                return call("+-*"[n - 3], left, right, type=either)

    def truth(self, bound: Bound, depth: int) -> Scalar:
        if depth > 0 and self.chance(1, 3):
            left, right = self.truth(bound, depth - 1), self.truth(bound, depth - 1)
            type = BOOLEAN.with_nullable(left.type.nullable or right.type.nullable)
            return self.pick([Call("and", (left, right), type), Call("or", (left, right), type)])
        if depth > 0 and self.chance(1, 6):
            inner = self.truth(bound, depth - 1)
            return call("not", inner, type=inner.type)
        texts = [var for var in bound if not var.type.is_integer]
        if texts and self.chance(1, 3):
            other: Scalar = self.pick([*texts, Const("x", VARCHAR.with_nullable(False))])
            return compare(self.pick(["=", "<>", "<"]), self.pick(texts), other)
        if bound and self.chance(1, 6):
            op = self.pick(["is_null", "is_not_null"])
            return call(op, self.pick(list(bound)), type=BOOLEAN.with_nullable(False))
        ops = ["=", "=", "=", "<>", "<", "<=", ">", ">="]
        return compare(self.pick(ops), self.scalar(bound, depth), self.scalar(bound, depth))

    def fresh(self, type: SqlType, hint: str) -> Var:
        self.count += 1
        return Var(f"{hint}{self.count}", type)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, times: int, out_of: int) -> bool:
        return self.number(1, out_of) > out_of - times

    def pick(self, choices: Sequence):
        return choices[self.number(0, len(choices) - 1)]

    def some(self, choices: Sequence[Var]) -> tuple[Var, ...]:
        return tuple(var for var in choices if self.chance(2, 3))


@st.composite
def expressions(draw: Callable, depth: int = 2) -> Expr:
    return Maker(draw).expression(depth)


@st.composite
def scalars(draw: Callable) -> tuple[Scalar, Bound]:
    bound = (Var("a", NUMBER), Var("b", PRESENT), Var("s", VARCHAR))
    maker = Maker(draw)
    return (maker.scalar(bound, 3) if maker.chance(1, 2) else maker.truth(bound, 3)), bound


def values(type: SqlType) -> st.SearchStrategy[Datum]:
    known = st.integers(0, 2) if type.is_integer else st.sampled_from(["x", "y"])
    return known | st.none() if type.nullable else known


def rows_of(table: str) -> st.SearchStrategy[Row]:
    return st.tuples(*(values(column.type) for column in TABLES[table].columns))


def contents(table: str, most: int = 5) -> st.SearchStrategy[Rows]:
    """Rows with multiplicities; a relation may owe rows, so they may be negative."""
    return st.dictionaries(rows_of(table), st.sampled_from([1, 1, 1, 2, -1]), max_size=most)


databases = st.fixed_dictionaries({name: contents(name) for name in TABLES})
table_names = st.sampled_from(sorted(TABLES))


@st.composite
def changes(draw: Callable) -> tuple[str, Rows]:
    table = draw(table_names)
    return table, draw(contents(table, 3))


def store(rows: Rows) -> MapStore:
    result = MapStore()
    for row, multiplicity in rows.items():
        result.add(row, (multiplicity,))
    return result


def state_of(database: Mapping[str, Rows], table: str = "R", change: Rows | None = None) -> State:
    return State({name: store(rows) for name, rows in database.items()}, {table: store(change or {})})


def merged(database: Mapping[str, Rows], table: str, change: Rows) -> dict[str, Rows]:
    rows = dict(database[table])
    for row, multiplicity in change.items():
        rows[row] = rows.get(row, 0) + multiplicity
    return {**database, table: {row: n for row, n in rows.items() if n}}


def meaning(
    expr: Expr, state: State, keys: Bound | None = None, given: Mapping[Var, Datum] | None = None
) -> dict[Row, Number]:
    """What an expression evaluates to, by its columns in the order of their names."""
    return evaluate(expr, sorted_vars(outputs(expr)) if keys is None else keys, state, given)


def plus(left: Mapping[Row, Number], right: Mapping[Row, Number]) -> dict[Row, Number]:
    total = dict(left)
    for key, number in right.items():
        total[key] = total.get(key, 0) + number
    return {key: number for key, number in total.items() if number}


def names_for(expr: Expr) -> Names:
    return Names(var.name for var in all_variables(expr))


def sorted_vars(variables: frozenset[Var]) -> tuple[Var, ...]:
    return tuple(sorted(variables, key=lambda var: var.name))


def is_not_null(var: Var) -> Scalar:
    return call("is_not_null", var, type=BOOLEAN.with_nullable(False))
