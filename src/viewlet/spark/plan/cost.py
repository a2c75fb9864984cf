"""The cost of a distributed expression (thesis, section 5.3.1).

Costs are compared field by field: first how much stored state travels, as a change should cost what it changes; then
how many rounds of communication follow one another; then how many transformers there are, one that sends to every
worker counting more; then how many of them gather at the driver; and last how many columns travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from viewlet.algebra.nodes import Expr, View
from viewlet.algebra.order import is_driven
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import atoms
from viewlet.spark.plan.locations import REPLICATED
from viewlet.spark.plan.nodes import Gather, Moved, Transformer, children, is_moved, strip

UNKNOWN_ROWS = 1_000_000.0
"""The assumed rows of an unmeasured view."""
BROADCAST = 3
AGGREGATED = 0.1
"""How much a Sum is taken to shrink what it sums over."""


class Cost(NamedTuple):
    state: float = 0.0
    rounds: int = 0
    transformers: int = 0
    gathers: int = 0
    columns: int = 0

    def beside(self, other: Cost) -> Cost:
        """The cost of doing both at the same time."""
        return Cost(
            self.state + other.state,
            max(self.rounds, other.rounds),
            self.transformers + other.transformers,
            self.gathers + other.gathers,
            self.columns + other.columns,
        )


NOTHING = Cost()


def cost_of(moved: Moved, rows: Mapping[str, float], known: dict[Moved, Cost] | None = None) -> Cost:
    """The cost of a whole expression; those of its parts are looked up in `known`, and noted there."""
    if not is_moved(moved):
        return NOTHING
    noted = {} if known is None else known
    found = noted.get(moved)
    if found is None:
        total = NOTHING
        for child in children(moved):
            total = total.beside(cost_of(child, rows, noted))
        found = noted[moved] = sent(moved, total, rows) if isinstance(moved, Transformer) else total
    return found


def sent(transformer: Transformer, before: Cost, rows: Mapping[str, float]) -> Cost:
    """The cost of a transformer over something that costs `before`."""
    to_all = not isinstance(transformer, Gather) and transformer.to == REPLICATED
    return Cost(
        before.state + state_moved(strip(transformer.body), rows),
        before.rounds + 1,
        before.transformers + (BROADCAST if to_all else 1),
        before.gathers + isinstance(transformer, Gather),
        before.columns + len(outputs(strip(transformer.body))),
    )


def state_moved(expr: Expr, rows: Mapping[str, float]) -> float:
    """About how many rows of stored state are sent; none if a change limits them, or if they are summed up to one."""
    if is_driven(expr) or not outputs(expr):
        return 0.0
    views = [atom for atom in atoms(expr) if isinstance(atom, View)]
    largest = max((rows.get(view.name, UNKNOWN_ROWS) for view in views), default=0.0)
    whole = any(outputs(expr).issuperset(view.args) for view in views)
    return largest if whole else largest * AGGREGATED
