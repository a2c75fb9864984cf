"""Which engine runs a view tree over a ring, and how it is started; `engines.py` has the rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from viewlet.algebra.ring_query import FactorisedPayload
from viewlet.connection.tree_engine import CofactorEngine, FactorisedEngine, TreeEngine
from viewlet.errors import InternalError, UnsupportedError
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import RowStore, UndoLog
from viewlet.types import Table
from viewlet.viewtree.keepers import Keeper, KeepsRows, reference_tree
from viewlet.viewtree.ring_plan import RingPlan, plan_ring

if TYPE_CHECKING:
    from viewlet.connection.build import Sources
    from viewlet.connection.maintained import Declaration, Running
    from viewlet.runtime.dictionary import StringDictionary


def plan_tree(declared: Declaration, tables: Mapping[str, Table], statistics: Statistics) -> RingPlan:
    """The view tree of a view over a ring."""
    if declared.ring is None:
        raise InternalError(f"view {declared.name!r} is not one over a ring")
    return plan_ring(declared.ring, statistics, [name for name, table in tables.items() if not table.is_dynamic])


def prepare_tree(
    declared: Declaration,
    sources: Sources,
    engine: str,
    reason: str,
    statistics: Statistics,
    dictionary: Callable[[], StringDictionary],
    log: UndoLog | None = None,
) -> Running:
    """A view on an engine that is still to be filled."""
    from viewlet.connection.maintained import Running

    started = time.perf_counter()
    plan = plan_tree(declared, sources.tables, statistics)
    keeper: Keeper = reference_tree(plan, log) if engine == "interpreter" else _generated(declared, plan, dictionary())
    seconds = time.perf_counter() - started if engine == "compiled" else 0.0
    kept = None if sources.streams else sources.stores
    program = Program(declared.name, "view-tree", declared.query, (), (), declared.query.expr)
    return Running(program, _engine(plan, keeper, kept), reason, seconds, statistics=statistics)


def _engine(plan: RingPlan, keeper: Keeper, kept: Mapping[str, RowStore] | None) -> TreeEngine:
    if isinstance(plan.query.payload, FactorisedPayload):
        return FactorisedEngine(plan, cast(KeepsRows, keeper), kept)
    return CofactorEngine(plan, keeper, kept)


def _generated(declared: Declaration, plan: RingPlan, dictionary: StringDictionary) -> Keeper:
    from viewlet.codegen.rings.forms import NotCompilable
    from viewlet.codegen.rings.keepers import generated_tree

    try:
        return generated_tree(plan, dictionary)
    except NotCompilable as error:
        hint = f"{error}; it runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError(f"view {declared.name!r} in the compiled engine", hint, "engine") from error
