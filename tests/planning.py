"""Plans are remembered for the length of a test run: many tests declare the same views again and again.

Planning is a function of its arguments (`tests/project/test_plans.py` says so). The plan of a query is made once per
worker, whichever engine, number of partitions or reopened directory asks for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Plan = TypeVar("Plan")
MOST = 400
"""Plans that are remembered; random queries never come again."""


def remembered(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """The function with its last results; arguments are the same when they look the same, so 0.0 is not -0.0."""
    known: OrderedDict[str, Plan] = OrderedDict()

    @wraps(plan)
    def found(*given: Any, **named: Any) -> Plan:
        key = repr((given, sorted(named.items())))
        if key not in known:
            known[key] = plan(*given, **named)
            if len(known) > MOST:
                known.popitem(last=False)
        known.move_to_end(key)
        return known[key]

    return found


def remember_plans() -> None:
    """To be called before modules import the planners by their names."""
    from viewlet.spark import plan as distributed
    from viewlet.spark.plan import compile as compiler
    from viewlet.triggers import plan as planner

    planner.plan_query = remembered(planner.plan_query)
    distributed.compile_distributed = compiler.compile_distributed = remembered(compiler.compile_distributed)
