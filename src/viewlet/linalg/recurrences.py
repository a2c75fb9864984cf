"""Iterative programs: powers, sums of powers and T := A T + B, in the models of Table 1.

    linear         every step from the one before it           k matrices
    exponential    by doubling: 1, 2, 4, ..., and what is left   about log2 k matrices
    skip-s         by doubling up to s, then every s-th step   log2 s + k / s matrices
    telescoped     powers only: no step is kept, A'^k - A^k = sum of A'^j u v' A^(k-1-j)

A recurrence is a node of the expression until sizes are known; `expand` then writes the statements of a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from viewlet.linalg.errors import ProgramError, ShapeError
from viewlet.linalg.expression import (
    Expression,
    Operators,
    Recurrence,
    add,
    identity,
    named,
    product,
    recurrence,
    shape,
    zero,
)
from viewlet.visible import described

MOST_STEPS = 256
MODELS = ("auto", "linear", "exponential", "telescoped")

Names = Callable[[str], str]
"""A supply of names: a name that is not taken yet, from the one that is wanted."""


def matrix_power(base: Expression, k: int, *, model: str = "auto") -> Expression:
    """The power A^k of a square matrix, maintained by the given model of iteration."""
    _check_steps(k, "a power", least=0)
    _check_square(base)
    if k <= 1:
        return base if k else identity(shape(base)[0])
    return recurrence("power", (base,), k, _model(model, k, telescoped=True))


def power_sum(base: Expression, k: int, *, model: str = "auto") -> Expression:
    """The sum I + A + ... + A^(k-1) of k powers of a square matrix."""
    _check_steps(k, "a sum of powers", least=1)
    _check_square(base)
    if k == 1:
        return identity(shape(base)[0])
    return recurrence("power_sum", (base,), k, _model(model, k))


def iterate(
    base: Expression, right: Expression | None, start: Expression, *, steps: int, model: str = "auto"
) -> Expression:
    """The result of `steps` steps of T := A T + B from a start; `None` or zeros as B leave out the sum."""
    _check_steps(steps, "an iteration", least=0)
    _check_square(base)
    right = zero(*shape(start)) if right is None else right
    if shape(right) != shape(start) or shape(base)[0] != shape(start)[0]:
        raise ShapeError(
            f"T := A T + B needs B and T of one shape and as many rows as A: A is {_size(base)}, B {_size(right)}, "
            f"T {_size(start)}"
        )
    return start if steps == 0 else recurrence("iterate", (base, right, start), steps, _model(model, steps))


def candidates(node: Recurrence) -> list[str]:
    """The models that "auto" chooses from."""
    if node.model != "auto":
        return [node.model]
    skips = [f"skip-{s}" for s in (2, 4, 8) if s < node.steps and node.steps % s == 0 and node.steps // s > 2]
    telescoped = ["telescoped"] if node.kind == "power" else []
    return ["exponential", "linear", *(skips if node.kind == "iterate" else []), *telescoped]


def expand(node: Recurrence, model: str, fresh: Names) -> Expression:
    """The statements of one model as named expressions; a telescoped power stays one node."""
    if model == "telescoped":
        return recurrence(node.kind, node.operands, node.steps, model)
    steps = _Steps(node.operands[0], _skip(model, node.steps), fresh)
    if node.kind == "power":
        return steps.power(node.steps)
    if node.kind == "power_sum":
        return steps.sum(node.steps)
    return steps.iterate(node.operands[1], node.operands[2], node.steps)


class _Steps:
    """Writes P_i = A^i, S_i = I + ... + A^(i-1) and T_i once each, on demand (Table 1)."""

    def __init__(self, base: Expression, skip: int, fresh: Names) -> None:
        self.base = base
        self.skip = skip
        self.fresh = fresh
        self.powers: dict[int, Expression] = {1: base}
        self.sums: dict[int, Expression] = {1: identity(shape(base)[0])}

    def power(self, i: int) -> Expression:
        """P_i = P_s P_(i-s): s is i / 2 where i is a power of two, and the skip or the largest power of two else."""
        if i not in self.powers:
            first = self._stride(i)
            self.powers[i] = named(self.fresh(f"P{i}"), product(self.power(first), self.power(i - first)))
        return self.powers[i]

    def sum(self, i: int) -> Expression:
        """S_i = P_s S_(i-s) + S_s."""
        if i not in self.sums:
            first = self._stride(i)
            body = add((product(self.power(first), self.sum(i - first)), self.sum(first)))
            self.sums[i] = named(self.fresh(f"S{i}"), body)
        return self.sums[i]

    def iterate(self, right: Expression, start: Expression, steps: int) -> Expression:
        """T_i = P_s T_(i-s) + S_s B."""
        known: dict[int, Expression] = {0: start}
        for i in self._order(steps):
            if i not in known:
                first = 1 if i == 1 else self._stride(i)
                body = add((product(self.power(first), known[i - first]), product(self.sum(first), right)))
                known[i] = named(self.fresh(f"T{i}"), body)
        return known[steps]

    def _stride(self, i: int) -> int:
        if i > self.skip:
            return self.skip
        half = 1 << (i.bit_length() - 1)
        return half // 2 if half == i else half

    def _order(self, steps: int) -> list[int]:
        wanted = [steps]
        while wanted[-1] > 1:
            wanted.append(wanted[-1] - self._stride(wanted[-1]))
        return wanted[::-1]


def _skip(model: str, steps: int) -> int:
    """Linear is a skip of one step, exponential one of all steps."""
    if model == "linear":
        return 1
    return steps if model == "exponential" else int(model.removeprefix("skip-"))


def _model(model: str, steps: int, *, telescoped: bool = False) -> str:
    if model in MODELS and (telescoped or model != "telescoped"):
        return model
    if isinstance(model, str) and re.fullmatch(r"skip-[1-9]\d*", model) and int(model[5:]) <= steps:
        return model
    known = [f"'{each}'" for each in MODELS if telescoped or each != "telescoped"]
    raise ProgramError(f"model {model!r} is not one of {', '.join(known)} or 'skip-4' and the like, up to the steps")


def _check_steps(steps: object, what: str, least: int) -> None:
    if isinstance(steps, bool) or not isinstance(steps, int) or not least <= steps <= MOST_STEPS:
        raise ProgramError(f"{what} has a whole number of steps from {least} to {MOST_STEPS}, not {described(steps)}")


def _check_square(base: object) -> None:
    if not isinstance(base, Operators):
        raise ProgramError(f"the base of an iteration is a matrix of the program, not {type(base).__name__}")
    rows, columns = base.shape
    if rows != columns:
        raise ShapeError(f"an iteration needs a square matrix, and {base} is {rows} × {columns}")


def _size(node: Expression) -> str:
    rows, columns = shape(node)
    return f"{rows} × {columns}"
