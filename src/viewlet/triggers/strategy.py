"""How a view is kept fresh: the strategies of the papers, on one runtime.

| strategy       | a change of a table                                                      |
|----------------|--------------------------------------------------------------------------|
| `recompute`    | evaluates the query again                                                |
| `first-order`  | evaluates the delta query over base tables (classical maintenance)        |
| `higher-order` | evaluates the delta query over views that are maintained the same way    |
| `auto`         | the one of the last two that the cost model finds cheaper                |

`auto` never recomputes a query as a whole: a view is recomputed only when its owner says so. Single statements that
cannot do better evaluate their view again under the other strategies too (thesis, section 3.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from viewlet.triggers.cost import ProgramCost


class Strategy(Enum):
    AUTO = "auto"
    RECOMPUTE = "recompute"
    FIRST_ORDER = "first-order"
    HIGHER_ORDER = "higher-order"


CANDIDATES = (Strategy.HIGHER_ORDER, Strategy.FIRST_ORDER)
"""What `auto` weighs up; the first is the heuristic choice, taken when nothing tells them apart."""


def candidates(asked: Strategy) -> tuple[Strategy, ...]:
    return CANDIDATES if asked is Strategy.AUTO else (asked,)


def cheapest(costs: Sequence[ProgramCost]) -> int:
    """The position of the cheapest program, the first of equals."""
    return min(range(len(costs)), key=lambda i: costs[i].total)
