"""What users give when a program starts or is updated: numbers, places, types, and the sizes of dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from viewlet.linalg.cholesky import signed_vectors
from viewlet.linalg.errors import MatrixDataError, ProgramError
from viewlet.linalg.expression import Matrix, shape
from viewlet.linalg.values import dense
from viewlet.visible import described

SYMMETRIC = 1e-6
"""How far a change of a symmetric matrix may be from its transpose, relative to itself: rounding of its factors."""


def whole(value: Any, name: str) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProgramError(f"{name} is a whole number that is not negative, not {described(value)}")
    return value


def place(given: Any, count: int, name: str, what: str) -> int:
    """The place of a row or column, counted from the end if it is negative."""
    if isinstance(given, bool) or not hasattr(given, "__index__") or not -count <= int(given) < count:
        raise MatrixDataError(f"{name} has {count} {what}s, and no {what} {described(given)}")
    return int(given) % count


def switch(value: Any, name: str) -> bool:
    """True or False, and nothing that Python would take for one of them."""
    if not isinstance(value, bool | np.bool_):
        raise ProgramError(f"{name} is True or False, not {described(value)}")
    return bool(value)


def finite_factor(value: Any) -> float:
    """A number that an input may be multiplied by."""
    try:
        factor = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        factor = math.inf
    if not math.isfinite(factor) or not factor:
        raise ProgramError(f"an input is multiplied by a finite number that is not zero, not by {described(value)}")
    return factor


def common_type(values: Any) -> Any:
    """float32 if all inputs are, float64 else."""
    kinds = {str(getattr(value, "dtype", None)).removeprefix("torch.") for value in values}
    return np.float32 if kinds == {"float32"} else np.float64


def number_type(given: Any) -> Any:
    """The type of NumPy that is meant."""
    try:
        return np.dtype(given)
    except Exception:  # NumPy takes anything for the description of a type, and prints it
        raise ProgramError(f"a program computes in float64 or float32, not in {described(given)}") from None


def named(name: object, what: str = "matrix") -> str:
    """The name of a matrix or a dimension, which may be that of none."""
    if not isinstance(name, str):
        raise ProgramError(f"a {what} is named by a string, not by {described(name)}")
    return name


def check_symmetric(value: Any, name: str) -> None:
    """Refuses a matrix that is declared definite and is not symmetric."""
    if value.shape[0] == value.shape[1] and not np.allclose(value, value.T, rtol=SYMMETRIC, atol=0.0):
        raise MatrixDataError(f"{name} is declared positive definite, and is not symmetric")


def check_symmetric_change(left: Any, right: Any, name: str) -> None:
    """Refuses a change u v' of a matrix that is declared definite if it is not symmetric."""
    *_, skew = signed_vectors(dense(left), dense(right))
    if skew > SYMMETRIC:
        raise MatrixDataError(
            f"{name} is declared positive definite: its changes u v' are symmetric, such as x x', or [x, y] [y, x]'"
        )


def bind_sizes(shapes: Mapping[Matrix, tuple[int, ...]]) -> dict[str, int]:
    """The dimensions by the shapes of the inputs; the same name has to have the same value everywhere."""
    known: dict[str, tuple[int, str]] = {}
    sides = [
        (each, own, got, what)
        for each, found in shapes.items()
        for own, got, what in zip(shape(each), found, ("rows", "columns"), strict=True)
    ]
    for each, own, got, what in sides:
        if len(own.terms) == 1 and len(own.terms[0][0]) == 1 and own.terms[0][1] == 1:
            ((name,), _) = own.terms[0]
            value, source = known.setdefault(name, (got, f"{each.name} has {got} {what}"))
            if value != got:
                raise MatrixDataError(f"{each.name} has {got} {what} for dimension {name}, but {source}")
    sizes = {name: value for name, (value, _) in known.items()}
    for each, own, got, what in sides:
        if own.whole(sizes) != got:
            raise MatrixDataError(f"{each.name} has {got} {what} where {own} = {own.whole(sizes)} are expected")
    return sizes
