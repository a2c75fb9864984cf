"""A change as columns instead of rows: what the compiled engine takes without a Python object per value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnarChanges:
    """NumPy arrays: words of the columns that views read, by position in the table, and multiplicities.

    A word is an int64 (the code of a string, the smallest integer for NULL) or a float64 (NaN for NULL). Unlike
    `Changes`, rows may repeat.
    """

    columns: Mapping[int, Any]
    multiplicity: Any

    def __len__(self) -> int:
        return len(self.multiplicity)
