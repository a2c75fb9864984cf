"""The meaning of matrix expressions, by NumPy: independent of triggers, steps and back ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    Named,
    Product,
    Recurrence,
    Scale,
    Stack,
    Sum,
    Transpose,
    Zero,
)

Arrays = Mapping[str, Any]


def value(node: Expression, inputs: Arrays, sizes: Mapping[str, int]) -> Any:
    """The matrix that an expression stands for."""

    def of(part: Expression) -> Any:
        return value(part, inputs, sizes)

    match node:
        case Matrix():
            return inputs[node.name]
        case Identity():
            return np.eye(node.size.whole(sizes))
        case Zero():
            return np.zeros((node.rows.whole(sizes), node.columns.whole(sizes)))
        case Scale():
            return node.factor * of(node.body)
        case Named():
            return of(node.body)
        case Sum():
            return sum(of(term) for term in node.terms)
        case Product():
            return of(node.left) @ of(node.right)
        case Transpose():
            return of(node.body).T
        case Inverse():
            return np.linalg.inv(of(node.body))
        case Stack():
            return np.concatenate([of(block) for block in node.blocks], axis=0 if node.vertical else 1)
        case Recurrence():
            return steps(node.kind, [of(operand) for operand in node.operands], node.steps)


def steps(kind: str, operands: list[Any], count: int) -> Any:
    """A recurrence, step by step."""
    if kind == "power":
        return np.linalg.matrix_power(operands[0], count)
    if kind == "power_sum":
        return sum(np.linalg.matrix_power(operands[0], i) for i in range(count))
    base, right, found = operands
    for _ in range(count):
        found = base @ found + right
    return found


def relative_error(found: Any, wanted: Any) -> float:
    """The Frobenius norm of the difference, relative to that of what is wanted."""
    return float(np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), 1e-300))
