"""Inputs that are multiplied by a number, A := λ A, without touching any matrix: forgetting.

    A = s Â        the run keeps Â and every view f(Â), and remembers s
    f(s Â) = s^d f(Â)   where f is homogeneous of degree d in A: A A' has degree 2, its inverse -2

A change A += u v' is Â += (u / s) v'. The numbers are multiplied in when a matrix is read, or when s gets too large or
too small. A view that is not homogeneous, such as A + I, has no degree: then the input is multiplied at once and the
views that depend on it are evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    children,
    postorder,
)
from viewlet.linalg.program import Statements

LARGEST = {"float64": 1e60, "float32": 1e8}
"""A number whose powers get beyond this, or below its inverse, is multiplied in."""


def largest_scalar(kind: Any) -> float:
    """The largest power of a number that matrices of a type wait for."""
    return LARGEST[np.dtype(kind).name]


def degrees(source: Statements, changed: Matrix) -> dict[Matrix, int] | None:
    """The degree of every view in one input; None if a view has none."""
    found: dict[Matrix, int] = {each: int(each is changed) for each in source.inputs}
    for statement in source.views:
        degree = _degree(statement.body, found)
        if degree is None:
            return None
        found[statement.target] = degree
    return found


def _degree(body: Expression, known: Mapping[Matrix, int]) -> int | None:
    done: dict[Expression, int | None] = {}
    for node in postorder([body]):
        done[node] = _own(node, [done[child] for child in children(node)], known)
    return done[body]


def _own(node: Expression, parts: list[int | None], known: Mapping[Matrix, int]) -> int | None:
    if None in parts:
        return None
    match node:
        case Matrix():
            return known[node]
        case Identity() | Zero():
            return 0
        case Scale() | Transpose() | Named():
            return parts[0]
        case Product():
            return _total(parts)
        case Inverse():
            return -_total(parts)
        case Recurrence():
            return node.steps * _total(parts)  # powers only: the others are expanded
        case Sum() | Stack():
            return parts[0] if len(set(parts)) == 1 else None


def _total(parts: Iterable[int | None]) -> int:
    return sum(part for part in parts if part is not None)
