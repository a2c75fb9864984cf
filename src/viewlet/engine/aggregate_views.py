"""Views with user-defined aggregates: trigger programs around states that code of the user keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.algebra.aggregate_query import AggregateQuery
from viewlet.engine.aggregate_engine import AggregateEngine
from viewlet.engine.aggregate_plan import AggregatePlan
from viewlet.engine.aggregates_on_spark import ON_SPARK
from viewlet.engine.contract import LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Step, Subject, Tables, ViewKind
from viewlet.engine.parts import (
    build_told,
    compiled_parts,
    first_obstacle,
    first_wide_number,
    plan_part,
    program_stages,
    read_by,
)
from viewlet.engine.trigger_programs import ProgramDraft, as_streams, draft_of, plan_program, show_code
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.result_view import result_stores
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary


def plan_aggregates(declared: Declaration, tables: Tables, statistics: Statistics) -> AggregatePlan:
    """The programs of a view: its strategy is that of the programs over tables; the one over groups needs none."""
    query = declared.definition
    assert isinstance(query, AggregateQuery)
    values = plan_part(declared, "values", query.values, tables, statistics)
    groups = None if query.groups is None else plan_part(declared, "built_in", query.groups, tables, statistics)
    read = as_streams({**tables, query.table.name: query.table})
    whole = replace(declared, query=query.result, definition=query.result, strategy="auto")
    return AggregatePlan(query, values, groups, plan_program(whole, read_by(query.result, read), UNKNOWN))


def reference_engine(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """Everything on dictionaries; if `movable`, with the programs that generated code would run too."""
    tables = as_streams(sources.tables) if movable else sources.tables
    plan, own = plan_aggregates(declared, tables, statistics), UndoLog()
    values = Interpreter(plan.values, sources.stores, own)
    groups = None if plan.groups is None else Interpreter(plan.groups, sources.stores, own)
    return AggregateEngine("interpreter", plan, values, groups, sources, own)


@dataclass(frozen=True, slots=True)
class AggregateDraft:
    """The programs over tables in source form; where code cannot tell its changes, one stays on the interpreter."""

    plan: AggregatePlan
    values: ProgramDraft | None
    groups: ProgramDraft | None

    @property
    def obstacle(self) -> str | None:
        return first_obstacle(self._drafts)

    @property
    def is_cached(self) -> bool:
        return all(draft.is_cached for draft in self._drafts)

    @property
    def _drafts(self) -> list[ProgramDraft]:
        return [draft for draft in (self.values, self.groups) if draft is not None]

    def build(self, sources: Sources, dictionary: StringDictionary, step: Step, reads: bool) -> LocalEngine:
        log = UndoLog()
        values = build_told(self.plan.values, self.values, sources, dictionary, step, log)
        groups = None if self.groups is None else self.groups.build(sources, dictionary, step, reads)
        return AggregateEngine("compiled", self.plan, values, groups, sources, log)


def draft_aggregates(declared: Declaration, tables: Tables, statistics: Statistics) -> AggregateDraft:
    """The code of the programs over tables; the one over groups stays on the interpreter."""
    streams = as_streams(tables)
    plan = plan_aggregates(declared, streams, statistics)
    values = draft_of(declared.name, plan.values, streams) if result_stores(plan.values) else None
    groups = None if plan.groups is None else draft_of(declared.name, plan.groups, streams)
    return AggregateDraft(plan, values, groups)


def _stays(plan: AggregatePlan, watched: bool) -> str | None:
    """Numbers that need not fit words."""
    return first_wide_number(_over_tables(plan))


def _over_tables(plan: AggregatePlan) -> list[Program]:
    return [program for program in (plan.values, plan.groups) if program is not None]


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> views -> triggers -> states -> code, part by part."""
    plan = subject.plan
    return {
        **program_stages(subject.declared, plan.programs),
        "states": lambda: _show_states(plan.query),
        "code": lambda: show_code(subject, lambda *given: _over_tables(plan_aggregates(*given))),
        "engine": lambda: subject.engine,
    }


def _show_states(query: AggregateQuery) -> str:
    """What is kept for every group: the number of its rows, and a state for each call."""
    columns = query.values.columns
    keys = ", ".join(column.name for column in columns[: query.keys])
    lines = [f"[{keys}]: rows of the group"]
    for call in query.calls:
        values = ", ".join(columns[position].name for position in call.positions)
        deletes = "deletes are taken out of it" if call.aggregate.removes else "deletes are refused"
        lines.append(f"[{keys}]: {call.aggregate}, of {values}; {deletes}")
    return "\n".join(lines)


AGGREGATE_VIEWS = ViewKind(
    noun="a view with a user-defined aggregate",
    accepts=lambda definition: isinstance(definition, AggregateQuery),
    plan=plan_aggregates,
    reference=reference_engine,
    compiled=compiled_parts(draft_aggregates, _stays),
    distributed=ON_SPARK,
    stages=stages,
    summary=("sql", "algebra", "views", "triggers", "states", "engine"),
    compiles_elsewhere=False,
)
