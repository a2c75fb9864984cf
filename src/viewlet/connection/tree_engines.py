"""Which engine runs a view tree over a ring, and how it is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from viewlet.connection.tree_engine import make_engine
from viewlet.errors import InternalError
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Statistics
from viewlet.types import Table
from viewlet.viewtree.ring_plan import RingPlan, plan_ring

if TYPE_CHECKING:
    from viewlet.connection.engines import Sources
    from viewlet.connection.maintained import Declaration, Running


def plan_tree(declared: Declaration, tables: Mapping[str, Table], statistics: Statistics) -> RingPlan:
    """The view tree of a view over a ring."""
    if declared.ring is None:
        raise InternalError(f"view {declared.name!r} is not one over a ring")
    return plan_ring(declared.ring, statistics, [name for name, table in tables.items() if not table.is_dynamic])


def start_tree(declared: Declaration, sources: Sources, asked: str, statistics: Statistics) -> Running:
    """A new view, filled from the rows already there."""
    reason = "asked for by connect(engine='interpreter')" if asked == "interpreter" else "view trees run on it"
    running = prepare_tree(declared, sources, "interpreter", reason, statistics)
    assert running.tree is not None
    running.tree.load(sources.stores)
    return running


def prepare_tree(declared: Declaration, sources: Sources, engine: str, reason: str, statistics: Statistics) -> Running:
    """A view on an engine that is still to be filled."""
    from viewlet.connection.maintained import Running

    plan = plan_tree(declared, sources.tables, statistics)
    kept = None if sources.streams else sources.stores
    program = Program(declared.name, "view-tree", declared.query, (), (), declared.query.expr)
    return Running(program, make_engine(plan, kept), reason, statistics=statistics)
