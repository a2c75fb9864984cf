"""A change of one tuple (Figure 3): APPLYUPDATE, with the cost of every line for the partition's exponent epsilon.

For a change of R(a, b) by m, in the part r of R:

    dQ_rhh = m * Sum over c of  S_h(b, c) * T_h(c, a)     the c of T_h(., a)        N^(1-epsilon)
    dQ_rhl = m * V_ST(b, a)                                                         1
    dQ_rlh = m * Sum over c of  S_l(b, c) * T_h(c, a)     the shorter side          N^min(epsilon, 1-epsilon)
    dQ_rll = m * Sum over c of  S_l(b, c) * T_l(c, a)     the c of S_l(b, .)        N^epsilon
    r = h:  V_RS(a, c) += m * S_l(b, c)                                             N^epsilon
    r = l:  V_TR(c, b) += T_h(c, a) * m                                             N^(1-epsilon)

In linear space T_l is divided by the degrees of a in T. V_ST has only the heavy a; for the others, T_s(., a) is short:

    dQ_rhs = m * Sum over c of  S_h(b, c) * T_s(c, a)     the c of T_s(., a)        N^max(epsilon, 1-epsilon)
    r = s:  no view

The sums take the shorter side everywhere, which is never longer than the one that bounds them. If the result has
groups by c, they are enumerated and not summed: that costs as much, and a step for each group that changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from viewlet.adaptive.partition import Kind
from viewlet.adaptive.triangles import Triangles
from viewlet.rings.ring import Ring
from viewlet.types import Datum

T = TypeVar("T")


def apply_update(state: Triangles[T], relation: int, kind: Kind, first: Datum, second: Datum, payload: T) -> None:
    """Adds a payload to one tuple of a part, and brings the result and the views up to date."""
    change_result(state, relation, first, second, payload)
    change_part(state, relation, kind, first, second, payload)
    state.work.updates += 1


def change_result(state: Triangles[T], relation: int, first: Datum, second: Datum, payload: T) -> None:
    """Lines 3 to 7: every triangle that the tuple closes."""
    ring, shape, third = state.ring, state.shape, (relation + 2) % 3
    values: list[Datum] = [None, None, None]
    values[relation], values[(relation + 1) % 3] = first, second
    if third in shape.keys:
        for value, closing in closings(state, relation, first, second):
            values[third] = value
            state.groups.add(shape.key(values), ring.mul(payload, closing))
        return
    total = ring.zero
    for _, closing in closings(state, relation, first, second):
        total = ring.add(total, closing)
    if not ring.is_zero(change := ring.mul(payload, total)):
        state.groups.add(shape.key(values), change)


def closings(state: Triangles[T], relation: int, first: Datum, second: Datum) -> Iterator[tuple[Datum, T]]:
    """The paths from `second` back to `first` through the other relations: the value between them, and the payload.

    Paths of a heavy tuple and a light one come from a view, which has one payload for all unless it keeps witnesses.
    """
    s, t = (state.parts.partitions[(relation + i) % 3] for i in (1, 2))
    yield from meet(state, s.heavy.row(second), t.heavy.column(first))
    for middle, payload in state.parts.views[(relation + 1) % 3].at((second, first)):
        state.work.steps += 1
        yield middle, payload
    yield from meet(state, s.heavy.row(second), t.sparse.column(first))
    for left in (s.light, s.sparse):
        for right in t.parts:
            yield from meet(state, left.row(second), right.column(first))


def meet(state: Triangles[T], left: Mapping[Datum, T], right: Mapping[Datum, T]) -> Iterator[tuple[Datum, T]]:
    """The values that two slices share, with the products of their payloads; looks at every value of the shorter."""
    ring: Ring[T] = state.ring
    if not left or not right:
        return
    state.work.steps += 1 + min(len(left), len(right))
    if len(left) <= len(right):
        for value, payload in left.items():
            if (other := right.get(value)) is not None:
                yield value, ring.mul(payload, other)
    else:
        for value, payload in right.items():
            if (other := left.get(value)) is not None:
                yield value, ring.mul(other, payload)


def change_part(state: Triangles[T], relation: int, kind: Kind, first: Datum, second: Datum, payload: T) -> None:
    """Lines 8 to 12: the views over the part, and the part itself."""
    ring, partitions, views = state.ring, state.parts.partitions, state.parts.views
    state.work.steps += 1
    if kind is Kind.HEAVY:
        light = partitions[(relation + 1) % 3].light.row(second)
        state.work.steps += len(light)
        for last, other in light.items():
            views[relation].add(first, second, last, ring.mul(payload, other))
    elif kind is Kind.LIGHT:
        before = (relation + 2) % 3
        paths = partitions[before].heavy.column(first)
        state.work.steps += len(paths)
        for start, other in paths.items():
            views[before].add(start, first, second, ring.mul(other, payload))
    partitions[relation].part(kind).add(first, second, payload)
