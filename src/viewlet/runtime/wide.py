"""Exact sums in 128 bits: an integer as a high and a low 64-bit word, both held as int64.

    value = high * 2**64 + (low as unsigned)

With Numba the operations are LLVM's own i128 arithmetic; without it, Python's integers.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from viewlet.runtime.jit import ENABLED
from viewlet.runtime.plain import from_words, to_words

LIMIT_HIGH = (10**38) >> 64
"""A high word beyond this is past the 38 digits a DECIMAL can hold."""

_chosen: Any = import_module("viewlet.runtime.intrinsics" if ENABLED else "viewlet.runtime.plain")
wide_add = _chosen.wide_add
wide_mul = _chosen.wide_mul
wide_product = _chosen.wide_product
bits_of = _chosen.bits_of
double_of = _chosen.double_of
fused = _chosen.fused

__all__ = [
    "LIMIT_HIGH",
    "bits_of",
    "double_of",
    "from_words",
    "fused",
    "to_words",
    "wide_add",
    "wide_mul",
    "wide_product",
]
