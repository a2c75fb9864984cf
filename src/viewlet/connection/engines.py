"""Which engine runs a view.

| `connect(engine=...)` |                                                    |
|-----------------------|----------------------------------------------------|
| `"auto"`              | the interpreter; compiled once there is much to do |
| `"interpreter"`       | the interpreter                                    |
| `"compiled"`          | compiled at once                                   |

Compiling takes seconds, so `auto` waits until a view has seen many rows. Over tables the compiled engine is filled from
their rows. Streams keep none: there it takes over what the interpreter holds. It cannot for a trigger program over a
stream and a table together, because the compiled engine keeps other views than the interpreter, which reads the table.
`explain(view, "engine")` and `view.stats()` tell which engine runs and why.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.connection.maintained import Declaration, MaintainedView, Running
from viewlet.connection.progress import ProgressLine
from viewlet.connection.tree_engines import prepare_tree
from viewlet.errors import DataError, InternalError, MissingExtraError, UnsupportedError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import WORD_DIGITS, Kind, Table, TableKind

if TYPE_CHECKING:
    from viewlet.connection.compiled import CompiledView
    from viewlet.runtime.dictionary import StringDictionary

ENGINES = ("auto", "interpreter", "compiled")
COMPILE_AFTER_ROWS = 20_000
"""Changed rows (and rows there at its declaration) after which `auto` compiles a view."""

logger = logging.getLogger("viewlet")

Compile = Callable[[Declaration, Mapping[str, Table], Statistics], Program]
Measure = Callable[[Mapping[str, Table]], Statistics]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a view reads: schemas, and stores that hold the rows of those that keep them."""

    tables: Mapping[str, Table]
    stores: Mapping[str, MapStore]

    @property
    def streams(self) -> list[str]:
        return [name for name, table in self.tables.items() if table.kind is TableKind.STREAM]

    @property
    def size(self) -> int:
        return sum(map(len, self.stores.values()))


@dataclass(slots=True)
class EngineChooser:
    """Starts views, and compiles those that turn out to be busy."""

    asked: str
    compile: Compile
    measure: Measure
    log: UndoLog
    _dictionary: StringDictionary | None = field(default=None, init=False)

    @property
    def dictionary(self) -> StringDictionary:
        """The strings of the connection; only the compiled engine needs them numbered."""
        if self._dictionary is None:
            from viewlet.runtime.dictionary import StringDictionary

            self._dictionary = StringDictionary()
        return self._dictionary

    def start(self, declared: Declaration, sources: Sources, asked: str | None = None) -> Running:
        """A new view, filled from the rows already there; `asked` is what to do instead of what the connection says."""
        asked = asked or self.asked
        if asked == "compiled":
            return self._compiled(declared, sources, "asked for by connect(engine='compiled')")
        if asked == "interpreter":
            return self._interpreted(declared, sources, "asked for by connect(engine='interpreter')")
        obstacle = _obstacle(declared, sources)
        if obstacle is not None:
            return self._interpreted(declared, sources, obstacle)
        if sources.size > COMPILE_AFTER_ROWS:
            running = self._tried(declared, sources)
            return self._interpreted(declared, sources, running) if isinstance(running, str) else running
        waiting = f"it is compiled after {COMPILE_AFTER_ROWS:,} changed rows"
        return replace(self._interpreted(declared, sources, waiting), may_change=True)

    @staticmethod
    def is_busy(view: MaintainedView) -> bool:
        """There is enough to do to think again about the engine."""
        return view.running.may_change and view.work.tuples > COMPILE_AFTER_ROWS

    def reconsider(self, view: MaintainedView, sources: Sources) -> None:
        """After a batch: compiles a view that has become busy, unless that would make its changes dear to find."""
        if view.is_watched and (view.running.tree is not None or not _tells_changes(view.program)):
            reason = "its changes are wanted after every batch, and only the interpreter knows them"
            view.running = replace(view.running, reason=reason)
            return
        running = self._tried(view.declared, sources, view.running)
        if isinstance(running, str):
            view.running = replace(view.running, reason=running, may_change=False)
        else:
            view.run_on(running)

    def prepare(
        self, declared: Declaration, sources: Sources, engine: str, reason: str, statistics: Statistics | None = None
    ) -> Running:
        """A view on an engine that is still to be filled; the sizes are measured unless they are known."""
        if statistics is None:
            statistics = self.measure(sources.tables)
        if declared.ring is not None:
            if engine == "compiled":
                require_numba()
            return prepare_tree(declared, sources, engine, reason, statistics, lambda: self.dictionary)
        if engine == "interpreter":
            program = self.compile(declared, sources.tables, statistics)
            return Running(program, Interpreter(program, sources.stores, self.log), reason, statistics=statistics)
        started = time.perf_counter()
        require_numba()
        from viewlet.codegen.scalars import NotCompilable

        try:
            program, compiled = self._build(declared, sources, statistics)
        except NotCompilable as error:
            hint = f"view {declared.name!r} runs with connect(engine='interpreter') or 'auto'"
            raise UnsupportedError(f"{error} in the compiled engine", hint, "engine") from error
        seconds = time.perf_counter() - started
        logger.info("view %s: compiled in %.1f s", declared.name, seconds)
        return Running(program, compiled, reason, seconds, statistics=statistics)

    def _interpreted(self, declared: Declaration, sources: Sources, reason: str) -> Running:
        return self._filled(self.prepare(declared, sources, "interpreter", reason), sources)

    @staticmethod
    def _filled(running: Running, sources: Sources) -> Running:
        if isinstance(running.engine, Interpreter):
            running.engine.load()
        else:
            running.engine.load(sources.stores)
        return running

    def _tried(self, declared: Declaration, sources: Sources, before: Running | None = None) -> Running | str:
        """The view compiled, or why it is not; whatever goes wrong, the interpreter can go on."""
        reason = f"there were more than {COMPILE_AFTER_ROWS:,} changed rows"
        try:
            if before is not None and sources.streams:
                return self._taken_over(declared, sources, before, reason)
            return self._compiled(declared, sources, reason)
        except (UnsupportedError, DataError) as error:
            return str(error)
        except Exception as error:
            logger.warning("view %s: compiling it failed, the interpreter goes on", declared.name, exc_info=True)
            return f"compiling it failed: {type(error).__name__}: {error}"

    def _compiled(self, declared: Declaration, sources: Sources, reason: str) -> Running:
        return self._filled(self.prepare(declared, sources, "compiled", reason), sources)

    def _taken_over(self, declared: Declaration, sources: Sources, before: Running, reason: str) -> Running:
        """Streams keep no rows to start from: the views go on from where the interpreter has brought them."""
        running = self.prepare(declared, sources, "compiled", reason, before.statistics)
        if running.tree is not None and before.tree is not None:
            running.tree.take_over(before.tree)
            return running
        if not isinstance(before.engine, Interpreter) or running.program.views != before.program.views:
            raise InternalError("the engines do not keep the same views")
        assert running.compiled is not None
        running.compiled.take_over(before.engine.stores)
        return running

    def _build(self, declared: Declaration, sources: Sources, statistics: Statistics) -> tuple[Program, CompiledView]:
        """The compiled engine reads no base tables: its program is the one for streams, whatever the tables are."""
        from viewlet.connection.compiled import CompiledView

        tables = {name: replace(table, kind=TableKind.STREAM) for name, table in sources.tables.items()}
        program = self.compile(declared, tables, statistics)
        kept = None if sources.streams else sources.stores
        line = ProgressLine(f"compiling view {declared.name}")
        try:
            return program, CompiledView(program, tables, self.dictionary, kept, line.step)
        finally:
            line.close()


def _tells_changes(program: Program) -> bool:
    """The compiled engine would know what a batch changed without comparing results."""
    from viewlet.codegen.module import result_store

    return result_store(program) is not None


def check_engine(name: str) -> str:
    if name not in ENGINES:
        raise UnsupportedError(f"connect(engine={name!r})", f"use one of {', '.join(map(repr, ENGINES))}")
    if name == "compiled":
        require_numba()
    return name


def require_numba() -> None:
    if not numba_available():
        raise MissingExtraError("the compiled engine needs Numba: pip install 'viewlet[compiled]'")


def numba_available() -> bool:
    """Numba is there, or explicitly not wanted: then generated code runs as plain Python."""
    needed = ("numpy",) if os.environ.get("VIEWLET_JIT") == "0" else ("numpy", "numba")
    return all(importlib.util.find_spec(name) is not None for name in needed)


def _obstacle(declared: Declaration, sources: Sources) -> str | None:
    """Why `auto` will not compile a view, now or later."""
    if not numba_available():
        return "Numba is not installed: pip install 'viewlet[compiled]'"
    if declared.ring is not None:
        return None  # a tree says itself when it cannot be compiled, and takes over what another one holds
    if sources.streams and len(sources.streams) < len(sources.tables):
        return f"stream {sources.streams[0]!r} keeps no rows to start another engine from; connect(engine='compiled')"
    for table in sources.tables.values():
        for column in table.columns:
            if column.type.kind is Kind.DECIMAL and column.type.precision > WORD_DIGITS:
                return f"values of {table.name}.{column.name}, a {column.type}, need not fit 64 bits"
    return None
