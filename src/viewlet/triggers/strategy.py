"""How a view is kept fresh: the strategies of the papers, on one runtime.

| strategy       | a change of a table                                                              |
|----------------|----------------------------------------------------------------------------------|
| `recompute`    | evaluates the query again                                                        |
| `first-order`  | evaluates the delta query over base tables (classical maintenance)                |
| `higher-order` | evaluates the delta query over views that are maintained the same way            |
| `view-tree`    | the same over the views of one tree that all changes share (factorised joins)    |
| `auto`         | the one of the last three that the cost model finds cheapest                     |

`auto` never recomputes a query as a whole: a view is recomputed only when its owner says so. Single statements that
cannot do better evaluate their view again under the other strategies too (thesis, section 3.5).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum
from types import MappingProxyType

from viewlet.triggers.cost import ProgramCost
from viewlet.triggers.grouping import by_components


class Strategy(Enum):
    AUTO = "auto"
    RECOMPUTE = "recompute"
    FIRST_ORDER = "first-order"
    HIGHER_ORDER = "higher-order"
    VIEW_TREE = "view-tree"

    @property
    def makes_views(self) -> bool:
        """What a change needs of other tables is materialised."""
        return self in (Strategy.HIGHER_ORDER, Strategy.VIEW_TREE)


GROUPINGS = MappingProxyType({Strategy.HIGHER_ORDER: by_components})
"""How the strategies that this package knows of group factors into views."""

CANDIDATES = (Strategy.HIGHER_ORDER, Strategy.FIRST_ORDER, Strategy.VIEW_TREE)
"""What `auto` weighs up; the first is the heuristic choice, taken when nothing tells them apart."""

MANY_STATEMENTS = 40
"""Programs with more take long to compile, and touch many views with every row."""
STATEMENT = 1.0
"""What one statement more costs with every change, in tuples: code to compile, and to run through."""


def candidates(asked: Strategy, known: Container[Strategy]) -> tuple[Strategy, ...]:
    """The strategies to compile: all that `auto` may choose from, or the one that was asked for."""
    if asked is not Strategy.AUTO:
        return (asked,)
    return tuple(each for each in CANDIDATES if each in known or not each.makes_views)


def choose(costs: Sequence[ProgramCost], measured: bool) -> int:
    """The position of the cheapest program, the first of equals.

    Guessed sizes may be wrong: then neither a program over base tables is chosen, which may scan what views would keep,
    nor one of `MANY_STATEMENTS` if there is another.
    """
    fit = [i for i, cost in enumerate(costs) if measured or Strategy(cost.strategy).makes_views]
    if not measured:
        fit = [i for i in fit if len(costs[i].statements) <= MANY_STATEMENTS] or fit
    return min(fit, key=lambda i: charged(costs[i]))


def charged(cost: ProgramCost) -> float:
    """The cost of a program and of having it compiled."""
    return cost.total + STATEMENT * len(cost.statements) * sum(cost.rates.values())
