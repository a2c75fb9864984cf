"""How a view is kept fresh: the strategies of the papers, on one runtime.

| strategy       | a change of a table                                                      |
|----------------|--------------------------------------------------------------------------|
| `recompute`    | evaluates the query again                                                |
| `first-order`  | evaluates the delta query over base tables (classical maintenance)        |
| `higher-order` | evaluates the delta query over views that are maintained the same way    |
| `auto`         | the one of the last two that the cost model finds cheaper                |
"""

from __future__ import annotations

from enum import Enum


class Strategy(Enum):
    AUTO = "auto"
    RECOMPUTE = "recompute"
    FIRST_ORDER = "first-order"
    HIGHER_ORDER = "higher-order"
