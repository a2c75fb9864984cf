"""P += U V', returning the old P X and P' Y, in one pass over P on a GPU: a kernel in Triton.

A program of the kernel owns a strip of rows and a range of columns, and walks along it tile by tile. A tile is read
once, multiplied with X and Y, updated and written. Sums that several programs share are written apart and added in a
fixed order afterwards, so that the same update always gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import torch
    import triton
    import triton.language as tl
except ImportError:  # only a back end on a GPU asks for the kernel
    torch = triton = tl = None

jit: Callable[[Any], Any] = (lambda function: function) if triton is None else triton.jit

WIDEST = 32
"""The number of factors up to which one pass beats separate products by cuBLAS."""
Shape = tuple[int, int, int]
"""Rows and columns of a tile, and the warps that work on it."""
SHAPES: dict[str, Shape] = {"float32": (64, 128, 8), "float64": (64, 64, 8)}
"""The shape that is used for each type of number; `bench/linalg_gpu.py` tries others."""
PROGRAMS = 1024
"""About as many programs as keep a large GPU busy; matrices of few rows are cut into ranges of columns."""


@jit
def _sweep_kernel(  # type: ignore[no-untyped-def]
    p, x, y, u, v, out, parts, rows, columns, step, span,
    a: tl.constexpr, b: tl.constexpr, r: tl.constexpr, padded: tl.constexpr,
    height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    strip = tl.program_id(0)
    cut = tl.program_id(1)
    i = strip * height + tl.arange(0, height)
    inside = i < rows
    first = cut * span
    last = tl.minimum(first + span, columns)
    row_at = i.to(tl.int64) * step
    places = tl.arange(0, padded)
    sums = tl.zeros((height, padded), dtype=p.dtype.element_ty)
    for begin in range(first, last, width):
        j = begin + tl.arange(0, width)
        there = j < last
        mask = inside[:, None] & there[None, :]
        address = p + row_at[:, None] + j[None, :]
        tile = tl.load(address, mask=mask, other=0.0)
        for c in tl.static_range(a):
            thin = tl.load(x + c * columns + j, mask=there, other=0.0)
            own = tl.sum(tile * thin[None, :], axis=1)
            sums += tl.where(places[None, :] == c, own[:, None], 0.0)
        for c in tl.static_range(b):
            thin = tl.load(y + c * rows + i, mask=inside, other=0.0)
            own = tl.sum(tile * thin[:, None], axis=0)
            tl.store(parts + (strip * b + c).to(tl.int64) * columns + j, own, mask=there)
        for c in tl.static_range(r):
            left = tl.load(u + c * rows + i, mask=inside, other=0.0)
            right = tl.load(v + c * columns + j, mask=there, other=0.0)
            tile += left[:, None] * right[None, :]
        if r > 0:
            tl.store(address, tile, mask=mask)
    if a > 0:
        target = out + (cut * rows + i).to(tl.int64)[:, None] * a + places[None, :]
        tl.store(target, sums, mask=inside[:, None] & (places[None, :] < a))


def sweep(matrix: Any, update: tuple[Any, Any] | None, forward: Any, backward: Any) -> tuple[Any, Any]:
    """One pass over a matrix on a GPU; factors are tensors of its type with at most `WIDEST` columns."""
    rows, columns = matrix.shape
    a = 0 if forward is None else forward.shape[1]
    b = 0 if backward is None else backward.shape[1]
    r = 0 if update is None else update[0].shape[1]
    height, tile, warps = SHAPES[str(matrix.dtype).removeprefix("torch.")]
    strips = triton.cdiv(rows, height)
    cuts = max(1, min(triton.cdiv(columns, 8 * tile), PROGRAMS // strips))
    span = triton.cdiv(triton.cdiv(columns, cuts), tile) * tile
    cuts = triton.cdiv(columns, span)
    empty = matrix.new_empty(1)
    out = matrix.new_empty((cuts, rows, a)) if a else empty
    parts = matrix.new_empty((strips, b, columns)) if b else empty
    x = forward.T.contiguous() if a else empty
    y = backward.T.contiguous() if b else empty
    u, v = (part.T.contiguous() for part in update) if update is not None else (empty, empty)
    _sweep_kernel[(strips, cuts)](
        matrix, x, y, u, v, out, parts, rows, columns, matrix.stride(0), span,
        a=a, b=b, r=r, padded=max(2, triton.next_power_of_2(a)), height=height, width=tile, num_warps=warps,
    )  # fmt: skip
    return out.sum(0) if a else None, parts.sum(0).T if b else None
