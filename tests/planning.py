"""Plans and the code of views are remembered for the length of a test run: many tests declare the same views.

Planning is a function of its arguments, and so is the writing of code (`tests/project/test_plans.py` says so). The plan
of a query, what its batches do on partitions and the modules of its code are made once per worker, whichever engine,
number of partitions or reopened directory asks for them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from viewlet.algebra.query import Query
from viewlet.triggers.program import Program

Plan = TypeVar("Plan")
MOST = 400
"""Plans that are remembered; random queries never come again."""


def remembered(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """The function with its last results; arguments are the same when they look the same, so 0.0 is not -0.0."""
    known: OrderedDict[Any, Plan] = OrderedDict()

    @wraps(plan)
    def found(*given: Any, **named: Any) -> Plan:
        key = (*map(_digest, given), *((name, _digest(value)) for name, value in sorted(named.items())))
        if key not in known:
            known[key] = plan(*given, **named)
            if len(known) > MOST:
                known.popitem(last=False)
        known.move_to_end(key)
        return known[key]

    return found


_digests: OrderedDict[int, tuple[Any, bytes]] = OrderedDict()
"""Of programs and queries, by their identity: they are large, never change, and are asked about again and again."""


def _digest(value: Any) -> bytes:
    """Of what an argument looks like."""
    if not isinstance(value, Program | Query):
        return hashlib.blake2b(repr(value).encode(), digest_size=16).digest()
    if id(value) not in _digests:
        _digests[id(value)] = value, hashlib.blake2b(repr(value).encode(), digest_size=16).digest()
        if len(_digests) > MOST:
            _digests.popitem(last=False)
    return _digests[id(value)][1]


def remember_plans() -> None:
    """To be called before modules import the planners and writers by their names."""
    from viewlet.codegen import blocks, module
    from viewlet.spark import plan as distributed
    from viewlet.spark.plan import compile as compiler
    from viewlet.triggers import plan as planner

    planner.plan_query = remembered(planner.plan_query)
    distributed.compile_distributed = compiler.compile_distributed = remembered(compiler.compile_distributed)
    compiler.DistributedProgram._plan = _remembered_batches(compiler.DistributedProgram._plan)  # type: ignore[method-assign]
    module.write_module = remembered(module.write_module)
    blocks.write_blocks = remembered(blocks.write_blocks)


def _remembered_batches(plan: Callable[[Any, Any], Plan]) -> Callable[[Any, Any], Plan]:
    """The same for what a batch does: it depends on the views, where they are, and how large they may be."""

    def planned(program: Any, locations: Any, rows: Any, arrivals: Any, *, distributed: _Unseen) -> Plan:
        return plan(distributed.value, dict(arrivals))

    known = remembered(planned)

    @wraps(plan)
    def found(distributed: Any, arrivals: Any) -> Plan:
        placed = sorted(distributed.locations.items())
        sizes = sorted(distributed._rows().items())
        return known(distributed.program, placed, sizes, sorted(arrivals.items()), distributed=_Unseen(distributed))

    return found


@dataclass(frozen=True, slots=True)
class _Unseen:
    """An argument that makes no difference."""

    value: Any = field(repr=False)
