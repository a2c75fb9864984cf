"""Groups as small numbers: every combination of values gets the next free one when it is first seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_LOW = 32
"""Bits of a code: two of them fit into one number."""


class IntegerCodes:
    """Integers as 0, 1, 2, ... in the order in which they were first seen."""

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._codes = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._known)

    def encode(self, values: Array) -> Array:
        places = np.searchsorted(self._known, values)
        inside = np.minimum(places, max(len(self._known) - 1, 0))
        is_known = self._known[inside] == values if len(self._known) else np.zeros(len(values), bool)
        if not is_known.all():
            self._add(np.unique(values[~is_known]))
            return self._codes[np.searchsorted(self._known, values)]
        return self._codes[inside]

    def _add(self, new: Array) -> None:
        codes = np.arange(len(self._known), len(self._known) + len(new))
        both = np.concatenate([self._known, new])
        order = np.argsort(both, kind="stable")
        self._known, self._codes = both[order], np.concatenate([self._codes, codes])[order]


class GroupCodes:
    """Rows of key columns (Arrow) as numbers, and back."""

    def __init__(self, columns: int) -> None:
        self._integers = [IntegerCodes() for _ in range(columns)]
        self._others: list[dict[Any, int]] = [{} for _ in range(columns)]
        self._pairs = [IntegerCodes() for _ in range(max(columns, 1))]
        self._keys: list[list[Any]] = [[] for _ in range(columns)]
        """The values of each column by number, in pieces."""

    def __len__(self) -> int:
        return len(self._pairs[-1])

    def encode(self, columns: Sequence[Any], rows: int) -> Array:
        """The numbers of rows, which differ from each other."""
        combined = np.zeros(rows, np.int64)
        before = len(self)
        for number, column in enumerate(columns):
            combined = self._pairs[number].encode((combined << _LOW) | self._column(number, column))
        if not columns:
            combined = self._pairs[0].encode(combined)
        fresh = np.flatnonzero(combined >= before)
        fresh = fresh[np.argsort(combined[fresh])]
        for number, column in enumerate(columns if len(fresh) else ()):
            self._keys[number].append(column.take(fresh))
        return combined

    def _column(self, number: int, column: Any) -> Array:
        """The codes of a column; 0 is NULL."""
        import pyarrow as pa

        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            plain = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
            values = plain.cast(pa.int64()).fill_null(0).to_numpy()
            codes = self._integers[number].encode(values) + 1
            return np.where(column.is_null().to_numpy(), 0, codes) if column.null_count else codes
        encoded = column.combine_chunks().dictionary_encode()
        known = self._others[number]
        codes = np.array([known.setdefault(each, len(known) + 1) for each in encoded.dictionary.to_pylist()], np.int64)
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(places < 0, 0, codes[places]) if len(codes) else np.zeros(len(places), np.int64)

    def take(self, numbers: Array) -> list[Any]:
        """The values of each column for some numbers."""
        import pyarrow as pa

        found = []
        for number, pieces in enumerate(self._keys):
            if len(pieces) > 1:
                chunks = [chunk for piece in pieces for chunk in piece.chunks]
                self._keys[number] = pieces = [pa.chunked_array([pa.concat_arrays(chunks)])]
            found.append(pieces[0].take(numbers))
        return found
