"""Higher-order incremental view maintenance: a query becomes a trigger program (thesis, Algorithms 3.1 and 3.2).

The result of a query is an expression over views. Each view has a delta for each table it reads; what a delta needs of
other tables is materialised as views in turn, each simpler than the one before, until only the change is needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from viewlet.algebra.delta import delta, nested_domain
from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, Rel, Sum, Value, Var, View, factors_of, is_constant
from viewlet.algebra.order import order
from viewlet.algebra.query import Query
from viewlet.algebra.scope import NONE, close_scopes, free_variables
from viewlet.algebra.simplify import simplify, simplify_monomials
from viewlet.algebra.traverse import Names, all_variables, atoms, relations, size
from viewlet.errors import InternalError
from viewlet.triggers.benefit import MIN_WASTE, Shape, ThriftyMaterializer, find_waste
from viewlet.triggers.catalogue import Catalogue, Entry
from viewlet.triggers.cost import program_cost
from viewlet.triggers.factorise import factorise
from viewlet.triggers.grouping import Grouping, by_components
from viewlet.triggers.hypergraph import cyclic_core
from viewlet.triggers.materialize import Materializer
from viewlet.triggers.program import Field, Pass, Program, Statement, Trigger, Update, ViewDefinition
from viewlet.triggers.statistics import UNKNOWN, Statistics
from viewlet.triggers.strategy import (
    GROUPINGS,
    LIMITS,
    UNLIMITED,
    Limits,
    Strategy,
    candidates,
    choose,
    deferred_candidates,
)
from viewlet.types import Table, TableKind

LARGE_DELTA, LARGE_SHARE = 8_000, 16
"""A delta of more nodes, and so many times those of its definition, is not worth it: a view is evaluated again instead.

The delta of a nested aggregate holds what it nests before the change and after it, which doubles with every level.
"""


def compile_query(
    name: str,
    query: Query,
    tables: Mapping[str, Table],
    strategy: str = "auto",
    statistics: Statistics = UNKNOWN,
    groupings: Mapping[Strategy, Grouping] = GROUPINGS,
    stored: bool = False,
    limits: Limits = UNLIMITED,
) -> Program:
    """The trigger program that maintains `query` under changes of the dynamic tables among `tables`.

    `auto` compiles each candidate and takes the cheapest; strategies over views that are not in `groupings` are none.
    If the result is to be `stored`, it is a sum of views, whatever it is made of. A program of any other strategy that
    exceeds `limits` is a `ProgramTooLargeError`.
    """
    asked = Strategy(strategy)
    programs = _compile_candidates(name, query, tables, asked, groupings, statistics.known, stored, limits)
    costs = [program_cost(program, tables, statistics) for program in programs]
    if asked is Strategy.AUTO and statistics.known and programs[0].strategy == Strategy.HIGHER_ORDER.value:
        waste = find_waste(programs[0], tables, statistics)
        if MIN_WASTE * costs[0].total < waste.cost and costs[0].total - waste.cost < min(c.total for c in costs[1:]):
            thriftier = without_views(programs[0], tables, waste.views, stored)
            cost = program_cost(thriftier, tables, statistics)
            if cost.total < costs[0].total:
                programs[0], costs[0] = thriftier, cost
    chosen = choose(costs, statistics.known) if asked is Strategy.AUTO else 0
    return replace(programs[chosen], costs=tuple(costs))


def _compile_candidates(
    name: str,
    query: Query,
    tables: Mapping[str, Table],
    asked: Strategy,
    groupings: Mapping[Strategy, Grouping],
    measured: bool,
    stored: bool,
    asked_limits: Limits,
) -> list[Program]:
    """The candidate programs; those that grow too large are abandoned, unless they were requested.

    Those that are not worth compiling for a query of this size are left out, unless there is no other.
    """
    programs: dict[Strategy, Program] = {}
    tried = candidates(asked, groupings)
    deferred = deferred_candidates(size(query.expr), measured)
    for each in (*(each for each in tried if each not in deferred), *(each for each in deferred if each in tried)):
        if each in deferred and programs:
            continue
        limits = LIMITS.get(each, UNLIMITED) if asked is Strategy.AUTO else asked_limits
        grouping = groupings.get(each, by_components)
        try:
            programs[each] = _Compilation(name, query, tables, each, grouping, limits=limits, stored=stored).run()
        except ProgramTooLargeError:
            if asked is not Strategy.AUTO:
                raise
    return [programs[each] for each in tried if each in programs]


class ProgramTooLargeError(Exception):
    """A program has more statements, or larger ones, than its compilation may make."""


def without_views(
    program: Program, tables: Mapping[str, Table], declined: frozenset[Shape], stored: bool = False
) -> Program:
    """The program compiled again, with the declined views evaluated where they are read."""
    strategy = Strategy(program.strategy)
    return _Compilation(program.name, program.query, tables, strategy, by_components, declined, stored=stored).run()


@dataclass(slots=True)
class _Compilation:
    name: str
    query: Query
    tables: Mapping[str, Table]
    strategy: Strategy
    grouping: Grouping
    declined: frozenset[Shape] = frozenset()
    limits: Limits = UNLIMITED
    stored: bool = False
    names: Names = field(init=False)
    materializer: Materializer = field(init=False)
    pending: list[tuple[Entry, Field]] = field(default_factory=list)
    statements: dict[tuple[str, str, bool], Statement] = field(default_factory=dict)
    replacements: dict[tuple[str, str], Expr] = field(default_factory=dict)
    """What is put in place of a field over base tables, whichever of them has changed."""
    passes: list[Pass] = field(default_factory=list)
    work: float = 0
    """Nodes of the expressions that went into the passes and came out of them."""

    def __post_init__(self) -> None:
        self.names = Names(var.name for var in all_variables(self.query.expr))
        catalogue = Catalogue(self.name, lambda entry, new: self.pending.append((entry, new)))
        self.materializer = ThriftyMaterializer(catalogue, self.tables, self.names, self.grouping, self.declined)

    def run(self) -> Program:
        closed = close_scopes(self.query.expr)
        self._trace("close scopes", self.name, self.query.expr, closed)
        result = order(self.materializer.root(closed, self.query.output, self.stored))
        self._trace("materialize result", self.name, closed, result)
        while self.pending:
            entry, new = self.pending.pop(0)
            for table in sorted(relations(new.definition)):
                if self.tables[table].is_dynamic:
                    self._maintain(entry, new, table)
                if len(self.statements) > self.limits.statements:
                    raise ProgramTooLargeError
            if not self.pending:
                self._complete_assignments()
        views = tuple(self._ordered_definition(entry) for entry in self.materializer.catalogue.entries)
        return Program(self.name, self.strategy.value, self.query, views, self._triggers(), result, tuple(self.passes))

    def _maintain(self, entry: Entry, new: Field, table: str) -> None:
        definition = new.definition
        if not isinstance(definition, Sum):
            raise InternalError("a view is defined by a Sum")
        if self._recomputes(definition) or needs_reevaluation(definition, table, self.names):
            self._change(entry, new, table, definition, replaces=True)
            return
        raw = delta(definition, table)
        if size(raw) > max(LARGE_DELTA, LARGE_SHARE * size(definition)):
            self._change(entry, new, table, definition, replaces=True)
            return
        change = simplify(raw, self.names)
        self._trace(f"delta {table}", f"{entry.name}.{new.name}", definition, change)
        if not is_constant(change, 0):
            self._change(entry, new, table, change, replaces=False)

    def _change(self, entry: Entry, new: Field, table: str, change: Expr, replaces: bool) -> None:
        """Emits the statement that adds a change of a field, or puts its definition in place of it."""
        same = (entry.name, new.name) if replaces and not self.strategy.makes_views else None
        ordered = self.replacements.get(same) if same is not None else None
        if ordered is None:
            ordered = self._ordered(entry, new, table, change, replaces)
        if same is not None:
            self.replacements[same] = ordered
        self._emit(table, entry, Update(new.name, ordered), replaces)

    def _ordered(self, entry: Entry, new: Field, table: str, change: Expr, replaces: bool) -> Expr:
        definition = new.definition
        assert isinstance(definition, Sum)
        expr = self._over_views(change, entry.keys, table, replaces, definition)
        self._trace("materialize", f"{entry.name}.{new.name}", change, expr)
        ordered = order(factorise(expr, entry.keys))
        self._trace("order", f"{entry.name}.{new.name}", expr, ordered)
        return ordered

    def _complete_assignments(self) -> None:
        """An assignment puts whole payloads in place: where one field of a view is assigned, all of them are."""
        entries = {entry.name: entry for entry in self.materializer.catalogue.entries}
        for table, view, replaces in list(self.statements):
            if replaces:
                assigned = {update.field for update in self.statements[table, view, True].updates}
                for each in list(entries[view].fields.values()):
                    if each.name not in assigned:
                        self._withdraw(table, entries[view], each)
                        self._change(entries[view], each, table, each.definition, replaces=True)

    def _withdraw(self, table: str, entry: Entry, incremented: Field) -> None:
        """Takes back the increment of one field."""
        key = (table, entry.name, False)
        statement = self.statements.pop(key, None)
        if statement is None:
            return
        updates = tuple(update for update in statement.updates if update.field != incremented.name)
        if updates:
            self.statements[key] = replace(statement, updates=updates)

    def _recomputes(self, definition: Sum) -> bool:
        """Under `recompute` every view is evaluated again but those over the rows of one stream.

        Sums of such a view are fields of one payload with its count. All of them are incremented: to assign some would
        empty the others.
        """
        match [factor for factor in factors_of(definition.body) if not isinstance(factor, Value)]:
            case [Rel(name, _)] if self.tables[name].kind is TableKind.STREAM:
                return False
            case _:
                return self.strategy is Strategy.RECOMPUTE

    def _over_views(self, change: Expr, keys: tuple[Var, ...], table: str, again: bool, definition: Sum) -> Expr:
        if not self.strategy.makes_views:
            simple = simplify(change if isinstance(change, Sum) else Sum(keys, change), self.names)
            return self.materializer.localize(simple, frozenset(keys))
        if again:
            return self.materializer.expression(
                change, keys, NONE, lambda factor: table in relations(factor) or moves_everywhere(factor)
            )
        return self.materializer.expression(
            change, keys, NONE, lambda factor: table in relations(factor), is_cyclic(definition)
        )

    def _emit(self, table: str, entry: Entry, update: Update, replaces: bool) -> None:
        key = (table, entry.name, replaces)
        before = self.statements.get(key)
        updates = (*(before.updates if before else ()), update)
        self.statements[key] = Statement(entry.name, entry.keys, updates, replaces)

    def _triggers(self) -> tuple[Trigger, ...]:
        tables = sorted({table for table, _, _ in self.statements})
        return tuple(
            Trigger(table, tuple(schedule(s for (t, _, _), s in self.statements.items() if t == table)))
            for table in tables
        )

    @staticmethod
    def _ordered_definition(entry: Entry) -> ViewDefinition:
        view = entry.definition()
        fields = tuple(Field(f.name, order(f.definition), f.is_float) for f in view.fields)
        return ViewDefinition(view.name, view.keys, fields)

    def _trace(self, name: str, subject: str, before: Expr, after: Expr) -> None:
        self.passes.append(Pass(name, subject, before, after))
        self.work += size(before) + size(after)
        if self.work > self.limits.work:
            raise ProgramTooLargeError


def needs_reevaluation(definition: Sum, table: str, names: Names) -> bool:
    """A nested aggregate changes with the table at keys the change does not tell (thesis, section 3.5).

    Then new minus old would evaluate the whole query twice; evaluating it once is better.
    """
    for monomial in simplify_monomials(definition, definition.keys, names):
        affected = [
            factor
            for factor in monomial.factors
            if isinstance(factor, Lift | Extremum | Exists) and table in relations(factor)
        ]
        if affected and is_constant(nested_domain(affected, table), 1):
            return True
    return False


def moves_everywhere(factor: Expr) -> bool:
    """Some change tells nothing of where the nested aggregate moves: a view of it would have to be re-evaluated."""
    return any(is_constant(nested_domain([factor], table), 1) for table in relations(factor))


def is_cyclic(definition: Sum) -> bool:
    """The join of the definition's atoms has a cycle."""
    return bool(cyclic_core([free_variables(atom) for atom in _flat_atoms(definition.body)]))


def _flat_atoms(expr: Expr) -> Iterable[Rel]:
    for factor in factors_of(expr):
        if isinstance(factor, Rel):
            yield factor


def schedule(statements: Iterable[Statement]) -> list[Statement]:
    """Increments, each view read before it is written, then assignments, each view written before it is read."""
    everything = list(statements)
    increments = [statement for statement in everything if not statement.replaces]
    assignments = [statement for statement in everything if statement.replaces]
    return _topological(increments, reverse=True) + _topological(assignments, reverse=False)


def _topological(statements: list[Statement], reverse: bool) -> list[Statement]:
    """Writers before readers (readers before writers if `reverse`); the order given where nothing decides."""
    reads = [_views_read(statement) - {statement.view} for statement in statements]
    readers: dict[str, list[int]] = defaultdict(list)
    writers: dict[str, list[int]] = defaultdict(list)
    for i, statement in enumerate(statements):
        writers[statement.view].append(i)
        for view in reads[i]:
            readers[view].append(i)
    if reverse:
        blocks = [[j for view in reads[i] for j in writers[view]] for i in range(len(statements))]
    else:
        blocks = [readers[statement.view] for statement in statements]
    blocked = Counter(j for each in blocks for j in each)
    remaining = dict.fromkeys(range(len(statements)))
    free = [i for i in remaining if not blocked[i]]
    placed: list[Statement] = []
    while remaining:
        chosen = heappop(free) if free else next(iter(remaining))
        del remaining[chosen]
        placed.append(statements[chosen])
        for j in blocks[chosen]:
            blocked[j] -= 1
            if not blocked[j] and j in remaining:
                heappush(free, j)
    return placed


def _views_read(statement: Statement) -> set[str]:
    return {atom.name for update in statement.updates for atom in atoms(update.expr) if isinstance(atom, View)}
