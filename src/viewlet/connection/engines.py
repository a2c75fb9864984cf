"""Which engine runs a view.

| `connect(engine=...)` |                                                    |
|-----------------------|----------------------------------------------------|
| `"auto"`              | the interpreter; compiled once there is much to do |
| `"interpreter"`       | the interpreter                                    |
| `"compiled"`          | compiled at once                                   |

Compiling takes seconds, so `auto` begins when a view has seen many rows, in the background: the interpreter continues,
and the view moves between two batches. Over tables the compiled engine is filled from their rows. Streams keep none:
there it takes over what the interpreter holds, whose program is the same.

A batch or a table with many rows does not wait for that, and does not go through the interpreter row by row:

| what is known of the view                    | what happens                                                   |
|----------------------------------------------|----------------------------------------------------------------|
| its code is in the disk cache                | it is compiled at once, before the batch                       |
| SQL can say what it holds, and all rows      | DuckDB evaluates its definition (`bulk_load.py`), while it is  |
| are there (tables, streams without a past)   | compiled in the background                                     |
| neither                                      | a very large batch waits until it is compiled                  |

`explain(view, "engine")` and `view.stats()` tell which engine runs and why.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from viewlet.connection.background import BackgroundCompiler, Task
from viewlet.connection.build import Planned, Sources, build_compiled, build_interpreted, plan_compiled
from viewlet.connection.bulk_load import BulkLoad, plan_load
from viewlet.connection.compile_ahead import request
from viewlet.connection.garbage import collecting_later
from viewlet.connection.maintained import Declaration, MaintainedView, Running
from viewlet.connection.progress import ProgressLine
from viewlet.connection.tree_engines import prepare_tree
from viewlet.errors import DataError, InternalError, MissingExtraError, UnsupportedError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import UndoLog
from viewlet.triggers.wide_numbers import wide_numbers, wide_values
from viewlet.types import Table

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary

ENGINES = ("auto", "interpreter", "compiled")
COMPILE_AFTER_ROWS = 20_000
"""Changed rows (and rows there at its declaration) after which `auto` compiles a view."""
LARGE_BATCH = 10_000
"""Rows of a batch from which `auto` looks for a faster way than the interpreter."""
WORTH_WAITING = 50_000
"""Rows of a batch that take the interpreter about as long as Numba takes to compile a view."""
OLD_ROWS_PER_NEW = 4
"""Rows already there for each new one up to which evaluating a definition over all of them is worth it."""

logger = logging.getLogger("viewlet")

Measure = Callable[[Mapping[str, Table]], Statistics]
GetSources = Callable[[], Sources]
T = TypeVar("T")


@dataclass(slots=True)
class EngineChooser:
    """Starts views, and compiles those that turn out to be busy."""

    asked: str
    measure: Measure
    log: UndoLog
    _dictionary: StringDictionary | None = field(default=None, init=False)
    _background: BackgroundCompiler = field(default_factory=BackgroundCompiler, init=False)

    @property
    def dictionary(self) -> StringDictionary:
        """The strings of the connection; only the compiled engine needs them numbered."""
        if self._dictionary is None:
            from viewlet.runtime.dictionary import StringDictionary

            self._dictionary = StringDictionary()
        return self._dictionary

    # -- declarations -----------------------------------------------------------------------------------------------

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
            return self._start_large(declared, sources)
        waiting = f"it is compiled after {COMPILE_AFTER_ROWS:,} changed rows"
        running = self._interpreted(declared, sources, waiting, movable=sources.is_mixed)
        return replace(running, may_change=True)

    def _start_large(self, declared: Declaration, sources: Sources) -> Running:
        """A view over many rows: compiled, unless that takes long and DuckDB can fill the interpreter meanwhile."""
        statistics = self.measure(sources.tables)
        planned = self._tried(declared.name, lambda: _planned(declared, sources, statistics))
        if planned is not None and not isinstance(planned, str):
            planned = wide_numbers(planned.program) or planned
        if isinstance(planned, str):
            return self._interpreted(declared, sources, planned)
        if planned is not None and not planned.is_cached:
            reason, movable = "it is being compiled", sources.is_mixed
            waiting = self.prepare(declared, sources, "interpreter", reason, statistics, movable)
            if plan_load(waiting.program, sources.tables) is not None:
                task = self._submit(declared, sources, statistics, planned)
                return replace(_filled(waiting, sources), may_change=True, compilation=task)
        compiled = self._tried(
            declared.name, lambda: _filled(self._build(declared, sources, statistics, _many_rows(), planned), sources)
        )
        return self._interpreted(declared, sources, compiled) if isinstance(compiled, str) else compiled

    def prepare(
        self,
        declared: Declaration,
        sources: Sources,
        engine: str,
        reason: str,
        statistics: Statistics | None = None,
        movable: bool = False,
    ) -> Running:
        """A view on an engine that is still to be filled; the sizes are measured unless they are known."""
        if statistics is None:
            statistics = self.measure(sources.tables)
        if engine == "compiled":
            require_numba()
            return self._build(declared, sources, statistics, reason)
        if declared.ring is not None:
            return prepare_tree(declared, sources, engine, reason, statistics, lambda: self.dictionary, self.log)
        return build_interpreted(declared, sources, statistics, self.log, reason, movable)

    def _interpreted(self, declared: Declaration, sources: Sources, reason: str, movable: bool = False) -> Running:
        running = self.prepare(declared, sources, "interpreter", reason, movable=movable)
        return _filled(running, sources, by_query=self.asked == "auto")

    def _compiled(self, declared: Declaration, sources: Sources, reason: str) -> Running:
        return _filled(self.prepare(declared, sources, "compiled", reason), sources)

    def _build(
        self,
        declared: Declaration,
        sources: Sources,
        statistics: Statistics,
        reason: str,
        planned: Planned | None = None,
    ) -> Running:
        """Compiles a view while the user waits."""
        line = ProgressLine(f"compiling view {declared.name}")
        try:
            running = build_compiled(declared, sources, statistics, self.dictionary, reason, planned, step=line.step)
        finally:
            line.close()
        logger.info("view %s: compiled in %.1f s", declared.name, running.compile_seconds)
        return running

    # -- between two batches ----------------------------------------------------------------------------------------

    def expect(self, view: MaintainedView, rows: int, sources: GetSources) -> None:
        """Before a batch with so many rows for a view: decides how they reach it."""
        view.load = None
        self.move_if_ready(view, sources)
        if rows < LARGE_BATCH or self.asked != "auto" or view.running.engine_name != "interpreter":
            return
        found = sources()
        load = self._load(view, rows, found)
        if view.running.may_change and _must_stay(view) is None:
            self._compile(view, found, waits=load is None and rows >= WORTH_WAITING)
        if view.running.engine_name == "interpreter":
            view.load = load

    def expect_change(self, view: MaintainedView, rows: int, sources: GetSources) -> None:
        """In a batch: the same for a view over a view that has just changed in so many rows."""
        if rows >= LARGE_BATCH and self.asked == "auto" and view.load is None and not view.is_touched:
            view.load = self._load(view, rows, sources())

    def _load(self, view: MaintainedView, rows: int, sources: Sources) -> BulkLoad | None:
        """How a batch is loaded by DuckDB, if it can be."""
        if not isinstance(view.running.engine, Interpreter) or sources.has_past:
            return None
        if sources.size > OLD_ROWS_PER_NEW * rows:
            return None
        plan = plan_load(view.program, sources.tables)
        return None if plan is None else BulkLoad(plan, sources, self.dictionary if numba_available() else None)

    def _compile(self, view: MaintainedView, sources: Sources, waits: bool) -> None:
        """Compiles a view at once if its code is in the disk cache, or a batch waits for it; else in the background."""
        declared, task = view.declared, view.running.compilation
        if task is not None:
            if waits:
                self._wait(view.name, task)
                self.move_if_ready(view, lambda: sources)
            return
        statistics = self._statistics(view, sources)
        planned = self._tried(declared.name, lambda: _planned(declared, sources, statistics))
        if isinstance(planned, str):
            view.describe(replace(view.running, reason=planned, may_change=False))
        elif waits or (planned is not None and planned.is_cached):
            self._move(view, sources, lambda: self._build(declared, sources, statistics, _many_rows(), planned))
        else:
            self._compile_ahead(view, sources, statistics, planned)

    @staticmethod
    def _wait(view: str, task: Task[Running]) -> None:
        line = ProgressLine(f"compiling view {view}")
        try:
            while not task.wait(0.5) and not task.is_lost:
                line.step("a large batch waits for it")
        finally:
            line.close()

    def compile_if_busy(self, view: MaintainedView, sources: GetSources) -> None:
        """After a batch: begins to compile a view that has become busy, unless it has to stay where it is."""
        running = view.running
        if running.may_change and running.compilation is None and view.work.tuples > COMPILE_AFTER_ROWS:
            if (obstacle := _must_stay(view)) is not None:
                view.describe(replace(running, reason=obstacle))
            else:
                found = sources()
                self._compile_ahead(view, found, self._statistics(view, found))

    def _statistics(self, view: MaintainedView, sources: Sources) -> Statistics:
        """What the compiled program is chosen by; over streams it has to be the one that the interpreter runs."""
        return view.running.statistics if sources.streams else self.measure(sources.tables)

    def _compile_ahead(
        self, view: MaintainedView, sources: Sources, statistics: Statistics, planned: Planned | None = None
    ) -> None:
        task = self._submit(view.declared, sources, statistics, planned)
        view.describe(replace(view.running, reason="it is being compiled", compilation=task))

    def _submit(
        self, declared: Declaration, sources: Sources, statistics: Statistics, planned: Planned | None
    ) -> Task[Running]:
        """Begins to compile a view in the background."""
        dictionary = self.dictionary

        def build() -> Running:
            running = build_compiled(declared, sources, statistics, dictionary, _many_rows(), planned, reads=True)
            logger.info("view %s: compiled in the background", declared.name)
            return running

        return self._background.submit(Task(request(declared, sources.tables, statistics), build))

    def move_if_ready(self, view: MaintainedView, sources: GetSources) -> None:
        """Moves a view to the code that was compiled for it in the background, if that is done."""
        task = view.running.compilation
        if task is None:
            return
        if task.is_lost:
            view.describe(replace(view.running, compilation=None))
        elif task.is_done:
            if (obstacle := _must_stay(view)) is not None:
                view.describe(replace(view.running, reason=obstacle))
            else:
                self._move(view, sources(), task.result)

    def _move(self, view: MaintainedView, sources: Sources, compiled: Callable[[], Running]) -> None:
        """Fills compiled code and lets it run the view; until then, or if that fails, nothing has changed."""
        before = view.running
        view.describe(replace(before, compilation=None))  # code that an exception leaves half filled is not used again

        def filled() -> Running:
            running = compiled()
            if sources.streams:
                _take_over(running, before)
                return running
            return _filled(running, sources)

        with collecting_later(sources.size + sum(before.engine.sizes().values())):
            running = self._tried(view.name, filled)
        if isinstance(running, str):
            view.describe(replace(before, reason=running, may_change=False, compilation=None))
        else:
            view.run_on(running)

    @staticmethod
    def _tried(view: str, attempt: Callable[[], T]) -> T | str:
        """What an attempt to compile comes to, or why it failed; whatever goes wrong, the interpreter can continue."""
        try:
            return attempt()
        except (UnsupportedError, DataError) as error:
            return str(error)
        except Exception as error:
            logger.warning("view %s: compiling it failed, the interpreter continues", view, exc_info=True)
            return f"compiling it failed: {type(error).__name__}: {error}"

    @staticmethod
    def forget(view: MaintainedView) -> None:
        """A view is gone: nobody needs its code."""
        if (task := view.running.compilation) is not None:
            task.cancel()

    def close(self) -> None:
        self._background.close()


def _planned(declared: Declaration, sources: Sources, statistics: Statistics) -> Planned | None:
    """The code of a view, if it is one over a trigger program."""
    return None if declared.ring is not None else plan_compiled(declared, sources.tables, statistics)


def _filled(running: Running, sources: Sources, by_query: bool = True) -> Running:
    """The view with the rows already there, whatever it held before; many rows are loaded by DuckDB."""
    if isinstance(running.engine, Interpreter):
        plan = plan_load(running.program, sources.tables) if sources.size >= LARGE_BATCH and by_query else None
        if plan is None:
            running.engine.load()
        else:
            running.engine.restore(BulkLoad(plan, sources).contents(running.engine))
    elif running.compiled is not None:
        running.compiled.reload(sources.stores)
    elif running.tree is not None:
        running.tree.load(sources.stores)
    return running


def _take_over(running: Running, before: Running) -> None:
    """Streams keep no rows to start from: the views continue from where the interpreter has brought them."""
    if running.tree is not None and before.tree is not None:
        running.tree.take_over(before.tree)
        return
    if not isinstance(before.engine, Interpreter) or running.program.views != before.program.views:
        raise InternalError("the engines do not keep the same views")
    assert running.compiled is not None
    running.compiled.take_over(before.engine.stores)


def _many_rows() -> str:
    return f"there were more than {COMPILE_AFTER_ROWS:,} changed rows"


def _must_stay(view: MaintainedView) -> str | None:
    """Why a view stays on the interpreter: its changes are wanted and dear to find, or its numbers are too wide."""
    if (wide := wide_numbers(view.program)) is not None:
        return wide
    if view.is_watched and (view.running.tree is not None or not _tells_changes(view.program)):
        return "its changes are wanted after every batch, and only the interpreter knows them"
    return None


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
    return wide_values(sources.tables.values())
