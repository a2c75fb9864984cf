"""Rings: what a view's payload is made of, and the laws the engine relies on.

A view maps keys to payloads of a ring (D, +, *, 0, 1). Because + has an inverse, a delete is an insert with a negative
payload; because * distributes over +, the change of a join is a sum of joins with changes.
"""

from viewlet.rings.double import DOUBLE_RING, Dyadic
from viewlet.rings.integer import INTEGER_RING
from viewlet.rings.product import ProductRing
from viewlet.rings.ring import Ring

__all__ = ["DOUBLE_RING", "INTEGER_RING", "Dyadic", "ProductRing", "Ring"]
