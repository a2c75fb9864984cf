"""The rows of a signal: which columns they have, and samples as such columns.

    key columns, time, end of non-uniform intervals, then a column for each component of the value

A complex component is two columns, `x_re` and `x_im`; an array is one with a list of fixed size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, Events, Stretch
from viewlet.signals.form import Form


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column with a part of the values: the real or imaginary part of a component, or of an array."""

    name: str
    component: int
    part: str
    """`real`, `imag`, or nothing if values are real."""
    size: int | None

    def of(self, value: Array) -> Array:
        """Its numbers, one for each row, or with two axes."""
        found = value[:, self.component]
        return getattr(found, self.part) if self.part else found


def value_columns(form: Form) -> tuple[ValueColumn, ...]:
    """The columns after key and time."""
    parts = (("_re", "real"), ("_im", "imag")) if form.is_complex else (("", ""),)
    return tuple(
        ValueColumn(name + ending, number, part, form.size)
        for number, name in enumerate(form.names)
        for ending, part in parts
    )


def times_of(form: Form, batch: Batch) -> tuple[Array, Array | None]:
    """The times of rows, and where events end."""
    if isinstance(batch, Events):
        return batch.start, (batch.start + 1 if batch.end is None else batch.end) if form.has_end else None
    assert form.grid is not None
    return form.grid.times(batch.index), None


def all_finite(numbers: Array) -> bool:
    """No number is infinite or NaN; the sum of many numbers tells it faster than a look at each."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(numbers.sum()) or np.isfinite(numbers).all())


def present(batch: Any) -> Any:
    """The rows whose values are finite numbers: to the next operator others are missing, as NULLs of a view are.

    So a query gives the same samples in one view as in several over one another.
    """
    if all_finite(batch.value):
        return batch
    is_there = np.isfinite(batch.value).reshape(len(batch), -1).all(axis=1)
    return (batch.take(slice(None)) if isinstance(batch, Stretch) else batch).take(is_there)


def arrow_values(column: ValueColumn, value: Array) -> Any:
    """A column of values as Arrow; what is not a finite number is NULL."""
    import pyarrow as pa

    found = np.ascontiguousarray(column.of(value))
    flat = found.reshape(-1)
    numbers = pa.array(flat, pa.float64(), mask=None if all_finite(flat) else ~np.isfinite(flat))
    return numbers if column.size is None else pa.FixedSizeListArray.from_arrays(numbers, column.size)


def arrow_times(form: Form, times: Array) -> Any:
    """Times as Arrow."""
    import pyarrow as pa

    found = pa.array(np.ascontiguousarray(times), pa.int64())
    return found.cast(pa.timestamp("us")) if form.source.is_timestamp else found
