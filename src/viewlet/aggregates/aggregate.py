"""A user-defined aggregate as the engine sees it: a fixed-width state, and how values enter and leave it.

    state of a group = zero() with add(state, value) for every row of the group, and remove(state, value) for deletes

Values of SQL are given to the user's code as Python values, rows with a NULL argument are left out. A state is a number
or an array. User code gets a copy of an array that it may change in place; what is kept is never changed, so that a
batch can be rolled back by keeping the old state.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.changes.values import Misfit, converter, to_python
from viewlet.errors import DataError
from viewlet.types import Datum, Kind, Row, SqlType

State = Any
"""A Python number, or a NumPy array, as the layout says."""
Weighted = tuple[Row, int]
"""The arguments of some rows, and how many such rows come or, if negative, go."""
WORD = 8
_NUMBERS: dict[Kind, Any] = {
    Kind.BOOLEAN: np.bool_,
    Kind.SMALLINT: np.int64,
    Kind.INTEGER: np.int64,
    Kind.BIGINT: np.int64,
    Kind.REAL: np.float64,
    Kind.DOUBLE: np.float64,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """What a state is: numbers of one NumPy type, one of them or an array of a fixed shape."""

    dtype: Any
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape) if self.shape else ''}"

    @property
    def words(self) -> int:
        """The 64-bit words that hold a state."""
        return -(-self.nbytes // WORD)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def fit(self, state: object) -> State:
        """The state as it is kept; raises `Misfit` if it has another layout."""
        if not self.shape:
            return self._number(state)
        if not isinstance(state, np.ndarray):
            raise Misfit(f"expected an array of {self}")
        if state.shape != self.shape or state.dtype != self.dtype:
            raise Misfit(f"expected an array of {self}, not of {state.dtype}{list(state.shape)}")
        return state

    def _number(self, state: object) -> State:
        number = state.item() if isinstance(state, np.generic) else state
        if self.dtype.kind == "f" and isinstance(number, float | int) and not isinstance(number, bool):
            return float(number)
        if self.dtype.kind == "b" and isinstance(number, bool):
            return number
        if self.dtype.kind in "iu" and isinstance(number, int) and not isinstance(number, bool):
            limits = np.iinfo(self.dtype)
            if not limits.min <= number <= limits.max:
                raise Misfit(f"out of the range of {self.dtype}")
            return number
        raise Misfit(f"expected a number of type {self.dtype}")

    def copy(self, state: State) -> State:
        """A state that user code may change in place."""
        return state.copy() if self.shape else state

    def pack(self, states: Sequence[State]) -> Any:
        """States as rows of 64-bit words."""
        raw = np.zeros((len(states), self.words * WORD), np.uint8)
        if states:
            held = np.array(states, self.dtype).reshape(len(states), -1)
            raw[:, : self.nbytes] = np.ascontiguousarray(held).view(np.uint8)
        return raw.view(np.int64)

    def unpack(self, words: Any) -> list[State]:
        """The states that `pack` was given."""
        raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), self.words * WORD)[:, : self.nbytes]
        held = np.ascontiguousarray(raw).view(self.dtype)
        if not self.shape:
            return list(held[:, 0].tolist())
        return [row.reshape(self.shape).copy() for row in held]


@dataclass(frozen=True, eq=False, slots=True)
class Aggregate:
    """An aggregate with its types; `code` is the object of the user's class. `None` among `arguments` is any type."""

    name: str
    code: Any
    arguments: tuple[SqlType | None, ...]
    returns: SqlType
    layout: Layout
    zero: State
    """The state of no rows."""

    @property
    def removes(self) -> bool:
        """Whether values can be taken out of a state again."""
        return hasattr(self.code, "remove") or hasattr(self.code, "inverse")

    def __str__(self) -> str:
        types = ", ".join("ANY" if type is None else str(type) for type in self.arguments)
        return f"{self.name}({types}) {self.returns}, state {self.layout}"

    @property
    def digest(self) -> str:
        """Aggregates with the same digest understand each other's states."""
        text = f"{self} {getattr(self.code, 'parameters', '')}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def is_same(self, other: Aggregate) -> bool:
        """Whether both are of one class, with the same parameters."""
        return type(self.code) is type(other.code) and self.digest == other.digest

    def fold(self, state: State, rows: Iterable[Weighted], types: Sequence[SqlType]) -> State:
        """The state after some rows have come and gone; those that come are added first."""
        present = [row for row in rows if None not in row[0]]
        if not present:
            return state
        if not self.removes and any(count < 0 for _, count in present):
            raise DataError(
                f"aggregate {self.name}() has no remove(), so that rows which it has seen cannot be deleted: give its "
                "class remove(), or merge() and inverse(), or delete nothing under this view"
            )
        state = self.layout.copy(state)
        if hasattr(self.code, "update"):
            return self._update(state, present, types)
        show = [to_python(type) for type in types]
        for values, count in sorted(present, key=_deletes_last):
            given = tuple(shown(value) for shown, value in zip(show, values, strict=True))
            change = self._add if count > 0 else self._remove
            for _ in range(abs(count)):
                state = change(state, given)
        return state

    def _update(self, state: State, rows: Sequence[Weighted], types: Sequence[SqlType]) -> State:
        columns = [_column(type, [values[i] for values, _ in rows]) for i, type in enumerate(types)]
        counts = np.fromiter((count for _, count in rows), np.int64, len(rows))
        return self._kept("update", self._call("update", state, *columns, counts))

    def _add(self, state: State, values: Sequence[object]) -> State:
        if hasattr(self.code, "add"):
            return self._kept("add", self._call("add", state, *values))
        return self._kept("merge", self._call("merge", state, self._call("lift", *values)))

    def _remove(self, state: State, values: Sequence[object]) -> State:
        if hasattr(self.code, "remove"):
            return self._kept("remove", self._call("remove", state, *values))
        taken = self._call("inverse", self._call("lift", *values))
        return self._kept("merge", self._call("merge", state, taken))

    def value(self, state: State) -> Datum:
        """The result of a state, in the representation of `types.py`."""
        found = self._call("result", self.layout.copy(state))
        if found is None:
            return None
        try:
            return converter(self.returns)(found)
        except Misfit as problem:
            raise DataError(
                f"aggregate {self.name}(): result() returned {found!r:.80}, which is no {self.returns}: {problem}"
            ) from None

    def _kept(self, method: str, state: object) -> State:
        try:
            return self.layout.fit(state)
        except Misfit as problem:
            raise DataError(
                f"aggregate {self.name}(): {method}() returned {state!r:.80}, which is no state of it: {problem}"
            ) from None

    def _call(self, method: str, *given: Any) -> Any:
        """Calls the user's code; an error of it names the aggregate."""
        try:
            return getattr(self.code, method)(*given)
        except Exception as error:
            raise DataError(f"aggregate {self.name}(): {method}() raised {type(error).__name__}: {error}") from error


def _deletes_last(row: Weighted) -> bool:
    return row[1] < 0


def _column(type: SqlType, values: list[Datum]) -> Any:
    """Values of one argument as an array: of numbers or, where NumPy has no type for them, of Python values."""
    numbers = _NUMBERS.get(type.kind)
    if numbers is not None:
        return np.array(values, numbers)
    column = np.empty(len(values), object)
    show: Callable[[Datum], object] = to_python(type)
    column[:] = [show(value) for value in values]
    return column
