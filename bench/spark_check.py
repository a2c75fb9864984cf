"""Whether a view has the rows that Spark SQL computes, ties at a LIMIT and rounded quotients aside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from workloads.query import NamedQuery

ROUNDED = Decimal("0.000002")
"""Spark rounds means and quotients of decimals to six digits."""

Row = tuple[Any, ...]


def same_answer(query: NamedQuery, found: pa.Table, everything: pa.Table) -> bool:
    """`everything` is the answer without its LIMIT: which of the rows that tie for the last place are found is open."""
    mine, all_rows = rows_of(found), rows_of(everything)
    if query.limit is None:
        return _same_bag(mine, all_rows)
    places = [everything.schema.names.index(name) for name in query.order]
    expected = all_rows[: query.limit]
    in_order = [[row[i] for i in places] for row in mine], [[row[i] for i in places] for row in expected]
    return len(mine) == len(expected) and all(map(_close, *in_order)) and _is_part(mine, all_rows)


def rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


def _same_bag(left: Sequence[Row], right: Sequence[Row]) -> bool:
    pairs = zip(sorted(left, key=_sort_key), sorted(right, key=_sort_key), strict=False)
    return len(left) == len(right) and all(_close(a, b) for a, b in pairs)


def _is_part(some: Sequence[Row], everything: Sequence[Row]) -> bool:
    """Every row of some has a row of its own in everything."""
    known: dict[Any, list[Row]] = {}
    for row in everything:
        known.setdefault(_exact(row), []).append(row)
    for row in some:
        candidates = known.get(_exact(row), [])
        match = next((i for i, other in enumerate(candidates) if _close(row, other)), None)
        if match is None:
            return False
        del candidates[match]
    return True


def _exact(row: Row) -> tuple[Any, ...]:
    """What cannot have been rounded."""
    return tuple(value for value in row if not isinstance(value, float | Decimal))


def _sort_key(row: Row) -> tuple[str, ...]:
    """Exact values first, so that rows which differ in rounding only stay side by side."""
    return (*map(str, _exact(row)), *(f"{float(v):.4e}" for v in row if isinstance(v, float | Decimal)))


def _close(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(_same, left, right))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=2e-6)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return a is not None and b is not None and abs(Decimal(a) - Decimal(b)) <= ROUNDED
    return bool(a == b)
