"""P += U V', returning the old P X and P' Y, in one pass over P on a GPU: a kernel in Triton.

A program of the kernel owns a strip of rows and a range of columns, and walks along it tile by tile. A tile is read
once, multiplied with X and Y on the tensor cores, updated and written. Sums that several programs share are written
apart and added in a fixed order afterwards, so that the same update always gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

try:
    import torch
    import triton
    import triton.language as tl
except ImportError:  # only a back end on a GPU asks for the kernel
    torch = triton = tl = None

jit: Callable[[Any], Any] = (lambda function: function) if triton is None else triton.jit

WIDEST = 32
"""The number of factors up to which one pass beats separate products by cuBLAS."""
PROGRAMS = 2112
"""Programs that keep a large GPU busy: sixteen for each of its 132 processors."""
LEAST_FACTORS, LEAST_INNER = 8, 16
"""The tensor cores multiply so many columns at least, and sum over so many; factors are padded with zeros."""


class Tiling(NamedTuple):
    """The shape of tiles, the warps that share one, and how many are on their way at once."""

    height: int
    width: int
    warps: int
    stages: int


PRODUCTS = {4: Tiling(64, 64, 4, 2), 8: Tiling(64, 32, 4, 2)}
UPDATES = {4: Tiling(64, 128, 4, 2), 8: Tiling(64, 32, 8, 4)}
"""By the bytes of a number: for passes with products, and for updates alone; the fastest of some sixty on an H200."""
PRECISION = {4: "tf32x3", 8: "ieee"}
"""Three products of the tensor cores come to a product of single precision."""
FEW = 2
"""Outer products that are faster one by one."""


@jit
def _sweep_kernel(  # type: ignore[no-untyped-def]
    p, x, y, u, v, out, parts, rows, columns, step, span,
    a: tl.constexpr, b: tl.constexpr, r: tl.constexpr,
    padded_a: tl.constexpr, padded_b: tl.constexpr, padded_r: tl.constexpr, one_by_one: tl.constexpr,
    height: tl.constexpr, width: tl.constexpr, stages: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    strip = tl.program_id(0)
    cut = tl.program_id(1)
    i = strip * height + tl.arange(0, height)
    inside = i < rows
    first = cut * span
    last = tl.minimum(first + span, columns)
    row_at = i.to(tl.int64) * step
    of_a = tl.arange(0, padded_a)
    of_b = tl.arange(0, padded_b)
    of_r = tl.arange(0, padded_r)
    sums = tl.zeros((height, padded_a), dtype=p.dtype.element_ty)
    if b > 0:
        back = tl.load(y + i[:, None] * b + of_b[None, :], mask=inside[:, None] & (of_b[None, :] < b), other=0.0)
    if r > 0 and not one_by_one:
        left = tl.load(u + i[:, None] * r + of_r[None, :], mask=inside[:, None] & (of_r[None, :] < r), other=0.0)
    for begin in tl.range(first, last, width, num_stages=stages):
        j = begin + tl.arange(0, width)
        there = j < last
        mask = inside[:, None] & there[None, :]
        address = p + row_at[:, None] + j[None, :]
        tile = tl.load(address, mask=mask, other=0.0)
        if a > 0:
            ahead = tl.load(x + j[:, None] * a + of_a[None, :], mask=there[:, None] & (of_a[None, :] < a), other=0.0)
            sums = tl.dot(tile, ahead, acc=sums, input_precision=precision, out_dtype=p.dtype.element_ty)
        if b > 0:
            own = tl.dot(tl.trans(tile), back, input_precision=precision, out_dtype=p.dtype.element_ty)
            target = parts + (strip * columns + j).to(tl.int64)[:, None] * b + of_b[None, :]
            tl.store(target, own, mask=there[:, None] & (of_b[None, :] < b))
        if r > 0:
            if one_by_one:
                for c in tl.static_range(r):
                    of_rows = tl.load(u + i * r + c, mask=inside, other=0.0)
                    of_columns = tl.load(v + j * r + c, mask=there, other=0.0)
                    tile += of_rows[:, None] * of_columns[None, :]
            else:
                right = tl.load(
                    v + j[:, None] * r + of_r[None, :], mask=there[:, None] & (of_r[None, :] < r), other=0.0
                )
                tile = tl.dot(left, tl.trans(right), acc=tile, input_precision=precision, out_dtype=p.dtype.element_ty)
            tl.store(address, tile, mask=mask)
    if a > 0:
        target = out + (cut * rows + i).to(tl.int64)[:, None] * a + of_a[None, :]
        tl.store(target, sums, mask=inside[:, None] & (of_a[None, :] < a))


def sweep(matrix: Any, update: tuple[Any, Any] | None, forward: Any, backward: Any) -> tuple[Any, Any]:
    """One pass over a matrix on a GPU; factors are tensors of its type with at most `WIDEST` columns."""
    rows, columns = matrix.shape
    a = 0 if forward is None else forward.shape[1]
    b = 0 if backward is None else backward.shape[1]
    r = 0 if update is None else update[0].shape[1]
    tiling = (PRODUCTS if a or b else UPDATES)[matrix.element_size()]
    strips = triton.cdiv(rows, tiling.height)
    cuts = max(1, min(triton.cdiv(columns, 8 * tiling.width), PROGRAMS // strips))
    span = triton.cdiv(triton.cdiv(columns, cuts), tiling.width) * tiling.width
    cuts = triton.cdiv(columns, span)
    empty = matrix.new_empty(1)
    out = matrix.new_empty((cuts, rows, a)) if a else empty
    parts = matrix.new_empty((strips, columns, b)) if b else empty
    x, y = (empty if factor is None else factor.contiguous() for factor in (forward, backward))
    u, v = (part.contiguous() for part in update) if update is not None else (empty, empty)
    _sweep_kernel[(strips, cuts)](
        matrix, x, y, u, v, out, parts, rows, columns, matrix.stride(0), span,
        a=a, b=b, r=r, padded_a=_padded(a, LEAST_FACTORS), padded_b=_padded(b, LEAST_FACTORS),
        padded_r=_padded(r, LEAST_INNER), one_by_one=r <= FEW, height=tiling.height, width=tiling.width,
        stages=tiling.stages, precision=PRECISION[matrix.element_size()], num_warps=tiling.warps,
    )  # fmt: skip
    return out.sum(0) if a else None, parts.sum(0) if b else None


def _padded(columns: int, least: int) -> int:
    return max(least, int(triton.next_power_of_2(columns)))
