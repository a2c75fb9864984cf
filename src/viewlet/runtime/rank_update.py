"""P += U V', returning the old P X and P' Y, in one pass over P: the kernel of matrix programs.

P is read from memory once and written once. A block of rows and columns that fits the second-level cache is multiplied
with X, then with Y, then updated, before the next one is read. Rows are divided among threads; each collects its own
part of P' Y, and the parts are added in the order of the rows, so that the outcome does not depend on timing.

Factors come transposed, (factors × columns), so that the inner loops run along rows of P.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.runtime.jit import ENABLED, compiled, entry

if ENABLED:
    from viewlet.runtime.tile_products import (
        backward_1_1,
        backward_1_2,
        backward_1_4,
        backward_2_1,
        backward_2_2,
        backward_2_4,
        forward_1_1,
        forward_1_2,
        forward_1_4,
        forward_2_1,
        forward_2_2,
        forward_2_4,
        update_1_1,
        update_1_2,
        update_1_4,
        update_2_1,
        update_2_2,
        update_2_4,
    )

LANES = 8
"""The columns of a tile are a multiple of this; what is left is done one by one."""
TILE_COLUMNS = 512
TILE_ROWS = 64


@compiled
def _forward(
    p: Any, step: int, row: int, rows: int, first: int, count: int, xt: Any, columns: int, out: Any, a: int
) -> None:
    """out[i, :] += P[i, first:] X for the rows of a tile."""
    factor = 0
    while factor < a:
        chunk = 4 if a - factor >= 4 else 2 if a - factor >= 2 else 1
        at = factor * columns + first
        i = row
        while i + 1 < row + rows:
            if chunk == 4:
                forward_2_4(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
            elif chunk == 2:
                forward_2_2(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
            else:
                forward_2_1(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
            i += 2
        if i < row + rows:
            if chunk == 4:
                forward_1_4(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
            elif chunk == 2:
                forward_1_2(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
            else:
                forward_1_1(p, i * step + first, step, xt, at, columns, out, i * a + factor, a, count)
        factor += chunk


@compiled
def _backward(
    p: Any, step: int, row: int, rows: int, first: int, count: int, t: Any, columns: int, y: Any, b: int
) -> None:
    """T[:, j] += P[rows, j]' Y[rows] for the columns of a tile."""
    factor = 0
    while factor < b:
        chunk = 4 if b - factor >= 4 else 2 if b - factor >= 2 else 1
        at = factor * columns + first
        i = row
        while i + 1 < row + rows:
            if chunk == 4:
                backward_2_4(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
            elif chunk == 2:
                backward_2_2(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
            else:
                backward_2_1(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
            i += 2
        if i < row + rows:
            if chunk == 4:
                backward_1_4(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
            elif chunk == 2:
                backward_1_2(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
            else:
                backward_1_1(p, i * step + first, step, t, at, columns, y, i * b + factor, b, count)
        factor += chunk


@compiled
def _update(
    p: Any, step: int, row: int, rows: int, first: int, count: int, vt: Any, columns: int, u: Any, r: int
) -> None:
    """P[i, j] += U[i] V[j]' for the entries of a tile."""
    factor = 0
    while factor < r:
        chunk = 4 if r - factor >= 4 else 2 if r - factor >= 2 else 1
        at = factor * columns + first
        i = row
        while i + 1 < row + rows:
            if chunk == 4:
                update_2_4(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
            elif chunk == 2:
                update_2_2(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
            else:
                update_2_1(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
            i += 2
        if i < row + rows:
            if chunk == 4:
                update_1_4(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
            elif chunk == 2:
                update_1_2(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
            else:
                update_1_1(p, i * step + first, step, vt, at, columns, u, i * r + factor, r, count)
        factor += chunk


@compiled
def _edge(
    p: Any,
    step: int,
    begin: int,
    end: int,
    first: int,
    columns: int,
    xt: Any,
    out: Any,
    a: int,
    y: Any,
    t: Any,
    b: int,
    u: Any,
    vt: Any,
    r: int,
) -> None:
    """The columns behind the last whole tile, entry by entry."""
    for i in range(begin, end):
        for j in range(first, columns):
            own = p[i * step + j]
            for c in range(a):
                out[i * a + c] += own * xt[c * columns + j]
            for c in range(b):
                t[c * columns + j] += own * y[i * b + c]
            for c in range(r):
                own += u[i * r + c] * vt[c * columns + j]
            p[i * step + j] = own


@entry
def sweep_rows(
    p: Any,
    step: int,
    begin: int,
    end: int,
    columns: int,
    xt: Any,
    out: Any,
    a: int,
    y: Any,
    t: Any,
    b: int,
    u: Any,
    vt: Any,
    r: int,
) -> None:
    """One pass over the rows `begin` to `end` of P, which are `step` numbers apart; all arrays are flat.

    `out` (rows × a) and `t` (b × columns) are added to; `a`, `b` and `r` are the numbers of columns of X, Y and U.
    """
    whole = columns - columns % LANES
    for row in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - row)
        for first in range(0, whole, TILE_COLUMNS):
            count = min(TILE_COLUMNS, whole - first)
            _forward(p, step, row, rows, first, count, xt, columns, out, a)
            _backward(p, step, row, rows, first, count, t, columns, y, b)
            _update(p, step, row, rows, first, count, vt, columns, u, r)
    if whole < columns:
        _edge(p, step, begin, end, whole, columns, xt, out, a, y, t, b, u, vt, r)


NOTHING = {np.dtype(kind): np.zeros(0, kind) for kind in (np.float32, np.float64)}
"""What stands for a factor that is not there."""
