"""How a view is kept fresh: the strategies of the papers, on one runtime.

| strategy       | a change of a table                                                              |
|----------------|----------------------------------------------------------------------------------|
| `recompute`    | evaluates the query again                                                        |
| `first-order`  | evaluates the delta query over base tables (classical maintenance)                |
| `higher-order` | evaluates the delta query over views that are maintained the same way            |
| `view-tree`    | the same over the views of one tree that all changes share (factorised joins)    |
| `auto`         | the one of the last three that the cost model finds cheapest                     |

`auto` never recomputes a query as a whole: a view is recomputed only if its declaration says so. Single statements that
cannot do better recompute their view under the other strategies too (thesis, section 3.5).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
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

STATEMENT = 0.01
"""By what share one statement makes a program dearer: code to compile, and to run through with every change."""
MANY_STATEMENTS = 40
"""Programs with more take minutes to compile."""
LARGE_QUERY = 200
"""Nodes of a query beyond which `auto` compiles only the programs that it may choose."""
HUGE_QUERY = 1_000
"""Nodes of a query that `higher-order` would not finish within its limits."""
WORTH_WAITING = 20.0
"""How many times as fast a program of `MANY_STATEMENTS` has to be."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a program may become: its statements, and the nodes of all expressions on the way to it."""

    statements: float
    work: float


UNLIMITED = Limits(inf, inf)
LIMITS = MappingProxyType(
    {
        Strategy.HIGHER_ORDER: Limits(5 * MANY_STATEMENTS, 40_000),
        Strategy.VIEW_TREE: Limits(5 * MANY_STATEMENTS, 160_000),
    }
)
"""Where `auto` gives up: a star of ten tables has a thousand views under `higher-order`.

Work is counted and not timed, so that a query gets the same program on every machine.
"""


def candidates(asked: Strategy, known: Container[Strategy]) -> tuple[Strategy, ...]:
    """The strategies to compile: all that `auto` may choose from, or the one that was asked for."""
    if asked is not Strategy.AUTO:
        return (asked,)
    return tuple(each for each in CANDIDATES if each in known or not each.makes_views)


def deferred_candidates(nodes: int, measured: bool) -> tuple[Strategy, ...]:
    """The candidates that are compiled for a query of so many nodes only if the others fail, in that order.

    A program over base tables is not chosen on guessed sizes.
    """
    higher_order = (Strategy.HIGHER_ORDER,) if nodes > HUGE_QUERY else ()
    first_order = (Strategy.FIRST_ORDER,) if nodes > LARGE_QUERY and not measured else ()
    return higher_order + first_order


def choose(costs: Sequence[ProgramCost], measured: bool) -> int:
    """The position of the cheapest program, the first of equals.

    On guessed sizes a program over base tables is not chosen: where they are wrong it may scan what views would keep.
    """
    over_views = [i for i, cost in enumerate(costs) if Strategy(cost.strategy).makes_views]
    fit = over_views if over_views and not measured else list(range(len(costs)))
    best = min(fit, key=lambda i: charged(costs[i]))
    small = [i for i in fit if len(costs[i].statements) <= MANY_STATEMENTS]
    if best in small or not small:
        return best
    other = min(small, key=lambda i: charged(costs[i]))
    return best if measured and charged(costs[other]) > WORTH_WAITING * charged(costs[best]) else other


def charged(cost: ProgramCost) -> float:
    """The cost of a program and of having it compiled."""
    return cost.total + STATEMENT * len(cost.statements) * cost.maintenance
