"""When two answers are the same: equal bags of rows, with doubles equal up to rounding.

An answer with ORDER BY and LIMIT is not unique when rows tie at the cut. It is right when its sort keys are those of
the reference, in the same order, and all its rows belong to the answer without the LIMIT.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

Answer = Sequence[tuple[Any, ...]]
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12
"""Only for values that should be zero, where a relative tolerance allows nothing."""
SHOWN_ROWS = 6


def difference(actual: Answer, expected: Answer) -> str | None:
    """Why the two bags of rows differ, or None when they do not."""
    widths = {len(row) for row in (*actual, *expected)}
    if len(widths) > 1:
        return f"rows of different widths: {sorted(widths)}"
    doubles = _double_positions(expected)
    missing, extra = _unmatched(actual, expected, doubles)
    if not missing and not extra:
        return None
    return f"missing {_shown(missing)}; extra {_shown(extra)}"


def ordered_difference(actual: Answer, expected: Answer, unlimited: Answer, keys: Sequence[int]) -> str | None:
    """Why `actual` is no right answer to an ordered (and perhaps limited) query whose sort keys are at `keys`."""
    doubles = _double_positions(unlimited)
    if len(actual) != len(expected):
        return f"{len(actual)} rows instead of {len(expected)}; {difference(actual, expected)}"
    for number, (row, reference) in enumerate(zip(actual, expected, strict=True)):
        if not all(_same(row[key], reference[key], key in doubles) for key in keys):
            return f"row {number} sorts as {row}, should sort as {reference}; {difference(actual, expected)}"
    _, extra = _unmatched(actual, unlimited, doubles)
    return f"rows that belong to no answer: {_shown(extra)}" if extra else None


def _double_positions(rows: Answer) -> frozenset[int]:
    """The reference decides which columns are doubles: where it is exact, we must be."""
    return frozenset(position for row in rows for position, value in enumerate(row) if isinstance(value, float))


def _unmatched(actual: Answer, expected: Answer, doubles: frozenset[int]) -> tuple[list[Any], list[Any]]:
    if not doubles:
        left, right = Counter(map(_exactly, actual)), Counter(map(_exactly, expected))
        return list((right - left).elements()), list((left - right).elements())
    # Rows agree on everything exact first; within such a group the doubles find their nearest partners.
    groups: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((actual, expected)):
        for row in rows:
            exact = _exactly(tuple(value for position, value in enumerate(row) if position not in doubles))
            groups[exact][side].append(row)
    missing, extra = [], []
    for ours, theirs in groups.values():
        for reference in theirs:
            partner = next((row for row in ours if _rows_match(row, reference, doubles)), None)
            if partner is None:
                missing.append(reference)
            else:
                ours.remove(partner)
        extra.extend(ours)
    return missing, extra


def _rows_match(row: tuple[Any, ...], reference: tuple[Any, ...], doubles: frozenset[int]) -> bool:
    return all(_same(row[position], reference[position], True) for position in doubles)


def _same(value: Any, reference: Any, double: bool) -> bool:
    if value is None or reference is None or not double:
        return _exactly((value,)) == _exactly((reference,))
    return math.isclose(value, reference, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def _exactly(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python finds True equal to 1 and 0.1 unequal to Decimal('0.1'); SQL types are not that forgiving."""
    return tuple((type(value).__name__, value) if isinstance(value, bool | float) else value for value in row)


def _shown(rows: Sequence[Any]) -> str:
    listed = ", ".join(map(str, rows[:SHOWN_ROWS]))
    return f"{len(rows)} [{listed}{', ...' if len(rows) > SHOWN_ROWS else ''}]"
