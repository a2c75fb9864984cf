"""From a declaration to an engine that is still to be filled: the interpreter, generated code, or a view tree.

Nothing here reads or changes a database, so that a thread, or a second process, can do it ahead of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.connection.maintained import Declaration, Running
from viewlet.connection.tree_engines import prepare_tree
from viewlet.errors import InternalError, UnsupportedError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import RowStore, UndoLog
from viewlet.types import Table, TableKind

if TYPE_CHECKING:
    from viewlet.codegen.module import Module
    from viewlet.runtime.dictionary import StringDictionary

Step = Callable[[str], None]
"""Hears what is about to be done."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a view reads: schemas, and stores that hold the rows of those that keep them."""

    tables: Mapping[str, Table]
    stores: Mapping[str, RowStore]
    has_past: bool = False
    """A stream among them has received rows, which nobody has kept."""

    @property
    def streams(self) -> list[str]:
        return [name for name, table in self.tables.items() if table.kind is TableKind.STREAM]

    @property
    def is_mixed(self) -> bool:
        """Some sources keep their rows, others do not."""
        return 0 < len(self.streams) < len(self.tables)

    @property
    def size(self) -> int:
        return sum(map(len, self.stores.values()))


@dataclass(frozen=True, slots=True)
class Planned:
    """A trigger program and its module in source form."""

    program: Program
    tables: Mapping[str, Table]
    module: Module

    @property
    def is_cached(self) -> bool:
        """Numba has compiled all triggers before: building the engine takes no longer than loading them."""
        from viewlet.codegen.loading import is_cached, load_source
        from viewlet.runtime.jit import ENABLED

        if not ENABLED:
            return True

        code = load_source(self.module.source)
        functions = [*self.module.triggers.values(), *(f for many in self.module.refreshes.values() for f in many)]
        return all(is_cached(code, function.name) for function in functions)


def plan_program(declared: Declaration, tables: Mapping[str, Table], statistics: Statistics) -> Program:
    """The trigger program of a view over tables and streams."""
    from viewlet.viewtree.plan import plan_query

    if declared.ring is not None:
        raise InternalError(f"view {declared.name!r} is a view tree, not a trigger program")
    return plan_query(declared.name, declared.query, tables, declared.strategy, statistics)


def as_streams(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The compiled engine reads no base tables: its program is the one for streams, whatever the tables are."""
    return {name: replace(table, kind=TableKind.STREAM) for name, table in tables.items()}


def plan_compiled(declared: Declaration, tables: Mapping[str, Table], statistics: Statistics) -> Planned:
    """The code of a view over tables and streams; an `UnsupportedError` names what has no compiled form."""
    from viewlet.codegen.module import write_module
    from viewlet.codegen.scalars import NotCompilable

    streams = as_streams(tables)
    program = plan_program(declared, streams, statistics)
    try:
        return Planned(program, streams, write_module(program, streams))
    except NotCompilable as error:
        hint = f"view {declared.name!r} runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError(f"{error} in the compiled engine", hint, "engine") from error


def build_interpreted(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, reason: str, movable: bool = False
) -> Running:
    """A view on the interpreter; if `movable`, its program is the one that the compiled engine would run too."""
    tables = as_streams(sources.tables) if movable else sources.tables
    program = plan_program(declared, tables, statistics)
    return Running(program, Interpreter(program, sources.stores, log), reason, statistics=statistics)


def build_compiled(
    declared: Declaration,
    sources: Sources,
    statistics: Statistics,
    dictionary: StringDictionary,
    reason: str = "",
    planned: Planned | None = None,
    reads: bool = False,
    step: Step = lambda text: None,
) -> Running:
    """A view on generated code, compiled now; with `reads`, the code that reads a large result is compiled too."""
    if declared.ring is not None:
        return prepare_tree(declared, sources, "compiled", reason, statistics, lambda: dictionary)
    from viewlet.connection.compiled import CompiledView

    started = time.perf_counter()
    step("writing its code")
    if planned is None:
        planned = plan_compiled(declared, sources.tables, statistics)
    kept = None if sources.streams else sources.stores
    engine = CompiledView(planned.program, planned.tables, dictionary, kept, step, planned.module, reads)
    seconds = time.perf_counter() - started
    return Running(planned.program, engine, reason, seconds, statistics=statistics)
