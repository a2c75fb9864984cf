"""P += U V', returning the old P X and P' Y, in one pass over P on a GPU: a kernel in Triton.

A program of the kernel owns a strip of rows and a range of columns, and walks along it tile by tile. A tile is read
once, multiplied with X and Y, updated and written. Few factors are multiplied one by one, without moving the tile
between threads; many go to the tensor cores. Sums that several programs share are written apart and added in a fixed
order afterwards, so that the same update always gives the same bits.
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
    """The shape of tiles, the warps that share one, how many are on their way at once, and what is done one by one.

    `single` names the operations that take their factors one by one instead of the tensor cores: "x" for P X (four
    factors at most), "y" for P' Y, "u" for the update.
    """

    height: int
    width: int
    warps: int
    stages: int
    single: str = ""


PRODUCTS = {
    4: {
        2: Tiling(128, 64, 4, 1, "xyu"),
        4: Tiling(64, 64, 2, 2, "xu"),
        8: Tiling(32, 64, 1, 2, "y"),
        WIDEST: Tiling(64, 64, 4, 2),
    },
    8: {
        1: Tiling(128, 32, 4, 2, "xyu"),
        2: Tiling(64, 32, 2, 2, "xyu"),
        4: Tiling(64, 32, 2, 2, "yu"),
        8: Tiling(64, 32, 2, 2, "u"),
        WIDEST: Tiling(64, 32, 4, 2),
    },
}
UPDATES = {
    4: {2: Tiling(64, 128, 4, 2, "u"), 16: Tiling(128, 128, 8, 3), WIDEST: Tiling(64, 128, 4, 2)},
    8: {2: Tiling(64, 32, 8, 4, "u"), WIDEST: Tiling(64, 32, 4, 2)},
}
"""By the bytes of a number and the most factors: for passes with products, and for updates alone.

They are the fastest of some hundred for each on an H200.
"""
PRECISION = {4: "tf32x3", 8: "ieee"}
"""Three products of the tensor cores come to a product of single precision."""


@jit
def _sweep_kernel(  # type: ignore[no-untyped-def]
    p, x, y, u, v, out, parts, rows, columns, step, span, v_step, v_factor,
    a: tl.constexpr, b: tl.constexpr, r: tl.constexpr,
    padded_a: tl.constexpr, padded_b: tl.constexpr, padded_r: tl.constexpr,
    single_x: tl.constexpr, single_y: tl.constexpr, single_u: tl.constexpr,
    height: tl.constexpr, width: tl.constexpr, stages: tl.constexpr, precision: tl.constexpr, even: tl.constexpr,
):  # fmt: skip
    # x is a × columns, y rows × b, u rows × r; parts are strips × b × columns, out cuts × rows × a
    strip = tl.program_id(0)
    cut = tl.program_id(1)
    kind: tl.constexpr = p.dtype.element_ty
    own_rows = tl.arange(0, height)
    own_columns = tl.arange(0, width)
    i = strip * height + own_rows
    inside = i < rows
    first = cut * span
    last = tl.minimum(first + span, columns)
    corner = p + (strip * height).to(tl.int64) * step
    offsets = own_rows[:, None] * step + own_columns[None, :]
    of_a = tl.arange(0, padded_a)
    of_b = tl.arange(0, padded_b)
    of_r = tl.arange(0, padded_r)
    sums = tl.zeros((height, padded_a), dtype=kind)
    # one by one, a thread adds up four columns at a time; threads meet after the last tile
    sum_0 = tl.zeros((height, width // 4), dtype=kind)
    sum_1 = tl.zeros((height, width // 4), dtype=kind)
    sum_2 = tl.zeros((height, width // 4), dtype=kind)
    sum_3 = tl.zeros((height, width // 4), dtype=kind)
    if b > 0 and not single_y:
        back = tl.load(y + i[:, None] * b + of_b[None, :], mask=inside[:, None] & (of_b[None, :] < b), other=0.0)
    if r > 0 and not single_u:
        left = tl.load(u + i[:, None] * r + of_r[None, :], mask=inside[:, None] & (of_r[None, :] < r), other=0.0)
    for begin in tl.range(first, last, width, num_stages=stages):
        j = begin + own_columns
        there = j < last
        mask = inside[:, None] & there[None, :]
        address = corner + begin + offsets
        tile = tl.load(address) if even else tl.load(address, mask=mask, other=0.0)
        if a > 0:
            if single_x:
                sum_0 += _by_four(tile, tl.load(x + j, mask=there, other=0.0), height, width)
                if a > 1:
                    sum_1 += _by_four(tile, tl.load(x + columns + j, mask=there, other=0.0), height, width)
                if a > 2:
                    sum_2 += _by_four(tile, tl.load(x + 2 * columns + j, mask=there, other=0.0), height, width)
                if a > 3:
                    sum_3 += _by_four(tile, tl.load(x + 3 * columns + j, mask=there, other=0.0), height, width)
            else:
                known = there[None, :] & (of_a[:, None] < a)
                ahead = tl.load(x + of_a[:, None] * columns + j[None, :], mask=known, other=0.0)
                sums = tl.dot(tile, tl.trans(ahead), acc=sums, input_precision=precision, out_dtype=kind)
        if b > 0:
            if single_y:
                for c in tl.static_range(b):
                    factor = tl.load(y + i * b + c, mask=inside, other=0.0)
                    target = parts + (strip * b + c).to(tl.int64) * columns + j
                    tl.store(target, tl.sum(tile * factor[:, None], axis=0), mask=there)
            else:
                own = tl.dot(tl.trans(tile), back, input_precision=precision, out_dtype=kind)
                target = parts + (strip * b + of_b).to(tl.int64)[None, :] * columns + j[:, None]
                tl.store(target, own, mask=there[:, None] & (of_b[None, :] < b))
        if r > 0:
            if single_u:
                for c in tl.static_range(r):
                    of_rows = tl.load(u + i * r + c, mask=inside, other=0.0)
                    of_columns = tl.load(v + j * v_step + c * v_factor, mask=there, other=0.0)
                    tile += of_rows[:, None] * of_columns[None, :]
            elif a + b > 0:
                known = there[None, :] & (of_r[:, None] < r)
                right = tl.load(v + of_r[:, None] * v_factor + j[None, :] * v_step, mask=known, other=0.0)
                tile = tl.dot(left, right, acc=tile, input_precision=precision, out_dtype=kind)
            else:
                known = there[:, None] & (of_r[None, :] < r)
                right = tl.load(v + j[:, None] * v_step + of_r[None, :] * v_factor, mask=known, other=0.0)
                tile = tl.dot(left, tl.trans(right), acc=tile, input_precision=precision, out_dtype=kind)
            if even:
                tl.store(address, tile)
            else:
                tl.store(address, tile, mask=mask)
    if a > 0:
        target = out + (cut.to(tl.int64) * rows + i) * a
        if single_x:
            tl.store(target, tl.sum(sum_0, axis=1), mask=inside)
            if a > 1:
                tl.store(target + 1, tl.sum(sum_1, axis=1), mask=inside)
            if a > 2:
                tl.store(target + 2, tl.sum(sum_2, axis=1), mask=inside)
            if a > 3:
                tl.store(target + 3, tl.sum(sum_3, axis=1), mask=inside)
        else:
            tl.store(target[:, None] + of_a[None, :], sums, mask=inside[:, None] & (of_a[None, :] < a))


@jit
def _by_four(tile, factor, height: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """The products of a tile with a vector, added up over four columns, which one thread holds."""
    return tl.sum(tl.reshape(tile * factor[None, :], (height, width // 4, 4)), axis=2)


def sweep(matrix: Any, update: tuple[Any, Any] | None, forward: Any, backward: Any) -> tuple[Any, Any]:
    """One pass over a matrix on a GPU; factors are tensors of its type with at most `WIDEST` columns."""
    rows, columns = matrix.shape
    a = 0 if forward is None else forward.shape[1]
    b = 0 if backward is None else backward.shape[1]
    r = 0 if update is None else update[0].shape[1]
    tiling = tiling_of(matrix.element_size(), a, b, r)
    strips = triton.cdiv(rows, tiling.height)
    cuts = max(1, min(triton.cdiv(columns, 8 * tiling.width), PROGRAMS // strips))
    span = triton.cdiv(triton.cdiv(columns, cuts), tiling.width) * tiling.width
    cuts = triton.cdiv(columns, span)
    empty = matrix.new_empty(1)
    out = matrix.new_empty((cuts, rows, a)) if a else empty
    parts = matrix.new_empty((strips, b, columns)) if b else empty
    x = forward.T.contiguous() if a else empty
    y = backward.contiguous() if b else empty
    u, v = (update[0].contiguous(), _right(update[1], a + b > 0)) if update is not None else (empty, empty[None])
    _sweep_kernel[(strips, cuts)](
        matrix, x, y, u, v, out, parts, rows, columns, matrix.stride(0), span, v.stride(0), v.stride(1),
        a=a, b=b, r=r, padded_a=_padded(a, LEAST_FACTORS), padded_b=_padded(b, LEAST_FACTORS),
        padded_r=_padded(r, LEAST_INNER), single_x="x" in tiling.single, single_y="y" in tiling.single,
        single_u="u" in tiling.single, height=tiling.height, width=tiling.width, stages=tiling.stages,
        precision=PRECISION[matrix.element_size()], even=rows % tiling.height == 0 and columns % tiling.width == 0,
        num_warps=tiling.warps,
    )  # fmt: skip
    return out.sum(0) if a else None, parts.sum(0).T if b else None


def tiling_of(itemsize: int, a: int, b: int, r: int) -> Tiling:
    """The tiles of a pass that multiplies with `a` and `b` columns and adds `r` outer products."""
    options = (PRODUCTS if a or b else UPDATES)[itemsize]
    return options[min(most for most in options if max(a, b, r) <= most)]


def _right(factor: Any, products: bool) -> Any:
    """The right factor of an update, by columns where products wait for the same tile."""
    return factor.T.contiguous().T if products else factor.contiguous()


def _padded(columns: int, least: int) -> int:
    return max(least, int(triton.next_power_of_2(columns)))
