"""What users give when a program starts or is updated: numbers, places, types, and the sizes of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewlet.linalg.errors import MatrixDataError, ProgramError
from viewlet.linalg.expression import Matrix, shape


def whole(value: Any, name: str) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProgramError(f"{name} is a whole number that is not negative, not {value!r}")
    return value


def place(given: Any, count: int, name: str, what: str) -> int:
    """The place of a row or column, counted from the end if it is negative."""
    if isinstance(given, bool) or not hasattr(given, "__index__") or not -count <= int(given) < count:
        raise MatrixDataError(f"{name} has {count} {what}s, and no {what} {given!r}")
    return int(given) % count


def common_type(values: Any) -> Any:
    """float32 if all inputs are, float64 else."""
    kinds = {str(getattr(value, "dtype", None)).removeprefix("torch.") for value in values}
    return np.float32 if kinds == {"float32"} else np.float64


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
