"""A text that two expressions share exactly when they differ only in names of variables and order of factors.

The text identifies views: two views with the same text are one (thesis, section 3.1.1). Variables are coloured by where
they occur, and colours are refined until nothing changes; variables with equal colours are interchangeable.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
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
    factors_of,
    once,
)
from viewlet.algebra.scope import free_variables
from viewlet.algebra.traverse import scalar_variables, variable_set

Naming = Mapping[Var, str]
_COMMUTATIVE = {"+", "*", "=", "<>", "and", "or"}
MANY = 16
"""A call of so many arguments is written out once, not once for every choice of names."""


def canonical_text(expr: Expr, fixed: Iterable[Var] = ()) -> str:
    """The text of an expression whose `fixed` variables keep their names."""
    names = {var: var.name for var in fixed}
    return _text(expr, {**names, **canonical_names(factors_of(expr), names)})


def rough_text(expr: Expr, fixed: Iterable[Var] = ()) -> str:
    """A text that expressions with the same canonical text share, and perhaps others; much cheaper."""
    names = {var: var.name for var in fixed}
    return _text(expr, {**{var: f"?{var.type}" for var in free_variables(expr)}, **names}, exact=False)


def text_under(expr: Expr, names: Naming) -> str:
    """The text of an expression whose variables `canonical_names` has named."""
    return _text(expr, names)


def canonical_names(factors: Sequence[Expr], fixed: Naming) -> dict[Var, str]:
    """Names for the variables of a product that depend only on how they are used."""
    free = sorted({var for factor in factors for var in free_variables(factor)} - set(fixed), key=lambda var: var.name)
    colours = {var: f"?{var.type}" for var in free}
    while free:
        colours = _refine(factors, fixed, colours)
        classes: dict[str, list[Var]] = {}
        for var in free:
            classes.setdefault(colours[var], []).append(var)
        tied = sorted((colour for colour, members in classes.items() if len(members) > 1))
        if not tied:
            break
        first = classes[tied[0]][0]
        colours[first] = _digest([colours[first], "first"])
    ranked = sorted(free, key=lambda var: colours[var])
    return {var: f"x{i}" for i, var in enumerate(ranked)}


def _refine(factors: Sequence[Expr], fixed: Naming, colours: dict[Var, str]) -> dict[Var, str]:
    """Colours such that another round would tell no more variables apart."""
    classes = len(set(colours.values()))
    while classes < len(colours):
        refined = _one_round(factors, fixed, colours)
        if (count := len(set(refined.values()))) == classes:
            return refined
        classes, colours = count, refined
    return colours


def _one_round(factors: Sequence[Expr], fixed: Naming, colours: dict[Var, str]) -> dict[Var, str]:
    """Colours that also say how a variable is used; one that no other shares is kept, for its uses tell nothing new."""
    shared = Counter(colours.values())
    uses: dict[Var, list[str]] = {var: [colour] for var, colour in colours.items() if shared[colour] > 1}
    names = {**fixed, **colours}
    for factor in factors:
        if isinstance(factor, Rel | Delta | View):
            whole = _digest([_text(factor, names, exact=False)])
            for i, arg in enumerate(factor.args):
                if arg in uses:
                    uses[arg].append(f"{whole}{i}")
        else:
            for var in free_variables(factor):
                if var in uses:
                    uses[var].append(_text(factor, {**names, var: "*"}, exact=False))
    return colours | {var: _digest([found[0], *sorted(found[1:])]) for var, found in uses.items()}


@once
def is_settled(call: Call) -> bool:
    """The order of its arguments, and of those below it, does not depend on the names of variables."""
    if not all(is_settled(arg) for arg in call.args if isinstance(arg, Call)):
        return False
    if call.op not in _COMMUTATIVE:
        return True
    blank = {var: f"?{var.type}" for var in variable_set(call)}
    return len({scalar_text(arg, blank) for arg in call.args}) == len(call.args)


@once
def template(call: Call) -> tuple[str, tuple[Var, ...]]:
    """A call without its names, and its variables in the order in which it uses them: its text in two parts.

    Arguments that differ in names only keep their order, which the text then depends on.
    """
    args = list(call.args)
    if call.op in _COMMUTATIVE:
        blank = {var: f"?{var.type}" for var in variable_set(call)}
        args.sort(key=lambda arg: scalar_text(arg, blank))
    variables = tuple(dict.fromkeys(var for arg in args for var in scalar_variables(arg)))
    numbers = {var: f"#{i}" for i, var in enumerate(variables)}
    return _digest([call.op, f"{call.type}", *(scalar_text(arg, numbers) for arg in args)], 16), variables


def _digest(parts: list[str], size: int = 9) -> str:
    return hashlib.blake2b("|".join(parts).encode(), digest_size=size).hexdigest()


def _text(expr: Expr, names: Naming, depth: int = 1, exact: bool = True) -> str:
    """The text of an expression under given names; if not `exact`, what a Sum hides is told apart by its use only.

    The rough text is cheap, as it does not depend on the names, and it colours variables; it must not break ties, or
    colours would depend on the names the ties were broken by.
    """
    match expr:
        case Value(scalar):
            return scalar_text(scalar, names)
        case Cond(scalar):
            return "{" + scalar_text(scalar, names) + "}"
        case Rel(name, args):
            return f"{name}({','.join([names[arg] for arg in args])})"
        case Delta(name, args):
            return f"Δ{name}({','.join([names[arg] for arg in args])})"
        case View(name, field, args):
            return f"{name}.{field}[{','.join([names[arg] for arg in args])}]"
        case Mul(factors):
            return "(" + "*".join(sorted([_text(factor, names, depth, exact) for factor in factors])) + ")"
        case Add(terms):
            return "(" + "+".join(sorted([_text(term, names, depth, exact) for term in terms])) + ")"
        case Neg(body):
            return "-" + _text(body, names, depth, exact)
        case Exists(body):
            return f"E({_text(body, names, depth, exact)})"
        case Sum():
            return _sum_text(expr, tuple([names[var] for var in shared_variables(expr)]), depth, exact)
        case Lift(var, body):
            return f"({names[var]}:={_text(body, names, depth, exact)})"
        case Extremum(var, which, of, body):
            inner = {**names, of: f"{'l' * depth}of"}
            return f"({names[var]}:={which.value} {inner[of]}:{_text(body, inner, depth + 1, exact)})"
        case _:
            assert_never(expr)


@lru_cache(maxsize=16384)
def _sum_text(node: Sum, around: tuple[str, ...], depth: int, exact: bool) -> str:
    """The text of a Sum whose context calls the variables that it shares with it so; nested ones are met many times."""
    names = dict(zip(shared_variables(node), around, strict=True))
    local = _exact_names(node, names) if exact else _rough_names(node)
    inner = {**names, **{var: f"{'l' * depth}{name}" for var, name in local.items()}}
    keys = ",".join(sorted([inner[key] for key in node.keys]))
    return f"Sum[{keys}]({_text(node.body, inner, depth + 1, exact)})"


@once
def shared_variables(node: Sum) -> tuple[Var, ...]:
    """The free variables in one order."""
    return tuple(sorted(free_variables(node), key=lambda var: (var.name, str(var.type))))


def _exact_names(node: Sum, names: Naming) -> dict[Var, str]:
    """Names for what a Sum hides, from how it is used with the variables around it."""
    return canonical_names(factors_of(node.body), {var: names[var] for var in free_variables(node)})


@lru_cache(maxsize=16384)
def _rough_names(node: Sum) -> dict[Var, str]:
    """Names for what a Sum hides that variables used alike share; what is visible outside counts by its type only."""
    factors, free = factors_of(node.body), free_variables(node)
    local = {var for factor in factors for var in free_variables(factor)} - free
    return _refine(factors, {var: f"?{var.type}" for var in free}, {var: f"?{var.type}" for var in local})


def scalar_text(scalar: Scalar, names: Naming) -> str:
    match scalar:
        case Var():
            return names[scalar]
        case Const(value, type):
            return f"{value!r}:{type}"
        case Call(_, args, _) if len(args) >= MANY or is_settled(scalar):
            text, variables = template(scalar)
            return f"{text}({','.join([names[var] for var in variables])})"
        case Call(op, args, type):
            parts = [scalar_text(arg, names) for arg in args]
            return f"{op}({','.join(sorted(parts) if op in _COMMUTATIVE else parts)}):{type}"
        case _:
            assert_never(scalar)
