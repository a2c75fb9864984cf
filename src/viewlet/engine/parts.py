"""Engines that are made of other engines: what is the same for all of them.

Each part is an ordinary trigger program, on the interpreter or on generated code. Some only tell their changes to the
parts after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from viewlet.algebra.query import Query
from viewlet.algebra.traverse import relations
from viewlet.engine.contract import LocalEngine, ReadsColumns
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import CompiledForm, Draft, Step, Tables
from viewlet.engine.trigger_programs import ProgramDraft, plan_program
from viewlet.errors import InternalError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.saved_state import Item, StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import UndoLog
from viewlet.triggers.wide_numbers import wide_numbers, wide_values
from viewlet.types import Row

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary


class DeltaEngine(LocalEngine, Protocol):
    """An engine that need not hold the rows of its view: it tells how they change."""

    def forget_rows(self) -> None:
        """Empties the view, if its changes are known without its rows; may be done again after an exception."""


def told_change(part: DeltaEngine) -> Mapping[Row, int]:
    """How the rows of a part that is watched have changed, at the end of a batch."""
    change = part.finish()
    if change is None:
        raise InternalError(f"{part.plan.name} does not tell its changes")
    return change


def plan_part(declared: Declaration, part: str, query: Query, tables: Tables, statistics: Statistics) -> Program:
    """The program of one query that a view is made of, by the strategy of the view."""
    own = replace(declared, name=f"{declared.name}_{part}", query=query, definition=query)
    return plan_program(own, read_by(query, tables), statistics)


def read_by(query: Query, tables: Tables) -> Tables:
    return {name: table for name, table in tables.items() if name in relations(query.expr)}


def columns_used(readers: Iterable[object], table: str) -> tuple[int, ...] | None:
    """The columns of a table that some parts read; None if one of them takes rows."""
    used: set[int] = set()
    for part in readers:
        columns = part.columns_used(table) if isinstance(part, ReadsColumns) else None
        if columns is None:
            return None
        used.update(columns)
    return tuple(sorted(used))


def stored_sizes(parts: Iterable[Any]) -> dict[str, int]:
    """Rows of each view that the parts store."""
    return {name: size for part in parts for name, size in part.stats()["stored"].items()}


def first_obstacle(drafts: Iterable[ProgramDraft]) -> str | None:
    """Why one of some programs has no compiled form."""
    return next((draft.obstacle for draft in drafts if draft.obstacle is not None), None)


def first_wide_number(programs: Iterable[Program]) -> str | None:
    """Why one of some programs should stay on the interpreter: its numbers need not fit words."""
    return next((wide for program in programs if (wide := wide_numbers(program)) is not None), None)


def build_told(
    program: Program,
    draft: ProgramDraft | None,
    sources: Sources,
    dictionary: StringDictionary,
    step: Step,
    log: UndoLog,
) -> DeltaEngine:
    """The engine of a part whose changes are told: the interpreter where code cannot tell them, and has no draft."""
    if draft is None:
        return Interpreter(program, sources.stores, log)
    return draft.build(sources, dictionary, step, False)


def compiled_parts(
    draft: Callable[[Declaration, Tables, Statistics], Draft], stays: Callable[[Any, bool], str | None]
) -> CompiledForm:
    """The compiled form of a kind whose engines take over the states of their parts."""
    return CompiledForm(
        draft,
        obstacle=lambda tables: wide_values(tables.values()),
        stays=stays,
        migrate=lambda reference, compiled: compiled.take_over(reference),
    )


def program_stages(declared: Declaration, programs: Mapping[str, Program]) -> dict[str, Callable[[], str]]:
    """The stages that every trigger program has, part by part."""
    from viewlet.triggers.show_program import show_algebra, show_passes, show_rows, show_triggers, show_views

    return {
        "sql": lambda: declared.sql,
        "algebra": lambda: show_each(programs, lambda program: show_algebra(program.query)),
        "passes": lambda: show_each(programs, show_passes),
        "views": lambda: show_each(programs, show_views),
        "triggers": lambda: show_each(programs, show_triggers),
        "rows": lambda: show_each(programs, show_rows),
    }


def show_each(programs: Mapping[str, Program], show: Callable[[Program], str]) -> str:
    """A stage of every program, each below the name of its part."""
    shown = ((part, show(program).replace("\n", "\n    ")) for part, program in programs.items())
    return "\n".join(f"{part}:\n    {text}" if text else f"{part}:" for part, text in shown)


@dataclass(frozen=True, slots=True)
class Section:
    """A writer for one part of an engine (see `StateWriter`)."""

    name: str
    writer: StateWriter

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        self.writer.rows(f"{self.name} {part}", items, arity, width)

    def words(self, part: str, words: Any) -> None:
        self.writer.words(f"{self.name} {part}", words)


@dataclass(frozen=True, slots=True)
class SavedSection:
    """The state of one part of an engine in a snapshot, to be read (see `StateReader`)."""

    name: str
    reader: StateReader

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return self.reader.rows(f"{self.name} {part}", arity)

    def words(self, part: str) -> Any:
        return self.reader.words(f"{self.name} {part}")
