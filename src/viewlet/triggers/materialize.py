"""The materialisation decision: which parts of an expression become views (thesis, section 3.1, Figure 3.1).

    Sum[](ΔS(b, c) * R(a, b) * T(c, d))  ->  ΔS(b, c) * R.count[b] * T.count[c]

For one product: what the change binds separates the rest into connected components, each a view of its own (query
decomposition); a condition or value moves into a component that binds all its variables, and stays outside otherwise,
its variables becoming keys (input variables); a value that spans components is expanded (polynomial expansion); a
nested aggregate over the changing table stays outside with its body materialised in its place (nested aggregates). In
a cyclic join the atoms of a cycle that the change opens stay apart, and its ears are joined among themselves (section
3.6.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewlet.algebra.expand import Monomial, collect, expand
from viewlet.algebra.fold import fold
from viewlet.algebra.functions import cannot_fail
from viewlet.algebra.nodes import (
    ONE,
    Add,
    Call,
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Neg,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    add,
    mul,
    neg,
)
from viewlet.algebra.order import is_dispensable
from viewlet.algebra.scope import NONE, Vars, free_variables, inputs, outputs
from viewlet.algebra.simplify import simplify_monomials
from viewlet.algebra.traverse import (
    Names,
    all_variables,
    children,
    has_delta,
    has_relations,
    rebuild,
    scalar_variables,
)
from viewlet.triggers.catalogue import Catalogue
from viewlet.triggers.grouping import Grouping, Join, by_components
from viewlet.types import BOOLEAN, COUNT, SqlType, Table, TableKind

Splits = Callable[[Expr], bool]
"""Whether a nested factor must be taken out of its product and materialised piecewise."""


_Body = Callable[[Expr, Sequence[Var], Vars], Expr]
"""Materialises the body of a nested aggregate: Sum[keys](body) in a context."""


def never(factor: Expr) -> bool:
    return False


@dataclass(slots=True)
class Materializer:
    catalogue: Catalogue
    tables: Mapping[str, Table]
    names: Names
    grouping: Grouping = by_components
    _bodies: dict[tuple[Expr, Vars, _Body], Expr] = field(default_factory=dict, init=False)

    def expression(self, expr: Expr, keys: Sequence[Var], given: Vars, splits: Splits, cyclic: bool = False) -> Expr:
        """Sum[keys](expr) over views instead of base tables."""
        return collect(self.monomials(expr, keys, given, splits, cyclic), keys, given)

    def monomials(
        self, expr: Expr, keys: Sequence[Var], given: Vars, splits: Splits, cyclic: bool = False
    ) -> list[Monomial]:
        simple = simplify_monomials(expr, tuple(keys), self.names, given)
        keep, alike = frozenset(keys), _test_alike(simple)
        return [done for monomial in simple for done in self._monomial(monomial, keep, given, splits, cyclic, alike)]

    def whole(self, expr: Expr, keys: Sequence[Var], given: Vars) -> Expr:
        """Sum[keys](expr) as one view per monomial, not decomposed: for what is read as often as it is written."""
        terms: list[Monomial] = []
        simple = simplify_monomials(expr, tuple(keys), self.names, given)
        for monomial in simple:
            if inputs(monomial.product):  # it cannot be stored for every value of what it needs from outside
                terms += self._monomial(monomial, frozenset(keys), given, never, False, _test_alike(simple))
                continue
            shared = tuple(sorted(outputs(monomial.product) & given - set(keys), key=_name))
            if has_relations(monomial.product):
                atom: Expr = self._store((*keys, *shared), monomial.factors, as_view=True)
                terms.append(Monomial(monomial.coefficient, (atom,)))
            else:
                terms.append(monomial)
        return collect(terms, keys, given)

    def root(self, expr: Expr, keys: Sequence[Var], stored: bool = False) -> Expr:
        """The result of a query: a view where rows are joined, or `stored`; else its nested aggregates over views."""
        terms: list[Monomial] = []
        for monomial in simplify_monomials(expr, tuple(keys), self.names):
            is_join = any(isinstance(factor, Rel) for factor in monomial.factors)
            if is_join or (stored and any(map(has_relations, monomial.factors))):
                atom = self._store(tuple(keys), monomial.factors, as_view=True)
                terms.append(Monomial(monomial.coefficient, (atom,)))
            else:
                visible = outputs(monomial.product)
                factors = tuple(self._nested(factor, visible, self._whole_body) for factor in monomial.factors)
                terms.append(Monomial(monomial.coefficient, factors))
        return self._stored_tables(collect(terms, tuple(keys)))

    def _stored_tables(self, result: Expr) -> Expr:
        """The result with views in place of base tables, because readers of a result have its views only."""
        if isinstance(result, Rel):
            return self.catalogue.request(result.args, (result,))
        return rebuild(result, self._stored_tables)

    def _whole_body(self, body: Expr, keys: Sequence[Var], given: Vars) -> Expr:
        return self.whole(body, keys, given)

    def _piecewise_body(self, body: Expr, keys: Sequence[Var], given: Vars) -> Expr:
        return self.expression(body, keys, given, never)

    def _nested(self, factor: Expr, visible: Vars, body_of: _Body) -> Expr:
        """A factor with the bodies of its nested aggregates materialised, in a context that binds `visible`.

        What does not change appears in the trigger of every other table: it is materialised once.
        """
        if not has_relations(factor):
            return factor
        key = factor, visible & all_variables(factor), body_of
        known = self._bodies.get(key)
        if known is None:
            known = self._bodies[key] = self._materialize(factor, visible, body_of)
        return known

    def _materialize(self, factor: Expr, visible: Vars, body_of: _Body) -> Expr:
        match factor:
            case Lift(var, body):
                return Lift(var, body_of(body, (), visible - {var}))
            case Extremum(var, which, of, body):
                return Extremum(var, which, of, body_of(body, (of,), visible - {var, of}))
            case Exists(body):
                return Exists(body_of(body, tuple(sorted(outputs(body), key=_name)), visible))
            case Add() | Sum():
                return body_of(factor, tuple(sorted(outputs(factor), key=_name)), visible)
            case _:
                return rebuild(factor, lambda child: self._nested(child, visible, body_of))

    def _monomial(
        self, monomial: Monomial, keep: Vars, given: Vars, splits: Splits, cyclic: bool, alike: bool
    ) -> Iterable[Monomial]:
        """A product over views. It is one of a sum whose products make `alike` tests for NULL, or other ones."""
        plan = self._divide(monomial.factors, keep, given, splits, cyclic)
        straddling = (f for f in plan.outside if isinstance(f, Value | Cond) and plan.spans(f))
        apart = next(((f, terms) for f in straddling if (terms := _addends(f)) is not None), None)
        if apart is not None:
            rest = list(monomial.factors)
            rest.remove(apart[0])
            for extra in (part for term in apart[1] for part in expand(term, self.names)):
                part = Monomial(monomial.coefficient * extra.coefficient, (*rest, *extra.factors))
                yield from self._monomial(part, keep, given, splits, cyclic, alike)
            return
        around = given.union(*(free_variables(factor) for factor in monomial.factors))
        result: list[Expr] = []
        for factor in plan.outside:
            if isinstance(factor, Add | Sum):  # a union that was kept whole binds what it shows itself
                others = [free_variables(other) for other in monomial.factors if other is not factor]
                result.append(self._nested(factor, given.union(*others), self._piecewise_body))
            else:
                result.append(self._nested(factor, around, self._piecewise_body))
        for i, component in enumerate(plan.components):
            beside = [free_variables(f) for f in plan.outside] + [
                free_variables(f) for j, other in enumerate(plan.components) if j != i for f in other
            ]
            wanted = (keep | given).union(*beside)
            own = NONE.union(*(outputs(factor) for factor in component))
            keys = tuple(sorted(own & wanted, key=_name))
            if alike and not self._is_table(keys, component):
                component = _with_presence(component, own, monomial.factors)
            result.append(self._store(keys, tuple(component)))
        yield Monomial(monomial.coefficient, tuple(result))

    def _divide(self, factors: Sequence[Expr], keep: Vars, given: Vars, splits: Splits, cyclic: bool) -> _Division:
        floating = [factor for factor in factors if _is_floating(factor)]
        stored = [f for f in factors if isinstance(f, Rel) or (_is_nested(f) and not has_delta(f) and not splits(f))]
        inside = {*floating, *stored}
        outside = [factor for factor in factors if factor not in inside]
        while True:
            bound = given.union(*(outputs(factor) for factor in outside))
            division = self._assign(Join(stored, outside, floating, bound, keep | given, cyclic))
            loose = [f for c in division.components for f in c if _is_nested(f) and not _supported(f, c)]
            if not loose:
                return division
            gone = set(loose)
            stored = [factor for factor in stored if factor not in gone]
            outside = outside + loose

    def _assign(self, join: Join) -> _Division:
        """Conditions, values and assignments go where their inputs are bound: outside, or into a view.

        A value that fails for some rows stays outside of a view that is joined with others: SQL computes it for the
        rows of the join alone.
        """
        pending, result, bound = list(join.floating), list(join.outside), join.bound
        while ready := [factor for factor in pending if inputs(factor) <= bound]:
            result += ready
            bound = bound.union(*(outputs(factor) for factor in ready))
            placed = set(ready)
            pending = [factor for factor in pending if factor not in placed]
        groups = self.grouping(replace(join, bound=bound))
        parts = [[join.stored[i] for i in group] for group in groups]
        shown = [NONE.union(*(outputs(member) for member in part)) for part in parts]
        is_whole = len(parts) == 1 and not shown[0] & bound and all(map(_is_floating, join.outside))
        progress = True
        while progress:
            waiting: list[Expr] = []
            for factor in pending:
                home = next((i for i, own in enumerate(shown) if inputs(factor) and inputs(factor) <= own), None)
                if home is None or (not is_whole and is_dispensable(factor)):
                    waiting.append(factor)
                else:
                    parts[home].append(factor)
                    shown[home] |= outputs(factor)
            progress, pending = len(waiting) < len(pending), waiting
        return _Division(result + pending, parts)

    def _store(self, keys: Sequence[Var], factors: tuple[Expr, ...], as_view: bool = False) -> Expr:
        """The atom to read for Sum[keys](factors): a base table that keeps its rows serves as its own view."""
        if not as_view and self._is_table(keys, factors):
            return factors[0]
        return self.catalogue.request(keys, factors)

    def _is_table(self, keys: Sequence[Var], factors: Sequence[Expr]) -> bool:
        """Whether Sum[keys](factors) has the rows of a table that keeps them."""
        match factors:
            case (Rel(name, args),):
                kept = self.tables[name].kind is not TableKind.STREAM
                return kept and len(set(args)) == len(args) and set(args) == set(keys)
            case _:
                return False

    def localize(self, expr: Expr, wanted: Vars) -> Expr:
        """The same expression over base tables, with streams (which keep no rows) replaced by views of what is used."""
        uses: dict[Var, int] = dict.fromkeys(wanted, 2)
        _count_uses(expr, uses)

        def go(node: Expr) -> Expr:
            if isinstance(node, Rel) and self.tables[node.name].kind is TableKind.STREAM:
                keys = tuple(dict.fromkeys(arg for arg in node.args if uses[arg] > 1))
                return self.catalogue.request(keys, (node,))
            return rebuild(node, go)

        return go(expr)


@dataclass(slots=True)
class _Division:
    """What stays outside, and the components that become views."""

    outside: list[Expr]
    components: list[list[Expr]]

    def spans(self, value: Value | Cond) -> bool:
        """The value or condition needs variables of some component."""
        needed = inputs(value)
        return any(needed & outputs(factor) for component in self.components for factor in component)


def _supported(factor: Expr, component: list[Expr]) -> bool:
    """The component has an atom, and binds what the nested factor needs."""
    if not any(isinstance(member, Rel) for member in component):
        return False
    others = [outputs(member) for member in component if member is not factor]
    return inputs(factor) <= NONE.union(*others)


def _is_floating(factor: Expr) -> bool:
    return isinstance(factor, Value | Cond) or (isinstance(factor, Lift) and isinstance(factor.body, Value))


def _with_presence(component: Sequence[Expr], own: Vars, factors: Iterable[Expr]) -> list[Expr]:
    """The component with the tests of a product that its variables are not NULL, wherever else they are made.

    Views are then the same for all changes: of s(a, c), whose columns are joined, it is the rows without NULLs that are
    kept, and not those where a is not NULL for changes of c's other table, and a second time those where c is not NULL.
    """
    tests = (factor for factor in factors if _is_presence(factor) and inputs(factor) <= own)
    return [*component, *(factor for factor in tests if factor not in component)]


def _test_alike(monomials: Iterable[Monomial]) -> bool:
    """Whether some products test the same variables for NULL; those of outer joins do not, and share views without."""
    return len({frozenset(filter(_is_presence, monomial.factors)) for monomial in monomials}) <= 1


def _is_presence(factor: Expr) -> bool:
    match factor:
        case Cond(Call("is_not_null", (Var(),), _)):
            return True
        case _:
            return False


def _is_nested(factor: Expr) -> bool:
    return isinstance(factor, Lift | Extremum | Exists | Add | Neg | Sum) and has_relations(factor)


def _addends(factor: Value | Cond) -> list[Expr] | None:
    """A value or condition as a sum of products that different views can sum, if it is one.

    a - b                            a, where b is not NULL; -b, where a is not NULL
    CASE WHEN c THEN a ELSE b END    a, where c is TRUE; b, where it is not
    COALESCE(a, b)                   a; b, where a is NULL
    {a * b IS NULL}                  1; less 1, where a and b are not NULL
    """
    match factor.scalar:
        case Call("is_null", (arg,), _) if isinstance(factor, Cond):
            return [ONE, neg(Cond(fold(Call("is_not_null", (arg,), BOOLEAN.with_nullable(False)))))]
        case _ if isinstance(factor, Cond):
            return None
        case Call("case", (condition, Const(1, _), Const(0, _)), _):
            return _numbers(condition)
        case Call("case", (condition, Const(0, _), Const(1, _)), _):
            return [ONE, neg(_number(condition))]
        case Call("case", (condition, then, *others), type) if _can_be_summed(type) and all(
            map(cannot_fail, (then, *others))
        ):
            otherwise = others[0] if len(others) == 1 else Call("case", tuple(others), type)
            return [mul(_number(condition), Value(then)), mul(_number(condition, 0, 1), Value(otherwise))]
        case Call("coalesce", (first, *others), type) if type.is_exact and all(map(cannot_fail, others)):
            rest = others[0] if len(others) == 1 else Call("coalesce", tuple(others), type)
            return [Value(first), mul(_absence(first), Value(rest))]
        case Call("+" | "-" as op, (left, right), type) if _can_be_summed(type):
            if type.is_float and not (left.type.is_float and right.type.is_float):
                return None
            second = Value(right) if op == "+" else neg(Value(right))
            return [mul(_presence(right), Value(left)), mul(_presence(left), second)]
        case _:
            return None


def _numbers(condition: Scalar) -> list[Expr] | None:
    """1 where a condition is TRUE, else 0, as a sum of products of such numbers."""
    match condition:
        case Call("case", (first, then, *others), type) if all(map(cannot_fail, (then, *others))):
            otherwise = others[0] if len(others) == 1 else Call("case", tuple(others), type)
            return [mul(_number(first), _number(then)), mul(_number(first, 0, 1), _number(otherwise))]
        case Call("is_not_null", (Call("coalesce", (first, *others), type),), _) if all(map(cannot_fail, others)):
            rest = others[0] if len(others) == 1 else Call("coalesce", tuple(others), type)
            return [_presence(first), mul(_absence(first), _presence(rest))]
        case _:
            return None


def _number(condition: Scalar, where_true: int = 1, otherwise: int = 0) -> Value:
    """A number where a condition is TRUE, and another one where it is not."""
    return Value(fold(Call("case", (condition, Const(where_true, COUNT), Const(otherwise, COUNT)), COUNT)))


def _presence(scalar: Scalar) -> Expr:
    """1 where a scalar is not NULL, else 0."""
    return _number(Call("is_not_null", (scalar,), BOOLEAN.with_nullable(False))) if scalar.type.nullable else ONE


def _absence(scalar: Scalar) -> Expr:
    """1 where a scalar is NULL, else 0."""
    return add(ONE, neg(_presence(scalar)))


def _can_be_summed(type: SqlType) -> bool:
    return type.is_exact or type.is_float


def _count_uses(expr: Expr, uses: dict[Var, int]) -> None:
    match expr:
        case Value(scalar) | Cond(scalar):
            found: Iterable[Var] = scalar_variables(scalar)
        case Rel(_, args) | Delta(_, args) | View(_, _, args):
            found = args
        case Sum(keys, _):
            found = keys
        case Lift(var, _):
            found = (var,)
        case Extremum(var, _, of, _):
            found = (var, of)
        case _:
            found = ()
    for var in found:
        uses[var] = uses.get(var, 0) + 1
    for child in children(expr):
        _count_uses(child, uses)


def _name(var: Var) -> str:
    return var.name
