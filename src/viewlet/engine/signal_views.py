"""Views of signal queries: samples, filters and spectra of the events of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from viewlet.algebra.signal_query import SignalQuery
from viewlet.engine.contract import LocalEngine
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, ViewKind
from viewlet.engine.partitioned import partitioned
from viewlet.engine.signal_handle import SignalView
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import UndoLog


def plan(declared: Declaration, *_: object) -> SignalQuery:
    """The definition is the plan."""
    assert isinstance(declared.definition, SignalQuery)
    return declared.definition


def engine(declared: Declaration, sources: Sources, *_: object) -> LocalEngine:
    """The engine, still to be filled."""
    from viewlet.engine.signal_engine import SignalEngine

    return SignalEngine(plan(declared), sources)


def partition_engine(plan: SignalQuery, sources: Sources, log: UndoLog) -> LocalEngine:
    """The engine of a partition on Spark."""
    from viewlet.engine.signal_partitions import PartitionEngine

    return PartitionEngine(plan, sources)


def partition_keys(plan: SignalQuery) -> Mapping[str, tuple[int, ...]]:
    """The columns of each table by which rows go to partitions."""
    from viewlet.engine.signal_partitions import keys_of

    return keys_of(plan)


def columns_read(plan: SignalQuery) -> Mapping[str, tuple[int, ...]]:
    """The columns of each table that the engine of a partition reads."""
    tables = dict.fromkeys(each.table for each in plan.inputs)
    used = {table: {i for each in plan.inputs if each.table == table for i in each.positions} for table in tables}
    return {table: tuple(sorted(found)) for table, found in used.items()}


def answer(definition: SignalQuery, table: Callable[[str], Any]) -> Any:
    """The samples of a query over finished tables."""
    from viewlet.signals.notation import from_text
    from viewlet.signals.run import run

    return run(from_text(definition.text), {each.table: table(each.table) for each in definition.inputs}, flush=False)


def rehearse(definition: SignalQuery) -> None:
    """Runs the functions of a query once, with ordinary numbers."""
    from viewlet.signals import rehearsal
    from viewlet.signals.notation import from_text

    rehearsal.rehearse(from_text(definition.text))


def stages(subject: Subject) -> Mapping[str, Callable[[], str]]:
    """What `explain` prints of a signal query."""

    def query() -> str:
        from viewlet.signals.notation import from_text
        from viewlet.signals.printer import describe

        return describe(from_text(plan(subject.declared).text))

    return {"sql": lambda: subject.declared.sql, "query": query, "engine": lambda: subject.engine}


SIGNAL_VIEWS = ViewKind(
    noun="a signal query",
    accepts=lambda definition: isinstance(definition, SignalQuery) and not definition.has_arrays,
    plan=plan,
    reference=engine,
    stages=stages,
    summary=("query", "engine"),
    handle=SignalView,
    rehearse=rehearse,
    answer=answer,
    distributed=partitioned(plan, partition_engine, partition_keys, columns_read),
)

ARRAY_VIEWS = replace(
    SIGNAL_VIEWS,
    noun="a signal query with arrays",
    accepts=lambda definition: isinstance(definition, SignalQuery) and definition.has_arrays,
    feeds_views=False,
)
"""Windows that are left open: SQL has no operators on their arrays."""
