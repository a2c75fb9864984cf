"""What an expression means: evaluation over relations held in memory, left to right.

`prepare` turns an expression into a closure once; the variables bound so far decide statically how each atom is
reached: by its whole key (a lookup), by a part of it (a slice), or by a scan. This is the semantics every rewrite has
to preserve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, Protocol, assert_never

from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import (
    Add,
    Cond,
    Delta,
    Exists,
    Expr,
    Extreme,
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
from viewlet.algebra.scope import Vars, outputs
from viewlet.errors import DataError, InternalError
from viewlet.rings import Dyadic
from viewlet.types import INTEGER_BITS, Datum, Kind, Row, SqlType

Number = int | Dyadic
Environment = dict[str, Datum]


class Relation(Protocol):
    """A map from keys to payloads, with access by a part of the key."""

    def get(self, key: Row) -> Any: ...

    def keys(self) -> Iterable[Row]: ...

    def slice(self, positions: tuple[int, ...], part: Row) -> Iterable[Row]: ...

    def field_index(self, name: str) -> int: ...


@dataclass(slots=True)
class State:
    """What atoms refer to: base tables, their changes, and materialised views."""

    relations: Mapping[str, Relation]
    deltas: Mapping[str, Relation] = field(default_factory=dict)
    views: Mapping[str, Relation] = field(default_factory=dict)


KeyOf = Callable[[Environment], Row]
Run = Callable[[Environment, State], Iterator[Number]]
"""Enumerates bindings: each number it yields belongs to the environment as it stands at that moment."""


def evaluate(
    expr: Expr, keys: tuple[Var, ...], state: State, given: Mapping[Var, Datum] | None = None
) -> dict[Row, Number]:
    """Sum[keys](expr) as a dictionary without zeros, in a context that binds the `given` variables."""
    environment: Environment = {var.name: value for var, value in (given or {}).items()}
    run = prepare(expr, frozenset(given or ()))
    return accumulate(run(environment, state), environment, keys)


def accumulate(numbers: Iterator[Number], environment: Environment, keys: tuple[Var, ...]) -> dict[Row, Number]:
    return totals(numbers, environment, values_of(tuple(key.name for key in keys)))


def totals(numbers: Iterator[Number], environment: Environment, key_of: KeyOf) -> dict[Row, Number]:
    """Numbers added up by the keys that the environment has when each of them comes; zeros are left out."""
    found: dict[Row, Number] = {}
    for number in numbers:
        key = key_of(environment)
        found[key] = found[key] + number if key in found else number
    return found if all(found.values()) else {key: number for key, number in found.items() if number}


def values_of(names: tuple[str, ...]) -> KeyOf:
    """The function that takes the values of some names out of an environment."""
    if len(names) > 1:
        return itemgetter(*names)
    if names:
        (only,) = names
        return lambda environment: (environment[only],)
    return lambda environment: ()


def to_number(value: Datum, type: SqlType) -> Number:
    """A scalar as an element of a ring; NULL counts as 0."""
    if value is None:
        return 0
    if isinstance(value, str):
        raise InternalError(f"a string has no place in a sum: {value!r}")
    return Dyadic.of(float(value)) if isinstance(value, float) or type.is_float else int(value)


def to_datum(number: Number, type: SqlType) -> Datum:
    """A sum as a value of the variable it is lifted to; a sum its type cannot hold is an error, never a wrap."""
    if type.is_float:
        value = float(number)
        if not math.isfinite(value):
            raise DataError(f"a sum overflows {type}")
        return value
    if isinstance(number, Dyadic):
        raise InternalError(f"a floating-point sum was lifted to a variable of type {type}")
    limit = 10**type.precision if type.kind is Kind.DECIMAL else 1 << (INTEGER_BITS.get(type.kind, 64) - 1)
    if not -limit <= number < limit:
        raise DataError(f"a sum overflows {type}: {number}")
    return number


@lru_cache(maxsize=16384)
def prepare(expr: Expr, bound: Vars) -> Run:
    """A closure that enumerates the bindings of `expr` in any environment that binds `bound`."""
    match expr:
        case Value(scalar):
            return _value(scalar)
        case Cond(scalar):
            return _condition(scalar)
        case Rel() | Delta() | View():
            return _atom(expr, bound)
        case Mul(factors):
            return _product(factors, bound)
        case Add(terms):
            runs = tuple(prepare(term, bound) for term in terms)
            return lambda env, state: (number for run in runs for number in run(env, state))
        case Neg(body):
            inner = prepare(body, bound)
            return lambda env, state: (-number for number in inner(env, state))
        case Sum(keys, body):
            return _sum(tuple(key for key in keys if key not in bound), prepare(body, bound))
        case Lift(var, Value(scalar)):
            return _bind(var, bound, _scalar_of(scalar))
        case Lift(var, body):
            return _bind(var, bound, _total_of(prepare(body, bound), var.type))
        case Extremum(var, which, of, body):
            return _bind(var, bound, _extreme_of(which, of, prepare(body, bound)))
        case Exists(body):
            return _exists(tuple(sorted(outputs(body) - bound, key=lambda key: key.name)), prepare(body, bound))
        case _:
            assert_never(expr)


def _value(scalar: Scalar) -> Run:
    compute, type = compile_scalar(scalar), scalar.type

    def run(env: Environment, state: State) -> Iterator[Number]:
        number = to_number(compute(env), type)
        if number:
            yield number

    return run


def _condition(scalar: Scalar) -> Run:
    holds = compile_scalar(scalar)

    def run(env: Environment, state: State) -> Iterator[Number]:
        if holds(env) is True:
            yield 1

    return run


def _atom(atom: Rel | Delta | View, bound: Vars) -> Run:
    find, field_name = _finder(atom)
    names = tuple(arg.name for arg in atom.args)
    positions = tuple(i for i, arg in enumerate(atom.args) if arg in bound)
    key_of, part_of = values_of(names), values_of(tuple(names[i] for i in positions))
    fresh: list[tuple[int, str]] = []
    repeated: list[tuple[int, int]] = []
    for i, arg in enumerate(atom.args):
        if arg not in bound:
            first = atom.args.index(arg)
            (fresh.append((i, names[i])) if first == i else repeated.append((i, first)))

    def lookup(env: Environment, state: State) -> Iterator[Number]:
        relation = find(state)
        payload = relation.get(key_of(env))
        if payload is not None:
            number = payload[relation.field_index(field_name)]
            if number:
                yield number

    def enumerate_keys(env: Environment, state: State) -> Iterator[Number]:
        relation = find(state)
        index = relation.field_index(field_name)
        if positions:
            found = relation.slice(positions, part_of(env))
        else:
            found = relation.keys()
        for key in found:
            if repeated and any(key[i] != key[j] for i, j in repeated):
                continue
            number = relation.get(key)[index]
            if number:
                for i, name in fresh:
                    env[name] = key[i]
                yield number

    return enumerate_keys if fresh else lookup


def _finder(atom: Rel | Delta | View) -> tuple[Callable[[State], Relation], str]:
    name = atom.name
    match atom:
        case Rel():
            return (lambda state: state.relations[name]), "count"
        case Delta():
            return (lambda state: state.deltas[name]), "count"
        case View():
            return (lambda state: state.views[name]), atom.field
        case _:
            assert_never(atom)


def _product(factors: tuple[Expr, ...], bound: Vars) -> Run:
    runs = []
    for factor in factors:
        runs.append(prepare(factor, bound))
        bound |= outputs(factor)
    first, rest = runs[0], tuple(runs[1:])
    if not rest:
        return first
    second = rest[0]

    def run_two(env: Environment, state: State) -> Iterator[Number]:
        for number in first(env, state):
            for factor in second(env, state):
                yield number * factor

    def go(i: int, number: Number, env: Environment, state: State) -> Iterator[Number]:
        if i == len(rest):
            yield number
            return
        for factor in rest[i](env, state):
            yield from go(i + 1, number * factor, env, state)

    def run(env: Environment, state: State) -> Iterator[Number]:
        for number in first(env, state):
            yield from go(0, number, env, state)

    return run_two if len(rest) == 1 else run


def _sum(keys: tuple[Var, ...], inner: Run) -> Run:
    names = tuple(key.name for key in keys)
    key_of = values_of(names)

    def run(env: Environment, state: State) -> Iterator[Number]:
        for key, number in totals(inner(env, state), env, key_of).items():
            env.update(zip(names, key, strict=True))
            yield number

    return run


def _exists(keys: tuple[Var, ...], inner: Run) -> Run:
    total = _sum(keys, inner)
    return lambda env, state: (1 for _ in total(env, state))


def _bind(var: Var, bound: Vars, compute: Callable[[Environment, State], Datum]) -> Run:
    name = var.name

    def check(env: Environment, state: State) -> Iterator[Number]:
        if compute(env, state) == env[name]:
            yield 1

    def bind(env: Environment, state: State) -> Iterator[Number]:
        env[name] = compute(env, state)
        yield 1

    return check if var in bound else bind


def _scalar_of(scalar: Scalar) -> Callable[[Environment, State], Datum]:
    compute = compile_scalar(scalar)
    return lambda env, state: compute(env)


def _total_of(inner: Run, type: SqlType) -> Callable[[Environment, State], Datum]:
    def total(env: Environment, state: State) -> Datum:
        number: Number = 0
        for part in inner(env, state):
            number = number + part
        return to_datum(number, type)

    return total


def _extreme_of(which: Extreme, of: Var, inner: Run) -> Callable[[Environment, State], Datum]:
    def extreme(env: Environment, state: State) -> Datum:
        present = [key[0] for key in accumulate(inner(env, state), env, (of,))]
        if not present:
            return None
        return min(present) if which is Extreme.MIN else max(present)  # type: ignore[type-var]

    return extreme
