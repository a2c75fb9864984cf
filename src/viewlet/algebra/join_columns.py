"""The columns of a join: which scalars of its relations are equal, and which relation a scalar belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewlet.algebra.fold import conjuncts
from viewlet.algebra.join_sums import NotTriangleError, Summed
from viewlet.algebra.nodes import Call, Const, Rel, Scalar, Var, compare
from viewlet.algebra.printer import show_scalar
from viewlet.algebra.traverse import substitute_scalar, variable_set
from viewlet.algebra.triangle_query import Number, Shown, Side
from viewlet.types import BOOLEAN, COUNT, Kind

Column = dict[int, list[Scalar]]
"""A column of the join, as the scalars of each relation that are equal to it."""


class Equalities:
    """The equalities between relations: which scalars are one variable of the join."""

    def __init__(self, rels: tuple[Rel, ...]) -> None:
        self._rels = rels
        self._found: list[dict[int, list[Scalar]]] = []

    @property
    def classes(self) -> list[dict[int, list[Scalar]]]:
        """For every variable of the join, the scalars of each relation that are equal to it."""
        return [each for each in self._found if len(each) > 1]

    def owners(self, scalar: Scalar) -> set[int]:
        """The relations that a scalar takes columns of."""
        used = variable_set(scalar)
        return {i for i, rel in enumerate(self._rels) if used & set(rel.args)}

    def note(self, condition: Scalar) -> bool:
        """Notes an equality between two relations; False if a condition is none."""
        if not isinstance(condition, Call) or condition.op != "=":
            return False
        owners = [self.owners(side) for side in condition.args]
        if any(len(each) != 1 for each in owners) or owners[0] == owners[1]:
            return False
        sides = [(next(iter(each)), side) for each, side in zip(owners, condition.args, strict=True)]
        if any(side.type.is_float for _, side in sides):
            raise NotTriangleError(f"it joins on a floating-point number ({show_scalar(condition)})")
        touched = [each for each in self._found if any(side in each.get(owner, ()) for owner, side in sides)]
        merged: dict[int, list[Scalar]] = {}
        for each in touched:
            for owner, scalars in each.items():
                merged.setdefault(owner, []).extend(scalars)
        for owner, side in sides:
            if side not in merged.setdefault(owner, []):
                merged[owner].append(side)
        self._found = [each for each in self._found if each not in touched] + [merged]
        return True


class JoinColumns:
    """The columns of a join, the conditions of each relation, and what is summed as factors of the relations."""

    def __init__(self, rels: tuple[Rel, ...], conditions: Iterable[Scalar]) -> None:
        self._rels = rels
        equalities = Equalities(rels)
        others = [condition for condition in conditions if not equalities.note(condition)]
        self._owners = equalities.owners
        self.columns = equalities.classes
        self._conditions: list[list[Scalar]] = [[] for _ in rels]
        for relation in range(len(rels)):
            for column in self.columns_of(relation):
                first, *equal = column[relation]
                self._conditions[relation] += [compare("=", first, other) for other in equal]
        for condition in others:
            relation, scalar = self._place(condition)
            self._conditions[relation].append(scalar)

    def owner(self, column: Var) -> int:
        """The relation that a column belongs to."""
        return next(i for i, rel in enumerate(self._rels) if column in rel.args)

    def columns_of(self, relation: int) -> list[Column]:
        """The columns of the join that a relation has."""
        return [column for column in self.columns if relation in column]

    def _place(self, scalar: Scalar) -> tuple[int, Scalar]:
        """A relation that can tell what a scalar is, and the scalar over its columns."""
        owners = self._owners(scalar)
        if len(owners) <= 1:
            return min(owners, default=0), scalar
        for relation, rel in enumerate(self._rels):
            mapping = self._seen_from(relation)
            if variable_set(scalar) <= set(rel.args) | mapping.keys():
                return relation, substitute_scalar(scalar, mapping)
        raise NotTriangleError(f"{show_scalar(scalar)} takes columns of several tables, and is no sum of products")

    def _seen_from(self, relation: int) -> dict[Var, Scalar]:
        """Columns of the other relations that are equal to something of this one."""
        found: dict[Var, Scalar] = {}
        for held in self.columns_of(relation):
            others = [scalar for owner, scalars in held.items() if owner != relation for scalar in scalars]
            found |= {scalar: held[relation][0] for scalar in others if isinstance(scalar, Var)}
        return found

    def numbers(self, sums: Sequence[Summed], common: Sequence[Scalar]) -> Numbers:
        """What is summed, as numbers of the relations: the first one counts."""
        found: list[Number] = [((),) * len(self._rels)]
        shown: list[Shown] = []
        for summed in sums:
            terms = []
            for sign, factors in _product_of([_terms(value) for value in summed.values]):
                number = self._number(summed, factors, common)
                if number not in found:
                    found.append(number)
                terms.append((sign, found.index(number)))
            shown.append(terms[0][1] if [sign for sign, _ in terms] == [1] else tuple(terms))
        return Numbers(tuple(found), tuple(shown))

    def _number(self, summed: Summed, product: Sequence[Scalar], common: Sequence[Scalar]) -> Number:
        """A product as factors of the relations, 0 where a FILTER does not hold."""
        factors: list[list[Scalar]] = [[] for _ in self._rels]
        for condition in summed.conditions:
            for test in () if condition in common else _indicators(condition):
                relation, scalar = self._place(test)
                factors[relation].append(scalar)
        for factor in product:
            relation, scalar = self._place(factor)
            if not scalar.type.is_exact:
                raise NotTriangleError(f"it sums {show_scalar(factor)}, a {scalar.type}: cast it to a DECIMAL")
            factors[relation].append(scalar)
        return tuple(map(tuple, factors))

    def side(self, relation: int, variables: tuple[Scalar, ...], numbers: Sequence[Number]) -> Side:
        """A relation with its variables."""
        rel = self._rels[relation]
        factors = tuple(number[relation] for number in numbers)
        return Side(rel.name, rel.args, variables, tuple(self._conditions[relation]), factors)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that are kept, and for each sum of the query which of them it is, or how it is added up from some."""

    kept: tuple[Number, ...]
    shown: tuple[Shown, ...]


_ONE, _ZERO = Const(1, COUNT), Const(0, COUNT)
_TRUTH = replace(BOOLEAN, nullable=False)
Term = tuple[int, list[Scalar]]
"""A sign and the factors of a product."""


def _indicator(condition: Scalar) -> Scalar:
    """1 where a condition is true, else 0."""
    return Call("case", (condition, _ONE, _ZERO), COUNT)


def _indicators(condition: Scalar) -> list[Scalar]:
    """1 where a condition is true, as a product of tests that take as few columns as they can: x and y -> x * y."""
    tests: list[Scalar] = []
    for part in conjuncts(condition):
        match part:
            case Call("is_not_null", (inner,), _):
                tests += _not_null(inner)
            case _:
                tests.append(_indicator(part))
    return tests


def _terms(scalar: Scalar) -> list[Term]:
    """x * (y - z) as x * y and -(x * z), where that is the same for their representations.

    A sum is NULL where one of its summands is: each term is 0 where a column of another one is NULL.
    """
    match scalar:
        case Call("*", args, type) if sum(_scale(each) for each in args) == type.scale and _are_exact(scalar):
            return _product_of([_terms(each) for each in args])
        case Call("+" | "-" as op, (left, right), type) if _are_exact(scalar):
            if _scale(left) == _scale(right) == (type.scale if type.kind is Kind.DECIMAL else 0):
                terms = [(sign, factors, left) for sign, factors in _terms(left)]
                terms += [(sign if op == "+" else -sign, factors, right) for sign, factors in _terms(right)]
                return [(sign, [*factors, *_not_null(right if own is left else left)]) for sign, factors, own in terms]
        case Call("case", (condition, then, other), _) if (then, other) == (_ONE, _ZERO):
            return [(1, _indicators(condition))]
        case _:
            pass
    return [(1, [scalar])]


def _product_of(sums: Sequence[list[Term]]) -> list[Term]:
    """The product of some sums as one sum."""
    found: list[Term] = [(1, [])]
    for terms in sums:
        found = [(sign * other, [*left, *right]) for sign, left in found for other, right in terms]
    return found


def _are_exact(scalar: Call) -> bool:
    return scalar.type.is_exact and all(each.type.is_exact for each in scalar.args)


def _not_null(scalar: Scalar) -> list[Scalar]:
    """1 where a scalar is not NULL, as a product of such tests of the columns that decide it."""
    match scalar:
        case Call("*" | "+" | "-", args, _):
            return [test for each in args for test in _not_null(each)]
        case _ if not scalar.type.nullable:
            return []
        case _:
            return [_indicator(Call("is_not_null", (scalar,), _TRUTH))]


def _scale(scalar: Scalar) -> int:
    return scalar.type.scale if scalar.type.kind is Kind.DECIMAL else 0
