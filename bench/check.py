"""Whether the view at the end of a stream is what DuckDB computes from the rows that are left."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

from bench.duckdb_rival import Recomputation
from bench.sources import Source
from viewlet.types import Kind, SqlType

_DAY_ZERO = date(1970, 1, 1).toordinal()


def same_answer(source: Source, engine: Any) -> bool:
    """Whether the compiled engine's result is DuckDB's."""
    query = engine.program.query
    places = [query.output.index(column.var) for column in query.columns]
    found: list[tuple[Any, ...]] = []
    for row, count in engine.result(whole=True).items():
        found.extend([tuple(row[i] for i in places)] * count)
    return same_rows(source, query, found)


def same_rows(source: Source, query: Any, stored: list[tuple[Any, ...]]) -> bool:
    """Compares as bags of rows, before ORDER BY and LIMIT; sums of DOUBLE may differ in the last digits.

    Stored rows hold decimals as scaled integers and dates as day numbers; the bound query knows which is which.
    """
    types = [column.var.type for column in query.columns]
    found = sorted((tuple(map(_value, row, types)) for row in stored), key=_sort_key)
    expected = sorted(_recomputed(source), key=_sort_key)
    return len(found) == len(expected) and all(_close(a, b) for a, b in zip(found, expected, strict=True))


def _recomputed(source: Source) -> list[tuple[Any, ...]]:
    """DuckDB's answer, with wider integers where BIGINT overflows."""
    import duckdb

    for wide in (False, True):
        rival = Recomputation(source, wide=wide)
        rival.take_in(rival.changes_up_to({name: len(events) for name, events in source.events.items()}))
        try:
            return rival.answer(source.query.body)
        except duckdb.OutOfRangeException:
            if wide:
                raise
    raise AssertionError


def _value(stored: Any, type: SqlType) -> Any:
    if stored is None:
        return None
    if type.kind is Kind.DECIMAL:
        return Decimal(stored).scaleb(-type.scale)
    if type.kind is Kind.DATE:
        return date.fromordinal(_DAY_ZERO + stored)
    return float(stored) if type.is_float else stored


def _sort_key(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Exact values first, so that rows which differ in rounding only stay side by side."""
    exact = [f"{v.normalize():f}" if isinstance(v, Decimal) else str(v) for v in row if not isinstance(v, float)]
    return (*exact, *(f"{value:.6e}" for value in row if isinstance(value, float)))


def _close(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(a, int | float | Decimal) and isinstance(b, int | float | Decimal)
        else a == b
        for a, b in zip(left, right, strict=True)
    )
