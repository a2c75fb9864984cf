"""Products of payloads in flat arrays, for generated code: sums and products of variables, the triangle row by row.

    count | sums of a, b, c | aa ab ac | bb bc | cc

The product of relations over different variables has the variables of both. Of its triangle, the rows of the first have
their own products, scaled by how many rows the others have, and then the first's sums times the others' sums.
"""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import compiled
from viewlet.runtime.vectors import add_scaled


@compiled
def add_values(
    target: Any,
    t: Any,
    at: Any,
    values: Any,
    count: Any,
    own: Any,
    rest: Any,
    r: Any,
    start: Any,
    length: Any,
    cross: Any,
) -> None:
    """The rows of a triangle for single values: their products with each other and with the sums in `rest`."""
    for i in range(count):
        x = values[0, i]
        add_scaled(target, t, at, values, 0, i, count - i, own * x)
        at += count - i
        add_scaled(target, t, at, rest, r, start, length, cross * x)
        at += length


@compiled
def add_factor(
    target: Any, t: Any, at: Any, source: Any, s: Any, sums: Any, count: Any, own: Any, rest: Any, r: Any, start: Any,
    length: Any, cross: Any,
) -> None:  # fmt: skip
    """The rows of a triangle for the variables of a factor: its own triangle, and its sums times those in `rest`."""
    products = sums + count
    for i in range(count):
        add_scaled(target, t, at, source, s, products, count - i, own)
        at += count - i
        products += count - i
        add_scaled(target, t, at, rest, r, start, length, cross * source[s, sums + i])
        at += length


@compiled
def multiply(target: Any, a: Any, b: Any, left: Any, right: Any, width: Any) -> None:
    """target[0, i] = a[0, left[0, i]] * b[0, right[0, i]]: the sums of monomials of a product, each from one pair."""
    for i in range(width):
        target[0, i] = a[0, left[0, i]] * b[0, right[0, i]]


@compiled
def raise_values(target: Any, values: Any, before: Any, last: Any, width: Any) -> None:
    """The monomials of single values, each from a lower one and a value; the first is 1."""
    target[0, 0] = 1.0
    for i in range(1, width):
        target[0, i] = target[0, before[0, i]] * values[0, last[0, i]]
