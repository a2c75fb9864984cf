"""Rows that are given as Arrow tables with multiplicities, in reading order; no Python object is made for a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from viewlet.changes import added_up, arrow_type
from viewlet.types import Column


def in_reading_order(
    table: Any, order: Iterable[tuple[int, bool, bool]], visible: Sequence[int], columns: Sequence[Column]
) -> Any:
    """Some columns of a table, each row as often as the last column says, sorted by columns as `reading_order` tells.

    >>> import pyarrow as pa
    >>> from viewlet.changes import MULTIPLICITY
    >>> from viewlet.types import BIGINT
    >>> table = pa.table({"a": [None, 3, 5], MULTIPLICITY: [1, 1, 2]})
    >>> in_reading_order(table, [(0, True, False)], [0], [Column("a", BIGINT)]).to_pydict()
    {'a': [5, 5, 3, None]}
    """
    import numpy as np
    import pyarrow as pa

    rows = added_up([table])
    weights = rows.column(rows.num_columns - 1).to_numpy()
    places = _places(rows, order)
    taken = pa.array(np.repeat(places, weights[places]))
    schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])
    arrays = [rows.column(i).take(taken).cast(field.type) for i, field in zip(visible, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _places(table: Any, order: Iterable[tuple[int, bool, bool]]) -> Any:
    """The rows of a table when sorted."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for position, descending, nulls_first in order:
        values = table.column(position)
        if pa.types.is_fixed_size_list(values.type):
            continue  # arrays have no order; other columns tell their rows apart
        if values.null_count:
            name = f"n{position}"
            keys[name] = pc.if_else(values.is_null(), 0 if nulls_first else 2, 1)
            directions.append((name, "ascending"))
        keys[f"c{position}"] = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
        directions.append((f"c{position}", "descending" if descending else "ascending"))
    if not directions:
        return np.arange(table.num_rows)
    return pc.sort_indices(pa.table(keys), sort_keys=directions).to_numpy()
