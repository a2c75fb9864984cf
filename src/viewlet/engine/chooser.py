"""Which engine runs a view.

| `connect(engine=...)` |                                                    |
|-----------------------|----------------------------------------------------|
| `"auto"`              | the interpreter; compiled once there is much to do |
| `"interpreter"`       | the interpreter                                    |
| `"compiled"`          | compiled at once                                   |

Compiling takes seconds, so `auto` begins when the interpreter has worked on a view for about as long: whatever follows,
no more than twice the time is spent than by a choice that knew it. Many rows are reason enough to begin early. The view
is compiled in the background while the interpreter continues, and moves between two batches. Over tables the compiled
engine is filled from their rows. Streams keep none: there it takes over what the interpreter holds, whose program is
the same. "The interpreter" stands for the reference engine of every kind of view. A view of a kind without a compiled
form stays on it.

A batch or a table with many rows does not wait for that, and does not go through the interpreter row by row:

| what is known of the view                    | what happens                                                   |
|----------------------------------------------|----------------------------------------------------------------|
| its code is in the disk cache                | it is compiled at once, before the batch                       |
| its kind can be loaded in bulk, and all rows | DuckDB evaluates its definition (`sqlgen/bulk_load.py`), while |
| are there (tables, streams without a past)   | it is compiled in the background                               |
| neither                                      | a very large batch waits until it is compiled                  |

`explain(view, "engine")` and `view.stats()` tell which engine runs and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from viewlet.engine.background import BackgroundCompiler, Task
from viewlet.engine.build import LeftToInterpreterError, build_compiled, draft_for_auto
from viewlet.engine.choice import Choice
from viewlet.engine.compile_ahead import request
from viewlet.engine.contract import BulkLoad
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Draft
from viewlet.engine.kinds import compiled_form, kind_of
from viewlet.engine.maintainer import Maintainer
from viewlet.engine.progress import ProgressLine
from viewlet.errors import DataError, UnsupportedError
from viewlet.runtime.garbage import collecting_later
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import UndoLog
from viewlet.types import Table
from viewlet.visible import described, logger

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary

ENGINES = ("auto", "interpreter", "compiled")
COMPILE_AFTER_ROWS = 20_000
"""Changed rows (and rows there at its declaration) after which `auto` compiles a view."""
COMPILE_AFTER_SECONDS = 2.0
"""Seconds of work on a view after which `auto` compiles it, however few its rows are: compiling takes about as long."""
LARGE_BATCH = 10_000
"""Rows of a batch from which `auto` looks for a faster way than the interpreter."""
WORTH_WAITING = 50_000
"""Rows of a batch that take the interpreter about as long as Numba takes to compile a view."""
OLD_ROWS_PER_NEW = 4
"""Rows already there for each new one up to which evaluating a definition over all of them is worth it."""

Measure = Callable[[Mapping[str, Table]], Statistics]
GetSources = Callable[[Declaration], Sources]
T = TypeVar("T")


@dataclass(slots=True)
class EngineChooser:
    """Starts views, and compiles those that turn out to be busy."""

    setting: str
    measure: Measure
    sources: GetSources
    log: UndoLog
    moves: int = field(default=0, init=False)
    """How often a view has got another engine."""
    _dictionary: StringDictionary | None = field(default=None, init=False)
    _background: BackgroundCompiler = field(default_factory=BackgroundCompiler, init=False)

    @property
    def dictionary(self) -> StringDictionary:
        """The strings of the connection; only the compiled engine needs them numbered."""
        if self._dictionary is None:
            from viewlet.runtime.dictionary import StringDictionary

            self._dictionary = StringDictionary()
        return self._dictionary

    def sweep_if_due(self) -> None:
        """Between two batches: removes strings that nothing uses."""
        if self._dictionary is not None:
            self._dictionary.sweep_if_due()

    # -- declarations -----------------------------------------------------------------------------------------------

    def start(self, declared: Declaration, sources: Sources, setting: str | None = None) -> Choice:
        """A new view, filled from the rows already there; `setting` replaces that of the connection."""
        setting = setting or self.setting
        if setting == "compiled":
            return self._compiled(declared, sources, "asked for by connect(engine='compiled')")
        if setting == "interpreter":
            return self._interpreted(declared, sources, "asked for by connect(engine='interpreter')")
        obstacle = _obstacle(declared, sources)
        if obstacle is not None:
            return self._interpreted(declared, sources, obstacle)
        if sources.size > COMPILE_AFTER_ROWS:
            return self._start_large(declared, sources)
        waiting = f"it is compiled after {COMPILE_AFTER_ROWS:,} changed rows or {COMPILE_AFTER_SECONDS:g} s of work"
        choice = self._interpreted(declared, sources, waiting, movable=sources.is_mixed)
        return replace(choice, may_change=True)

    def _start_large(self, declared: Declaration, sources: Sources) -> Choice:
        """A view over many rows: compiled, unless that takes long and a load can fill the interpreter meanwhile."""
        statistics = self.measure(sources.tables)
        draft = self._tried(declared.name, lambda: draft_for_auto(declared, sources, statistics))
        if isinstance(draft, str):
            return self._interpreted(declared, sources, draft)
        bulk_load = kind_of(declared).bulk_load
        if bulk_load is not None and not draft.is_cached:
            reason, movable = "it is being compiled", sources.is_mixed
            waiting = self.prepare(declared, sources, "interpreter", reason, statistics, movable)
            if (load := bulk_load(waiting.engine, sources, None)) is not None:
                load.load()
                task = self._submit(declared, sources, statistics, draft)
                return replace(waiting, may_change=True, compilation=task)
        compiled = self._tried(
            declared.name, lambda: _filled(self._build(declared, sources, statistics, _many_rows(), draft))
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
    ) -> Choice:
        """A view on an engine that is still to be filled; the sizes are measured unless they are known."""
        if statistics is None:
            statistics = self.measure(sources.tables)
        if engine == "compiled":
            return self._build(declared, sources, statistics, reason)
        made = kind_of(declared).reference(declared, sources, statistics, self.log, movable)
        return Choice(made, reason, statistics=statistics)

    def _interpreted(self, declared: Declaration, sources: Sources, reason: str, movable: bool = False) -> Choice:
        choice = self.prepare(declared, sources, "interpreter", reason, movable=movable)
        bulk_load = kind_of(declared).bulk_load
        if bulk_load is not None and sources.size >= LARGE_BATCH and self.setting == "auto":
            load = bulk_load(choice.engine, sources, None)
            if load is not None:
                load.load()
                return choice
        return _filled(choice)

    def _compiled(self, declared: Declaration, sources: Sources, reason: str) -> Choice:
        return _filled(self.prepare(declared, sources, "compiled", reason))

    def _build(
        self,
        declared: Declaration,
        sources: Sources,
        statistics: Statistics,
        reason: str,
        draft: Draft | None = None,
    ) -> Choice:
        """Compiles a view while the user waits."""
        line = ProgressLine(f"compiling view {declared.name}")
        try:
            choice = build_compiled(declared, sources, statistics, self.dictionary, reason, draft, step=line.step)
        finally:
            line.close()
        logger.info("view %s: compiled in %.1f s", declared.name, choice.compile_seconds)
        return choice

    # -- between two batches ----------------------------------------------------------------------------------------

    def expect(self, view: Maintainer, rows: int) -> None:
        """Before a batch with so many rows for a view: decides how they reach it."""
        view.load = None
        self.move_if_ready(view)
        if rows < LARGE_BATCH or self.setting != "auto" or view.choice.is_compiled:
            return
        found = self.sources(view.declared)
        load = self._load(view, rows, found)
        if view.choice.may_change and _must_stay(view) is None:
            self._compile(view, found, waits=load is None and rows >= WORTH_WAITING)
        if not view.choice.is_compiled:
            view.load = load

    def expect_change(self, view: Maintainer, rows: int) -> None:
        """In a batch: the same for a view over a view that has just changed in so many rows."""
        if rows >= LARGE_BATCH and self.setting == "auto" and view.load is None and not view.is_touched:
            view.load = self._load(view, rows, self.sources(view.declared))

    def _load(self, view: Maintainer, rows: int, sources: Sources) -> BulkLoad | None:
        """How a batch is loaded in bulk, if it can be."""
        bulk_load = view.kind.bulk_load
        if bulk_load is None or view.choice.is_compiled or sources.has_past:
            return None
        if sources.size > OLD_ROWS_PER_NEW * rows:
            return None
        return bulk_load(view.engine, sources, self.dictionary)

    def _compile(self, view: Maintainer, sources: Sources, waits: bool) -> None:
        """Compiles a view at once if its code is in the disk cache, or a batch waits for it; else in the background."""
        declared, task = view.declared, view.choice.compilation
        if task is not None:
            if waits:
                self._wait(view.name, task)
                self.move_if_ready(view)
            return
        statistics = self._statistics(view, sources)
        draft = self._tried(declared.name, lambda: draft_for_auto(declared, sources, statistics))
        if isinstance(draft, str):
            view.describe(replace(view.choice, reason=draft, may_change=False))
        elif waits or draft.is_cached:
            self._move(view, sources, lambda: self._build(declared, sources, statistics, _many_rows(), draft))
        else:
            self._compile_ahead(view, sources, statistics, draft)

    @staticmethod
    def _wait(view: str, task: Task[Choice]) -> None:
        line = ProgressLine(f"compiling view {view}")
        try:
            while not task.wait(0.5):
                line.step("a large batch waits for it")
        finally:
            line.close()

    def compile_if_busy(self, view: Maintainer) -> None:
        """After a batch: begins to compile a view that has become busy, unless it has to stay where it is."""
        choice = view.choice
        is_busy = view.work.tuples > COMPILE_AFTER_ROWS or view.spent > COMPILE_AFTER_SECONDS
        if choice.may_change and choice.compilation is None and is_busy:
            if (obstacle := _must_stay(view)) is not None:
                view.describe(replace(choice, reason=obstacle))
            else:
                found = self.sources(view.declared)
                reason = _many_rows() if view.work.tuples > COMPILE_AFTER_ROWS else _much_work()
                self._compile_ahead(view, found, self._statistics(view, found), reason=reason)

    def _statistics(self, view: Maintainer, sources: Sources) -> Statistics:
        """What the compiled program is chosen by; over streams it has to be the one that the interpreter runs."""
        return view.choice.statistics if sources.streams else self.measure(sources.tables)

    def _compile_ahead(
        self,
        view: Maintainer,
        sources: Sources,
        statistics: Statistics,
        draft: Draft | None = None,
        reason: str | None = None,
    ) -> None:
        task = self._tried(view.name, lambda: self._submit(view.declared, sources, statistics, draft, reason))
        if isinstance(task, str):
            view.describe(replace(view.choice, reason=task, may_change=False))
        else:
            view.describe(replace(view.choice, reason="it is being compiled", compilation=task))

    def _submit(
        self,
        declared: Declaration,
        sources: Sources,
        statistics: Statistics,
        draft: Draft | None,
        reason: str | None = None,
    ) -> Task[Choice]:
        """Begins to compile a view in the background."""
        dictionary, why = self.dictionary, reason or _many_rows()

        def build() -> Choice:
            own = draft or draft_for_auto(declared, sources, statistics)
            choice = build_compiled(declared, sources, statistics, dictionary, why, own, reads=True)
            logger.info("view %s: compiled in the background", declared.name)
            return choice

        elsewhere = kind_of(declared).compiles_elsewhere
        ahead = request(declared, sources.tables, statistics) if elsewhere else None
        return self._background.submit(Task(ahead, build))

    def move_if_ready(self, view: Maintainer) -> None:
        """Moves a view to the code that was compiled for it in the background, if that is done."""
        task = view.choice.compilation
        if task is None:
            return
        if task.is_done:
            if (obstacle := _must_stay(view)) is not None:
                view.describe(replace(view.choice, reason=obstacle))
            else:
                self._move(view, self.sources(view.declared), task.result)

    def _move(self, view: Maintainer, sources: Sources, compiled: Callable[[], Choice]) -> None:
        """Fills compiled code and lets it run the view; until then, or if that fails, nothing has changed."""
        before = view.choice
        view.describe(replace(before, compilation=None))  # code that an exception leaves half filled is not used again

        def filled() -> Choice:
            choice = compiled()
            if sources.streams:
                compiled_form(view.declared).migrate(before.engine, choice.engine)
                return choice
            return _filled(choice)

        with collecting_later(sources.size + sum(before.engine.stats()["stored"].values())):
            choice = self._tried(view.name, filled)
        if isinstance(choice, str):
            view.describe(replace(before, reason=choice, may_change=False, compilation=None))
        else:
            view.run_on(choice)
            self.moves += 1

    @staticmethod
    def _tried(view: str, attempt: Callable[[], T]) -> T | str:
        """What an attempt to compile comes to, or why it failed; whatever goes wrong, the interpreter can continue."""
        try:
            return attempt()
        except (LeftToInterpreterError, UnsupportedError, DataError) as error:
            return str(error)
        except Exception as error:
            logger.warning("view %s: compiling it failed, the interpreter continues", view, exc_info=True)
            return f"compiling it failed: {type(error).__name__}: {error}"

    @staticmethod
    def forget(view: Maintainer) -> None:
        """A view was dropped: its compilation is cancelled."""
        if (task := view.choice.compilation) is not None:
            task.cancel()

    def close(self) -> None:
        self._background.close()


def _filled(choice: Choice) -> Choice:
    """The view with the rows already there, whatever it held before."""
    choice.engine.load()
    return choice


def _many_rows() -> str:
    return f"there were more than {COMPILE_AFTER_ROWS:,} changed rows"


def _much_work() -> str:
    return f"the interpreter had worked on it for {COMPILE_AFTER_SECONDS:g} s"


def _must_stay(view: Maintainer) -> str | None:
    """Why a view stays on the interpreter."""
    return compiled_form(view.declared).stays(view.engine.plan, view.is_watched)


def check_engine(name: str) -> str:
    if not isinstance(name, str) or name not in ENGINES:
        raise UnsupportedError(f"connect(engine={described(name)})", f"use one of {', '.join(map(repr, ENGINES))}")
    return name


def _obstacle(declared: Declaration, sources: Sources) -> str | None:
    """Why `auto` will not compile a view, now or later."""
    form = kind_of(declared).compiled
    return f"{kind_of(declared).noun} has no compiled form" if form is None else form.obstacle(sources.tables)
