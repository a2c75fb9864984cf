"""Aggregates over the rows of a factorised view, in one pass over its pieces.

    SUM(x * y) over 10^6 rows that are 300 values  ->  300 values are read

Only sums have this form: the sum of a product distributes over what is independent. NULLs are left out, as SQL does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viewlet.changes import did_you_mean, to_python
from viewlet.errors import SchemaError, UnsupportedError
from viewlet.rings import DOUBLE_RING, INTEGER_RING, Dyadic, Lift, ProductRing
from viewlet.types import Column, SqlType
from viewlet.viewtree.tree_state import RowReader
from viewlet.visible import described

FUNCTIONS = ("count", "sum", "avg")


def aggregate_rows(
    result: RowReader, variables: Sequence[str], columns: Sequence[Column], function: str, of: Sequence[str]
) -> object:
    """COUNT, SUM or AVG of the product of some columns; `variables` are those of the columns, in their order."""
    name = function.lower() if isinstance(function, str) else ""
    if name not in FUNCTIONS:
        hint = f"use one of {', '.join(FUNCTIONS)}; an ordinary view over the same join has all others"
        raise UnsupportedError(f"aggregate({described(function)}) of a FACTORIZED view", hint, "engine")
    if name == "count" and not of:
        return result.count
    chosen = [_column(columns, each) for each in of]
    if not chosen:
        raise SchemaError(f"aggregate({function!r}) needs a column")
    types = [columns[i].type for i in chosen]
    if name != "count":
        _check_numbers(name, of, types)
    exact = all(type.is_exact for type in types)
    ring = ProductRing((INTEGER_RING, INTEGER_RING if exact else DOUBLE_RING))
    lifts: dict[str, Lift[Any]] = {}
    for i, type in zip(chosen, types, strict=True):
        lifts[variables[i]] = _both(lifts.get(variables[i]), _lift(type, exact, name == "count"), ring)
    count, total = result.aggregate(ring, lifts)
    if name == "count":
        return count
    return _shown(name, count, total, types, exact)


def _column(columns: Sequence[Column], name: str) -> int:
    names = [column.name for column in columns]
    if name not in names:
        raise SchemaError(f"the view has no column {name!r}" + did_you_mean(str(name), names))
    return names.index(name)


def _check_numbers(function: str, of: Sequence[str], types: Sequence[SqlType]) -> None:
    for name, type in zip(of, types, strict=True):
        if not type.is_numeric:
            raise SchemaError(f"aggregate({function!r}, {name!r}): the column is a {type}, not a number")


def _lift(type: SqlType, exact: bool, counting: bool) -> Lift[Any]:
    """A value as (1, value), NULL as (0, 0)."""

    def lifted(value: Any) -> tuple[int, Any]:
        if value is None:
            return 0, 0 if exact else DOUBLE_RING.zero
        if counting:
            return 1, 0 if exact else DOUBLE_RING.zero
        if exact:
            return 1, value
        return 1, Dyadic.of(to_double(value, type))

    return lifted


def _both(first: Lift[Any] | None, second: Lift[Any], ring: ProductRing) -> Lift[Any]:
    """A column that occurs twice in the product."""
    if first is None:
        return second
    return lambda value: ring.mul(first(value), second(value))


def to_double(value: Any, type: SqlType) -> float:
    """A number of some type as the double it stands for."""
    return float(value) / 10**type.scale if type.is_exact and type.scale else float(value)


def _shown(function: str, count: int, total: Any, types: Sequence[SqlType], exact: bool) -> object:
    if not count:
        return None
    scale = sum(type.scale for type in types)
    if function == "avg":
        return float(total) / count if not exact else total / (count * 10**scale)
    if not exact:
        return float(total)
    from viewlet.types import MAX_DECIMAL_DIGITS, decimal

    return to_python(decimal(MAX_DECIMAL_DIGITS, scale))(total) if scale else total
