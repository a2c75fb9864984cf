"""Views in layers: a trigger program for each layer of a query, one over what the others tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.layered_query import LayeredQuery
from viewlet.algebra.query import Query
from viewlet.engine.contract import LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import DistributedForm, Hints, Step, Subject, Tables, ViewKind
from viewlet.engine.layered_engine import RESULT, LayeredEngine, LayeredPlan, with_layers
from viewlet.engine.parts import (
    build_told,
    compiled_parts,
    first_obstacle,
    first_wide_number,
    plan_part,
    program_stages,
    read_by,
    show_each,
)
from viewlet.engine.trigger_programs import (
    ON_SPARK,
    ONLY_THE_INTERPRETER,
    ProgramDraft,
    as_streams,
    draft_of,
    engine_on_spark,
    plan_on_spark,
    reason_on_spark,
    show_code,
)
from viewlet.engine.trigger_programs import stages as program_views_stages
from viewlet.engine.trigger_programs import unit_on_spark as unit_of_program
from viewlet.triggers.compose import compose
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.result_view import result_stores
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import Statistics
from viewlet.triggers.store import UndoLog
from viewlet.triggers.wide_numbers import wide_values

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.unit import ProgramUnit


def plan_layers(declared: Declaration, tables: Tables, statistics: Statistics) -> LayeredPlan:
    """A program for every layer, each by the strategy of the view."""
    query = _query_of(declared)
    known = {**tables, **{layer.table.name: layer.table for layer in query.layers}}
    layers = (plan_part(declared, layer.table.name, layer.query, known, statistics) for layer in query.layers)
    return LayeredPlan(query, tuple(layers), plan_part(declared, RESULT, query.result, known, statistics))


def _query_of(declared: Declaration) -> LayeredQuery:
    query = declared.definition
    assert isinstance(query, LayeredQuery)
    return query


def reference_engine(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """Everything on dictionaries; if `movable`, with the programs that generated code would run too."""
    tables = as_streams(sources.tables) if movable else sources.tables
    plan, own = plan_layers(declared, tables, statistics), UndoLog()
    read, rows = with_layers(sources, plan.query)
    *layers, result = (Interpreter(program, read.stores, own) for program in plan.programs.values())
    return LayeredEngine("interpreter", plan, layers, result, read.tables, rows, own)


@dataclass(frozen=True, slots=True)
class LayeredDraft:
    """The programs in source form; a layer whose code cannot tell its changes has none: it stays on the interpreter."""

    plan: LayeredPlan
    layers: tuple[ProgramDraft | None, ...]
    result: ProgramDraft

    @property
    def obstacle(self) -> str | None:
        wide = wide_values(layer.table for layer in self.plan.query.layers)
        return wide or first_obstacle(self._drafts)

    @property
    def is_cached(self) -> bool:
        return all(draft.is_cached for draft in self._drafts)

    @property
    def _drafts(self) -> list[ProgramDraft]:
        return [draft for draft in (*self.layers, self.result) if draft is not None]

    def build(self, sources: Sources, dictionary: StringDictionary, step: Step, reads: bool) -> LocalEngine:
        log = UndoLog()
        read, rows = with_layers(sources, self.plan.query)
        layers = [
            build_told(program, draft, _read_by(program, read), dictionary, step, log)
            for program, draft in zip(self.plan.layers, self.layers, strict=True)
        ]
        result = self.result.build(_read_by(self.plan.result, read), dictionary, step, reads)
        return LayeredEngine("compiled", self.plan, layers, result, read.tables, rows, log)


def _read_by(program: Program, sources: Sources) -> Sources:
    """The sources that a program reads: what it can be filled from depends on them alone."""
    tables = {name: table for name, table in sources.tables.items() if program.trigger(name) is not None}
    return Sources(tables, {name: sources.stores[name] for name in tables}, sources.has_past)


def draft_layers(declared: Declaration, tables: Tables, statistics: Statistics) -> LayeredDraft:
    streams = as_streams(tables)
    plan = plan_layers(declared, streams, statistics)
    known = {**streams, **{layer.table.name: layer.table for layer in plan.query.layers}}
    layers = tuple(draft_of(declared.name, each, known) if result_stores(each) else None for each in plan.layers)
    return LayeredDraft(plan, layers, draft_of(declared.name, plan.result, known))


def _stays(plan: LayeredPlan, watched: bool) -> str | None:
    """Numbers that need not fit words, or changes that the compiled engine would find by comparing results."""
    unknown = ONLY_THE_INTERPRETER if watched and not result_stores(plan.result) else None
    return first_wide_number(plan.programs.values()) or unknown


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> passes -> views -> triggers -> rows -> code, layer by layer; on Spark there is one program."""
    from viewlet.triggers.show_program import show_cost

    if isinstance(subject.plan, Program):
        return {**program_views_stages(subject), "code": lambda: _show_code(subject)}
    declared, programs = subject.declared, subject.plan.programs
    return {
        **program_stages(declared, programs),
        "cost": lambda: show_each(programs, lambda program: show_cost(program, declared.strategy)),
        "code": lambda: _show_code(subject),
        "engine": lambda: subject.engine,
    }


def _show_code(subject: Subject) -> str:
    """The triggers as the compiled engine would run them."""
    layers = {layer.table.name: layer.table for layer in _query_of(subject.over_tables).layers}
    statistics = subject.measure(as_streams(subject.tables))
    whole = replace(subject, tables={**subject.tables, **layers}, measure=lambda tables: statistics)
    return show_code(whole, lambda *given: plan_layers(*given).programs.values())


# -- on Spark ---------------------------------------------------------------------------------------------------------


def plan_layers_on_spark(declared: Declaration, tables: Tables) -> Program:
    """One program for all layers by one strategy, which is noted of the view: it has to lead to the same one again."""
    query = _query_of(declared)
    known = {**tables, **{layer.table.name: layer.table for layer in query.layers}}
    parts = [_Part(layer.table.name, layer.query, stored=True) for layer in query.layers]
    parts.append(_Part(RESULT, query.result, stored=False))
    programs = [_planned_part(declared, part, known) for part in parts]
    used = {program.strategy for program in programs}
    if len(used) > 1:
        thriftiest = next(strategy for strategy in reversed(ON_SPARK) if strategy in used)
        again = replace(declared, strategy=thriftiest)
        programs = [
            program if program.strategy == thriftiest else _planned_part(again, part, known)
            for part, program in zip(parts, programs, strict=True)
        ]
    *layers, result = programs
    composed = compose(list(zip((layer.table for layer in query.layers), layers, strict=True)), result)
    return replace(composed, name=declared.name)


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer or the result; the rows of a layer are `stored`."""

    name: str
    query: Query
    stored: bool


def _planned_part(declared: Declaration, part: _Part, tables: Tables) -> Program:
    from viewlet.spark.plan.table_views import tables_as_views

    mine = read_by(part.query, tables)
    whole = replace(declared, name=f"{declared.name}_{part.name}", query=part.query, definition=part.query)
    return tables_as_views(plan_on_spark(whole, mine, part.stored), mine)


def expression(declared: Declaration) -> Query:
    """The query over tables, with the layers in place of their names."""
    from viewlet.sql.inline import inline

    query, known = _query_of(declared), dict[str, Query]()
    for layer in query.layers:
        known[layer.table.name] = inline(layer.query, known)
    return inline(query.result, known)


def inline_views(declared: Declaration, views: Mapping[str, Query], tables: frozenset[str]) -> Declaration:
    from viewlet.sql.inline import inline

    query = _query_of(declared)
    layers = tuple(replace(layer, query=inline(layer.query, views)) for layer in query.layers)
    result = inline(query.result, views)
    return replace(declared, query=result, definition=LayeredQuery(layers, result), sources=tables)


def unit_on_spark(
    cluster: Cluster, declared: Declaration, tables: Tables, hints: Hints, facts: Mapping[str, Any]
) -> ProgramUnit:
    return unit_of_program(cluster, declared, tables, hints, facts, plan_layers_on_spark)


LAYERED_VIEWS = ViewKind(
    noun="a view in layers",
    accepts=lambda definition: isinstance(definition, LayeredQuery),
    plan=plan_layers,
    reference=reference_engine,
    compiled=compiled_parts(draft_layers, _stays),
    stages=stages,
    distributed=DistributedForm(
        plan_layers_on_spark, unit_on_spark, engine_on_spark, reason_on_spark, inline_views, expression
    ),
    summary=("sql", "algebra", "views", "triggers", "engine"),
)
