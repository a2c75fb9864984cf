"""Input of upserts and of deletes by key: key values, and rows of which the last with a key counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewlet.errors import DataError
from viewlet.visible import described

CHANGE_TYPE, UPSERT = "_change_type", "upsert"


def key_values(key: object, names: tuple[str, ...]) -> tuple[object, ...]:
    """The values of a key, one for each of its columns."""
    parts = tuple(key[name] for name in names) if isinstance(key, Mapping) and set(key) == set(names) else key
    if not isinstance(parts, tuple | list):
        parts = (parts,)
    if len(parts) != len(names):
        raise DataError(f"{described(key)} is no key of ({', '.join(names)})")
    return tuple(parts)


def parted(data: Any) -> tuple[Any, Any] | None:
    """Changes of other types, and rows of the type 'upsert' without the column that says so; None if there are none."""
    if isinstance(data, list | tuple):
        if not data or not isinstance(data[0], Mapping):
            return None
        chosen = [isinstance(row, Mapping) and str(row.get(CHANGE_TYPE)).lower() == UPSERT for row in data]
        if not any(chosen):
            return None
        rows = [row for row, is_upsert in zip(data, chosen, strict=True) if is_upsert]
        others = [row for row, is_upsert in zip(data, chosen, strict=True) if not is_upsert]
        return others, [{name: value for name, value in row.items() if name != CHANGE_TYPE} for row in rows]
    names: Any = getattr(data, "column_names", None) or getattr(data, "columns", ())
    if CHANGE_TYPE not in map(str, names) or type(data).__module__.startswith("pyspark"):
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    frame = pa.table(data)
    kinds = frame[CHANGE_TYPE]
    if not pa.types.is_string(kinds.type) and not pa.types.is_large_string(kinds.type):
        return None
    chosen_rows = pc.equal(pc.utf8_lower(kinds), UPSERT).fill_null(False)
    if not pc.any(chosen_rows).as_py():
        return None
    return frame.filter(pc.invert(chosen_rows)), frame.filter(chosen_rows).drop_columns([CHANGE_TYPE])


def last_first(data: Any) -> Any:
    """Rows in the opposite order."""
    if hasattr(data, "iloc"):
        return data.iloc[::-1]
    if hasattr(data, "take") and hasattr(data, "num_rows"):
        import numpy as np

        return data.take(np.arange(data.num_rows)[::-1])
    if hasattr(data, "reverse") and hasattr(data, "columns"):
        return data.reverse()
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        return data
    return list(data)[::-1]
