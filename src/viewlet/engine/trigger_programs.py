"""Views that are SQL queries: kept by trigger programs, on the interpreter or on generated code.

Nothing here reads or changes a database, so that a thread, or a second process, can do it ahead of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.query import Query
from viewlet.engine.contract import Engine, LocalEngine, Stages
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import CompiledForm, DistributedForm, Hints, ResultForm, Step, Subject, Tables, ViewKind
from viewlet.errors import InternalError, UnsupportedError
from viewlet.triggers.interpreter import Interpreter
from viewlet.triggers.program import Program
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.store import UndoLog
from viewlet.triggers.strategy import LIMITS, UNLIMITED, Limits, Strategy
from viewlet.triggers.wide_numbers import wide_numbers, wide_values
from viewlet.types import Table, TableKind

if TYPE_CHECKING:
    from viewlet.changes.word_codec import Codes
    from viewlet.codegen.module import Module
    from viewlet.codegen.view import CompiledView
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.spark.run.engine import Engine as Cluster
    from viewlet.spark.run.units.unit import ProgramUnit
    from viewlet.spark.run.units.unit_reading import UnitReading
    from viewlet.spark.run.views.unit_view import ProgramView
    from viewlet.sqlgen.bulk_load import ProgramLoad

ON_SPARK = {
    "higher-order": LIMITS[Strategy.HIGHER_ORDER],
    "view-tree": LIMITS[Strategy.VIEW_TREE],
    "first-order": UNLIMITED,
}
"""The strategies of `auto` on Spark, each with the size beyond which the next one is taken.

View trees keep less, but their batches may need more stages: where sizes are known, the first two are compared.
"""
AUTO = Strategy.AUTO.value
READS_TABLES = ("first-order", "recompute")
MOST_CODE = 600_000
"""Characters of generated code that `auto` compiles: Numba takes a minute for 400,000, and gigabytes for 700,000."""
ONLY_THE_INTERPRETER = "its changes are wanted after every batch, and only the interpreter knows them"


def plan_program(
    declared: Declaration, tables: Tables, statistics: Statistics, stored: bool = False, limits: Limits = UNLIMITED
) -> Program:
    """The trigger program of a view over tables and streams."""
    from viewlet.triggers.plan import plan_query

    return plan_query(declared.name, declared.query, tables, declared.strategy, statistics, stored, limits)


def as_streams(tables: Tables) -> dict[str, Table]:
    """The compiled engine reads no base tables: its program is the one for streams, whatever the tables are."""
    return {name: replace(table, kind=TableKind.STREAM) for name, table in tables.items()}


def interpreted(
    declared: Declaration, sources: Sources, statistics: Statistics, log: UndoLog, movable: bool
) -> LocalEngine:
    """The interpreter; if `movable`, its program is the one that the compiled engine would run too."""
    tables = as_streams(sources.tables) if movable else sources.tables
    return Interpreter(plan_program(declared, tables, statistics), sources.stores, log)


def large_code(source: str) -> str | None:
    """Why code is not compiled unless somebody asks for it."""
    if len(source) <= MOST_CODE:
        return None
    return (
        f"its code has {len(source):,} characters, more than {MOST_CODE:,}: compiling it would take minutes "
        "(connect(engine='compiled') does it all the same)"
    )


@dataclass(frozen=True, slots=True)
class ProgramDraft:
    """A trigger program and its module in source form."""

    program: Program
    tables: Mapping[str, Table]
    module: Module

    @property
    def obstacle(self) -> str | None:
        return wide_numbers(self.program) or large_code(self.module.generated.source)

    @property
    def is_cached(self) -> bool:
        """Numba has compiled all triggers before."""
        from viewlet.codegen.module_cache import is_cached, load_source
        from viewlet.runtime.jit import ENABLED

        if not ENABLED:
            return True

        code = load_source(self.module.generated.source)
        functions = [*self.module.triggers.values(), *(f for many in self.module.refreshes.values() for f in many)]
        return all(is_cached(code, function.name) for function in functions)

    def build(self, sources: Sources, dictionary: StringDictionary, step: Step, reads: bool) -> CompiledView:
        from viewlet.codegen.view import CompiledView

        return CompiledView(self.program, self.tables, dictionary, sources, step, self.module, reads)


def draft_program(declared: Declaration, tables: Tables, statistics: Statistics) -> ProgramDraft:
    """The code of a view over tables and streams."""
    streams = as_streams(tables)
    return draft_of(declared.name, plan_program(declared, streams, statistics), streams)


def draft_of(view: str, program: Program, streams: Tables) -> ProgramDraft:
    """The code of a program that belongs to a view."""
    from viewlet.codegen.module import write_module
    from viewlet.codegen.not_compilable import NotCompilable

    try:
        return ProgramDraft(program, streams, write_module(program, streams))
    except NotCompilable as error:
        hint = f"view {view!r} runs with connect(engine='interpreter') or 'auto'"
        raise UnsupportedError(f"{error} in the compiled engine", hint, "engine") from error


def _stays(program: Program, watched: bool) -> str | None:
    """Numbers that need not fit words, or changes that the compiled engine would find by comparing results."""
    if (wide := wide_numbers(program)) is not None:
        return wide
    from viewlet.triggers.result_view import result_stores

    return ONLY_THE_INTERPRETER if watched and not result_stores(program) else None


def migrate(reference: Interpreter, successor: Interpreter | CompiledView) -> None:
    """Gives an engine what the interpreter holds of the same program."""
    if successor.plan.views != reference.plan.views:
        raise InternalError("the engines do not keep the same views")
    successor.take_over({name: reference.own_store(name) for name in reference.stores})


def bulk_load(engine: Interpreter, sources: Sources, dictionary: Codes | None) -> ProgramLoad | None:
    """DuckDB evaluates the definitions of the stored views, if SQL can say what they hold."""
    from viewlet.sqlgen.bulk_load import ProgramLoad, plan_load

    plan = plan_load(engine.plan, sources.tables)
    return None if plan is None else ProgramLoad(engine, plan, sources, dictionary)


def stages(subject: Subject) -> Stages:
    """sql -> algebra -> passes -> views -> triggers -> rows -> code, and what it costs, runs on and looks like."""
    from viewlet.triggers.program_tree import show_program_tree
    from viewlet.triggers.show_program import show_algebra, show_cost, show_passes, show_rows, show_triggers, show_views

    declared, program = subject.declared, subject.plan
    found: dict[str, Callable[[], str]] = {
        "sql": lambda: declared.sql,
        "algebra": lambda: show_algebra(declared.query),
        "passes": lambda: show_passes(program),
        "views": lambda: show_views(program),
        "triggers": lambda: show_triggers(program),
        "rows": lambda: show_rows(program),
        "cost": lambda: show_cost(program, declared.strategy),
        "code": lambda: show_code(subject, lambda *given: [plan_program(*given)]),
        "engine": lambda: subject.engine,
        "view-tree": lambda: show_program_tree(program, subject.format),
    }
    return found


def show_code(subject: Subject, plan: Callable[[Declaration, Tables, Statistics], Iterable[Program]]) -> str:
    """The triggers of the planned programs as the compiled engine would run them."""
    from viewlet.codegen.module import write_module
    from viewlet.codegen.not_compilable import NotCompilable

    tables = as_streams(subject.tables)
    programs = plan(subject.over_tables, tables, subject.measure(tables))
    try:
        return "\n\n".join(write_module(program, tables).generated.source for program in programs)
    except NotCompilable as error:
        return f"no compiled form: {error}"


# -- on Spark ---------------------------------------------------------------------------------------------------------


def plan_on_spark(declared: Declaration, tables: Tables, stored: bool = False) -> Program:
    """The trigger program of a view on Spark: no base table is kept for it, unless the strategy says so.

    If its result is to be `stored`, it is a sum of views. `auto` takes the first strategy with a small enough program.
    """
    if declared.strategy != AUTO:
        return _planned_on_spark(declared, tables, declared.strategy, stored, UNLIMITED)
    found = (_if_small(declared, tables, strategy, stored) for strategy in ON_SPARK)
    return next(program for program in found if program is not None)


def _if_small(declared: Declaration, tables: Tables, strategy: str, stored: bool) -> Program | None:
    from viewlet.triggers.compiler import ProgramTooLargeError

    try:
        return _planned_on_spark(declared, tables, strategy, stored, ON_SPARK.get(strategy, UNLIMITED))
    except ProgramTooLargeError:
        return None


def _planned_on_spark(declared: Declaration, tables: Tables, strategy: str, stored: bool, limits: Limits) -> Program:
    kind = TableKind.TABLE if strategy in READS_TABLES else TableKind.STREAM
    sources = {name: replace(table, kind=kind) for name, table in tables.items()}
    return plan_program(replace(declared, strategy=strategy), sources, UNKNOWN, stored, limits)


def unit_on_spark(
    cluster: Cluster,
    declared: Declaration,
    tables: Tables,
    hints: Hints,
    facts: Mapping[str, Any],
    plan: Callable[[Declaration, Tables], Program] = plan_on_spark,
) -> ProgramUnit:
    """The unit of a view with the program that `plan` makes.

    One that continues has the strategy that was chosen when it was declared.
    """
    from viewlet.spark.plan.partitioning import result_partitioning
    from viewlet.spark.plan.strategy import is_measured
    from viewlet.spark.run.units.unit import STRATEGY

    chosen = declared
    if declared.strategy == AUTO and facts:
        chosen = replace(declared, strategy=facts.get(STRATEGY, "higher-order"))
    programs = [plan(chosen, tables)]
    if chosen.strategy == AUTO and programs[0].strategy == "higher-order" and is_measured(tables, hints.rows):
        programs.append(plan(replace(declared, strategy="view-tree"), tables))
    wanted = [{**hints.partition_by, **result_partitioning(each, declared.partition_by)} for each in programs]
    return cluster.unit(programs, tables, hints.rows, wanted, facts)


def engine_on_spark(cluster: Cluster, unit: ProgramUnit, declared: Declaration) -> Engine:
    """What reads the unit's own query; its plan is the part of the program that the query takes."""
    from viewlet.spark.run.views.unit_view import ProgramView
    from viewlet.triggers.merge import only_for_result

    return ProgramView(cluster, unit, only_for_result(unit.program))


def readings_on_spark(units: Iterable[ProgramUnit], declared: Declaration, tables: Tables) -> Iterator[UnitReading]:
    """How a view is read from units whose stored views are enough for it.

    The view is planned with the strategy of the unit, if it leaves the choice.
    """
    from viewlet.spark.plan.table_views import tables_as_views
    from viewlet.spark.run.units.unit_reading import UnitReading
    from viewlet.triggers.view_shapes import WantedResult, wanted_result

    planned: dict[str, WantedResult | None] = {}
    for unit in units:
        strategy = unit.program.strategy
        if declared.strategy not in (AUTO, strategy):
            continue
        if strategy not in planned:
            program = _if_small(declared, tables, strategy, stored=False)
            planned[strategy] = None if program is None else wanted_result(tables_as_views(program, tables))
        wanted = planned[strategy]
        found = None if wanted is None else unit.by_shape.result_of(wanted)
        if found is not None:
            yield UnitReading(unit, found)


def reader_on_spark(cluster: Cluster, reading: UnitReading) -> ProgramView:
    from viewlet.spark.run.views.unit_view import ProgramView
    from viewlet.triggers.merge import only_for_result

    unit, program = reading.unit, reading.program
    return ProgramView(cluster, unit, only_for_result(program), cluster.add_result(unit.name, program))


def reason_on_spark(cluster: Cluster, unit: ProgramUnit) -> str:
    return f"{cluster.partitions} partitions"


def inline_views(declared: Declaration, views: Mapping[str, Query], tables: frozenset[str]) -> Declaration:
    from viewlet.sql.inline import inline

    query = inline(declared.query, views)
    return replace(declared, query=query, definition=query, sources=tables)


TRIGGER_PROGRAMS = ViewKind(
    noun="a view",
    accepts=lambda definition: isinstance(definition, Query),
    plan=plan_program,
    reference=interpreted,
    compiled=CompiledForm(draft_program, lambda tables: wide_values(tables.values()), _stays, migrate),
    distributed=DistributedForm(
        plan_on_spark,
        unit_on_spark,
        engine_on_spark,
        reason_on_spark,
        inline_views,
        lambda declared: declared.query,
        ResultForm(readings_on_spark, reader_on_spark),
    ),
    bulk_load=bulk_load,
    stages=stages,
    summary=("sql", "algebra", "views", "triggers", "engine"),
)
