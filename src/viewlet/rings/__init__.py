"""Rings: what a view's payload is made of, and the laws the engine relies on.

A view maps keys to payloads of a ring (D, +, *, 0, 1). Because + has an inverse, a delete is an insert with a negative
payload; because * distributes over +, the change of a join is a sum of joins with changes.

The rings of `cofactor.py` and `vector.py` compute with NumPy and are imported from there; this package itself loads no
library.
"""

from viewlet.rings.decimals import DECIMAL_RING, DecimalRing
from viewlet.rings.double import DOUBLE_RING, DoubleRing, Dyadic
from viewlet.rings.floats import FLOAT_RING, FloatRing
from viewlet.rings.integer import INTEGER_RING, IntegerRing
from viewlet.rings.product import ProductRing
from viewlet.rings.ring import Field, FlatRing, GrowingRing, Lift, LiftingRing, Ring, SettlingRing, times

__all__ = [
    "DECIMAL_RING",
    "DOUBLE_RING",
    "FLOAT_RING",
    "INTEGER_RING",
    "DecimalRing",
    "DoubleRing",
    "Dyadic",
    "Field",
    "FlatRing",
    "FloatRing",
    "GrowingRing",
    "IntegerRing",
    "Lift",
    "LiftingRing",
    "ProductRing",
    "Ring",
    "SettlingRing",
    "times",
]
