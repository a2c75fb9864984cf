"""A clock that ticks whenever an array of a state moves, in whichever store.

A generated function is called with the addresses of its arrays. While the clock stands still no array has moved, and
a call need not ask every store for its addresses.
"""

from __future__ import annotations

from itertools import count

TIME = [0]
"""A number that no earlier state of the arrays had; a list, because a call would cost as much as all the rest."""

_ticks = count(1)


def tick() -> None:
    """An array moves, or is about to."""
    TIME[0] = next(_ticks)
