"""Factors of updates as users give them: dense arrays, unit vectors for rows and columns, sparse changes.

A change of rows is e_i v': its left factor has a unit vector per row, which is never stored as an array. A product with
it reads columns, and adding it touches the rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from viewlet.linalg.errors import MatrixDataError

Array: TypeAlias = Any
"""An array of a back end."""


@dataclass(frozen=True, slots=True)
class Units:
    """The unit vectors of the given places, side by side; places are distinct."""

    size: int
    places: npt.NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.size, len(self.places)


Factor: TypeAlias = "npt.NDArray[Any] | Units"
Factors: TypeAlias = "tuple[Factor, Factor]"
"""The change u v' of a matrix."""


@dataclass(frozen=True, slots=True)
class Entries:
    """New values of some entries of an input, which then are exactly these; of two for one entry the last counts."""

    rows: Sequence[int]
    columns: Sequence[int]
    values: Sequence[float]


def checked_matrix(value: object, name: str, dtype: Any, shape: tuple[int | None, int | None]) -> npt.NDArray[Any]:
    """A matrix of finite numbers with the given shape, where it is known; vectors are columns."""
    dense = getattr(value, "toarray", None)
    if np.ma.is_masked(value):
        raise MatrixDataError(f"{name} has masked entries, and a matrix has a number at every place: fill() them first")
    try:
        array = np.asarray(dense() if callable(dense) else value)
    except (TypeError, ValueError) as wrong:
        raise MatrixDataError(f"{name} is not a matrix of numbers: {wrong}") from None
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise MatrixDataError(f"{name} is a matrix of real numbers, not an array of {array.ndim} axes of {array.dtype}")
    for side, wanted, got in zip(("rows", "columns"), shape, array.shape, strict=True):
        if wanted is not None and wanted != got:
            raise MatrixDataError(f"{name} has {got} {side} where {wanted} are expected")
    with np.errstate(over="ignore"):  # a number that the type does not have is infinite, and refused here
        array = array.astype(dtype, copy=False)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise MatrixDataError(f"{name} has {array[row, column]} at ({row}, {column}): only finite numbers are accepted")
    return array


def outer(u: object, v: object, name: str, dtype: Any, shape: tuple[int, int]) -> Factors:
    """The factors of a change that a user gives as u and v."""
    left = u if isinstance(u, Units) else checked_matrix(u, f"u of {name}", dtype, (shape[0], None))
    right = v if isinstance(v, Units) else checked_matrix(v, f"v of {name}", dtype, (shape[1], left.shape[1]))
    if left.shape[1] != right.shape[1]:
        raise MatrixDataError(f"u and v of {name} have {left.shape[1]} and {right.shape[1]} columns")
    return left, right


def apart(factor: Factor, arrays: Iterable[Array]) -> Factor:
    """A factor that shares no memory with arrays that are about to change: a slice of one of them is copied."""
    if isinstance(factor, np.ndarray) and any(
        isinstance(each, np.ndarray) and np.may_share_memory(factor, each) for each in arrays
    ):
        return factor.copy()
    return factor


def sparse_change(change: object, name: str, dtype: Any, shape: tuple[int, int]) -> Factors | None:
    """The factors of a matrix that is added: its rows or its columns that are not zero, whichever are fewer."""
    if callable(getattr(change, "tocsr", None)):
        return _from_sparse(change, name, dtype, shape)
    array = checked_matrix(change, f"the change of {name}", dtype, shape)
    rows, columns = np.flatnonzero(array.any(axis=1)), np.flatnonzero(array.any(axis=0))
    if not len(rows):
        return None
    if len(rows) <= len(columns):
        return Units(shape[0], rows), np.ascontiguousarray(array[rows].T)
    return np.ascontiguousarray(array[:, columns]), Units(shape[1], columns)


def _from_sparse(change: Any, name: str, dtype: Any, shape: tuple[int, int]) -> Factors | None:
    if change.shape != shape:
        raise MatrixDataError(f"the change of {name} is {change.shape}, the matrix is {shape}")
    pairs = change.tocoo()
    rows, columns = np.unique(pairs.row), np.unique(pairs.col)
    if not len(rows):
        return None
    by_row = len(rows) <= len(columns)
    part = change.tocsr()[rows].toarray() if by_row else change.tocsc()[:, columns].toarray()
    dense = checked_matrix(part, f"the change of {name}", dtype, (None, None))
    if by_row:
        return Units(shape[0], rows.astype(np.int64)), np.ascontiguousarray(dense.T)
    return np.ascontiguousarray(dense), Units(shape[1], columns.astype(np.int64))


def entries_change(
    rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], values: npt.NDArray[Any], shape: tuple[int, int]
) -> Factors:
    """The factors of a change of distinct entries: unit vectors for its rows or columns, whichever are fewer."""
    by_row = len(np.unique(rows)) <= len(np.unique(columns))
    lines, across = (rows, columns) if by_row else (columns, rows)
    places, home = np.unique(lines, return_inverse=True)
    found = np.zeros((shape[1] if by_row else shape[0], len(places)), values.dtype)
    found[across, home] = values
    units = Units(shape[0] if by_row else shape[1], places)
    return (units, found) if by_row else (found, units)


def merge(parts: list[Factors]) -> Factors:
    """One change from several: rows that are changed twice are added up, everything else is put side by side."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(left, Units) for left, _ in parts):
        return _merge_rows(parts)
    if all(isinstance(right, Units) for _, right in parts):
        right, left = _merge_rows([(right, left) for left, right in parts])
        return left, right
    lefts, rights = [dense(left) for left, _ in parts], [dense(right) for _, right in parts]
    return np.hstack(lefts), np.hstack(rights)


def _merge_rows(parts: list[Factors]) -> Factors:
    places = np.concatenate([left.places for left, _ in parts])  # type: ignore[union-attr]
    values = np.hstack([dense(right) for _, right in parts])
    distinct, home = np.unique(places, return_inverse=True)
    total = np.zeros((values.shape[0], len(distinct)), values.dtype)
    np.add.at(total.T, home, values.T)
    return Units(parts[0][0].shape[0], distinct), total


def compress(left: Factor, right: Factor) -> Factors:
    """The same change with fewer outer products: u v' + u w' = u (v + w)'; of more than the sides have, the full sum.

    Nothing is lost: an outer product that is small beside another one stays. Unit vectors and arrays of other back ends
    stay as they are.
    """
    if not isinstance(left, np.ndarray) or not isinstance(right, np.ndarray) or left.shape[1] < 2:
        return left, right
    with np.errstate(over="ignore", invalid="ignore"):
        if left.shape[1] > len(left):
            rows, values = Units(len(left), np.arange(len(left))), right @ left.T
            return (rows, values) if np.isfinite(values).all() else (left, right)
        if left.shape[1] > len(right):
            columns, values = Units(len(right), np.arange(len(right))), left @ right.T
            return (values, columns) if np.isfinite(values).all() else (left, right)
        left, right = _collected(left, right)
        right, left = _collected(right, left)
    return left, right


def _collected(shared: npt.NDArray[Any], other: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Equal columns of the first factor once, with the sum of those that they are multiplied with."""
    places: dict[bytes, int] = {}
    homes = [places.setdefault(column.tobytes(), len(places)) for column in shared.T]
    if len(places) == len(homes):
        return shared, other
    total = np.zeros((len(other), len(places)), other.dtype)
    np.add.at(total.T, homes, other.T)
    if not np.isfinite(total).all():
        return shared, other
    return np.ascontiguousarray(shared[:, [homes.index(place) for place in range(len(places))]]), total


def dense(factor: Factor, zeros: Callable[..., Any] = np.zeros) -> npt.NDArray[Any]:
    """A factor as an array."""
    if not isinstance(factor, Units):
        return factor
    found = zeros(factor.shape)
    found[factor.places, np.arange(len(factor.places))] = 1.0
    return np.asarray(found)


def frobenius(array: Any) -> float:
    """The Frobenius norm, with room for its own rounding, also of numbers whose squares overflow or vanish."""
    with np.errstate(over="ignore"):
        found = float(np.linalg.norm(array))
    if not 1e-140 < found < 1e150 and np.size(array):
        largest = float(np.abs(array).max())
        if 0.0 < largest < math.inf:
            found = largest * float(np.linalg.norm(array / largest))
    return found * (1 + 1e-12)
