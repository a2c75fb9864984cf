"""Input of upserts and of deletes by key: key values, and rows of which the last with a key counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewlet.errors import DataError
from viewlet.visible import described


def key_values(key: object, names: tuple[str, ...]) -> tuple[object, ...]:
    """The values of a key, one for each of its columns."""
    parts = tuple(key[name] for name in names) if isinstance(key, Mapping) and set(key) == set(names) else key
    if not isinstance(parts, tuple | list):
        parts = (parts,)
    if len(parts) != len(names):
        raise DataError(f"{described(key)} is no key of ({', '.join(names)})")
    return tuple(parts)


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
