"""Statements of batches as generated code: what a partition runs when a program is distributed.

A trigger visits the rows of a change one by one. A statement here is evaluated once for a whole batch; its changes and
temporaries are stores like any other. An increment is collected in a scratch store first, which can be emptied and
enlarged until everything fits. Then it is added to its view, whose capacity has been reserved.

    def compute_3(state, control): ...                  # scratch := what statement 3 adds to its view
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewlet.algebra.nodes import Add, Delta, Exists, Expr, Extremum, Lift, Neg, Sum, Var, View
from viewlet.algebra.order import order
from viewlet.algebra.recursion import headroom_for
from viewlet.algebra.scope import NONE
from viewlet.algebra.traverse import mentioned, rebuild, walk
from viewlet.codegen.lines import Lines
from viewlet.codegen.module_writer import Function, GeneratedModule, ModuleWriter, layout_of
from viewlet.codegen.names import hint
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.result import write_result
from viewlet.runtime.flat import WIDTHS, Layout
from viewlet.triggers.program import COUNT_FIELD, Program, Statement, Update, ViewDefinition
from viewlet.triggers.result_view import result_store


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The statements of one plan in execution order, and the stores that live for one batch."""

    name: str
    statements: tuple[Statement, ...]
    temporaries: Mapping[str, ViewDefinition]
    moves: tuple[tuple[str, str], ...] = ()
    """Temporaries whose contents are those of others: (target, source)."""


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """The contents of a store as rows of another: for each word the one it is copied from."""

    source: str
    words: tuple[int | None, ...]
    """None is a number that stays zero."""


@dataclass(frozen=True, slots=True)
class Computation:
    """The function of one statement: its output store, and its other requirements."""

    function: str
    into: str
    target: str
    scratches: tuple[str, ...]
    replaces: bool
    lasts: bool
    """The target is a view, and not a temporary."""
    copied: StoreCopy | None = None
    """What it adds, if that is what another store has: no function is needed."""


@dataclass(frozen=True, slots=True)
class BlockModule:
    """The module of the blocks of a program: a function for every statement of every plan."""

    generated: GeneratedModule
    computations: Mapping[tuple[str, int], Computation]
    """By plan and position of the statement."""
    keys: Mapping[str, tuple[Var, ...]]
    changes: Mapping[str, str]
    """The stores of the changes of tables."""
    temporaries: Mapping[tuple[str, str], str]
    """The stores of temporaries, by plan and name: plans may give the same name to different ones."""
    delta_columns: Mapping[str, tuple[int, ...]]
    """Which columns of a changed table are kept of a change."""
    shown: str | None = None
    """The view whose rows make the result, each on its own, if there is one."""


def write_blocks(program: Program, plans: Sequence[BlockPlan]) -> BlockModule:
    """One module for all plans of a program, so that a view has the indexes that any of them needs."""
    updates = [update for plan in plans for statement in plan.statements for update in statement.updates]
    exprs = [*(update.expr for update in updates), program.result]
    with headroom_for(exprs):
        return _BlockWriter(program, plans, ModuleWriter(exprs)).write()


@dataclass(slots=True)
class _BlockWriter:
    program: Program
    plans: Sequence[BlockPlan]
    module: ModuleWriter
    layouts: dict[str, Layout] = field(default_factory=dict)
    keys: dict[str, tuple[Var, ...]] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    temporaries: dict[tuple[str, str], str] = field(default_factory=dict)
    gathering: dict[str, Layout] = field(default_factory=dict)
    """The scratch stores that gather what is added to each store."""
    computations: dict[tuple[str, int], Computation] = field(default_factory=dict)

    def write(self) -> BlockModule:
        used = _columns_used(self.plans)
        delta_columns = {table: columns for table, (columns, _) in used.items()}
        for view in self.program.views:
            self._declare(view.name, view.keys, layout_of(view))
        for table, (columns, variables) in used.items():
            store = self.changes[table] = f"Δ{table}"
            self._declare(store, variables, _transient(store, len(columns), (COUNT_FIELD,), ("count",)))
        for plan in self.plans:
            self.temporaries |= {(plan.name, name): f"{plan.name}/{name}" for name in plan.temporaries}
        for plan in self.plans:
            self._plan(plan, delta_columns)
        result = self._result()
        scanned, totalled = self._scanned(), self._brought_together(totalled=True)
        for store in self._read_in_turn():
            is_scanned = store in scanned
            may_repeat = not is_scanned and store not in totalled
            self.layouts[store] = replace(self.layouts[store], scanned=is_scanned, may_repeat=may_repeat)
        final = self.module.requests.layouts(self.layouts)
        generated = self.module.module(f"Statements of {hint(self.program.name)}", final, result)
        shown = result_store(self.program)
        stores = (self.keys, self.changes, self.temporaries)
        return BlockModule(generated, self.computations, *stores, delta_columns, shown)

    def _declare(self, store: str, keys: tuple[Var, ...], layout: Layout) -> None:
        if store in self.layouts:
            raise NotCompilable(f"two stores called {store!r}")
        self.layouts[store] = layout
        self.keys[store] = keys

    def _plan(self, plan: BlockPlan, columns: Mapping[str, tuple[int, ...]]) -> None:
        sources = dict(plan.moves)
        for i, statement in enumerate(plan.statements):
            self._settle(plan, statement.updates, sources)
            updates = tuple(
                Update(update.field, order(self._over_stores(update.expr, plan, columns)))
                for update in statement.updates
            )
            own = replace(statement, updates=updates)
            target = self.temporaries.get((plan.name, statement.view), statement.view)
            if target not in self.layouts:
                self._temporary(plan, statement.view, updates)
            self.computations[plan.name, i] = self._compute(
                self.module.names.function("compute", plan.name, i), own, target
            )
        for name in plan.temporaries:
            if self.temporaries[plan.name, name] not in self.layouts:
                self._moved(plan, name, sources)

    def _over_stores(self, expr: Expr, plan: BlockPlan, columns: Mapping[str, tuple[int, ...]]) -> Expr:
        """The expression with changes and temporaries as the stores they are in."""

        def go(node: Expr) -> Expr:
            match node:
                case Delta(table, args):
                    return View(self.changes[table], COUNT_FIELD, tuple(args[i] for i in columns[table]))
                case View(name, field, args) if name in plan.temporaries:
                    return View(self.temporaries[plan.name, name], field, args)
            return rebuild(node, go)

        return go(expr)

    def _settle(self, plan: BlockPlan, updates: Sequence[Update], sources: Mapping[str, str]) -> None:
        """Declares the temporaries that are read and came from elsewhere."""
        read = {node.name for update in updates for node in walk(update.expr) if isinstance(node, View)}
        for name in plan.temporaries:
            if name in read and self.temporaries[plan.name, name] not in self.layouts:
                self._moved(plan, name, sources)

    def _moved(self, plan: BlockPlan, name: str, sources: Mapping[str, str]) -> None:
        """A temporary with the contents of another has numbers of the same kinds."""
        view, store = plan.temporaries[name], self.temporaries[plan.name, name]
        source = self.layouts.get(self.temporaries[plan.name, sources[name]]) if name in sources else None
        fields = tuple(f.name for f in view.fields)
        kinds = source.kinds if source is not None else tuple("double" if f.is_float else "wide" for f in view.fields)
        self._declare(store, view.keys, _transient(store, len(view.keys), fields, kinds))

    def _temporary(self, plan: BlockPlan, name: str, updates: Sequence[Update]) -> None:
        """A temporary whose numbers are of the kinds of what it sums."""
        view, store = plan.temporaries[name], self.temporaries[plan.name, name]
        writer = self.module.products(Lines(), self.layouts)
        kinds = {update.field: writer.kind_of(update.expr) for update in updates}
        known = tuple("double" if f.is_float else kinds.get(f.name, "wide") for f in view.fields)
        fields = tuple(f.name for f in view.fields)
        self._declare(store, view.keys, _transient(store, len(view.keys), fields, known))

    def _scanned(self) -> list[str]:
        """The changes and arriving temporaries that code only reads row by row, adding up what it makes of each row.

        They need no index, and rows with the same key need not be brought together.
        """
        brought_together = self._brought_together()
        return [store for store in self._read_in_turn() if store not in brought_together]

    def _read_in_turn(self) -> list[str]:
        """The changes and arriving temporaries that code reads row by row, and never by their keys."""
        computed = {computation.target for computation in self.computations.values()}
        arriving = [*self.changes.values(), *self.temporaries.values()]
        return [
            store
            for store in arriving
            if self.layouts[store].arity and store not in computed and not self.module.looks_up(store)
        ]

    def _brought_together(self, totalled: bool = False) -> set[str]:
        """Stores with rows that are joined, where each takes time, or totalled before something is done with it.

        With `totalled`, only the latter.
        """
        found: set[str] = set()
        for plan in self.plans:
            for update in (update for statement in plan.statements for update in statement.updates):
                for term in _terms(update.expr):
                    nodes = list(walk(term))
                    atoms = [node for node in nodes if isinstance(node, Delta | View)]
                    joined = len(atoms) > 1 and not totalled
                    if joined or any(isinstance(node, Lift | Exists | Extremum) for node in nodes):
                        found |= {self._store_of(atom, plan) for atom in atoms}
        return found

    def _store_of(self, atom: Delta | View, plan: BlockPlan) -> str:
        if isinstance(atom, Delta):
            return self.changes[atom.name]
        return self.temporaries.get((plan.name, atom.name), atom.name)

    # Functions

    def _result(self) -> Function | None:
        if result_store(self.program) is None:
            return None
        products = self.module.products(Lines(depth=1), self.layouts)
        return write_result(self.program, self.module, products, selects=False)

    def _compute(self, function: str, statement: Statement, target: str) -> Computation:
        layout = self.layouts[target]
        into = layout if statement.replaces else self._gathering(layout)
        if (copied := self._copied(statement, layout)) is not None:
            return Computation("", into.name, target, (), False, target == statement.view, copied)
        lines = Lines(depth=1)
        writer = self.module.products(lines, self.layouts)
        scratches = self.module.statement(writer, into, statement, NONE)
        self.module.function(function, (), lines.text() + "    return control[FULL]\n")
        return Computation(function, into.name, target, scratches, statement.replaces, target == statement.view)

    def _copied(self, statement: Statement, layout: Layout) -> StoreCopy | None:
        """What a statement adds, if every number of a row of one store goes to the row with the same key."""
        read = [update.expr for update in statement.updates]
        first = read[0]
        if statement.replaces or not layout.arity or not isinstance(first, View) or first.name not in self.layouts:
            return None
        source = self.layouts[first.name]
        args, fields = first.args, {update.field: update.expr for update in statement.updates}
        if len(set(args)) < len(args) or set(args) != set(statement.args) or len(args) != len(statement.args):
            return None
        words: list[int | None] = [args.index(arg) for arg in statement.args]
        for name, kind in zip(layout.fields, layout.kinds, strict=True):
            expr = fields.pop(name, None)
            if expr is None:
                words += [None] * WIDTHS[kind]
                continue
            same_row = isinstance(expr, View) and (expr.name, expr.args) == (first.name, args)
            if not isinstance(expr, View) or not same_row or source.kind(expr.field) != kind:
                return None
            at = source.offset(expr.field)
            words += range(at, at + WIDTHS[kind])
        return StoreCopy(first.name, tuple(words)) if not fields else None

    def _gathering(self, layout: Layout) -> Layout:
        """The scratch store in which what is added to a store is gathered."""
        if layout.name not in self.gathering:
            gathering = replace(
                layout, name=f"scratch of {layout.name}", slices=(), ordered=(), transient=True, scratch=True
            )
            self.gathering[layout.name] = self.module.requests.add_scratch(gathering)
        return self.gathering[layout.name]


def _terms(expr: Expr) -> Sequence[Expr]:
    """What an expression adds up, without the sums around it."""
    match expr:
        case Sum(_, body) | Neg(body):
            return _terms(body)
        case Add(terms):
            return [part for term in terms for part in _terms(term)]
    return (expr,)


def _transient(store: str, arity: int, fields: tuple[str, ...], kinds: tuple[str, ...]) -> Layout:
    """A store of changes: a count of zero says nothing of the sums beside it."""
    return Layout(store, arity, fields, kinds, transient=True)


def _columns_used(plans: Sequence[BlockPlan]) -> dict[str, tuple[tuple[int, ...], tuple[Var, ...]]]:
    """The columns of each changed table that some statement does more with than sum over, and variables for them."""
    used: dict[str, dict[int, Var]] = {}
    for statement in (statement for plan in plans for statement in plan.statements):
        for update in statement.updates:
            for node in walk(update.expr):
                if isinstance(node, Delta):
                    known = used.setdefault(node.name, {})
                    elsewhere = Counter(var for part in walk(update.expr) for var in mentioned(part))
                    elsewhere.update(statement.args)
                    known |= {i: arg for i, arg in enumerate(node.args) if elsewhere[arg] > 1 and i not in known}
    return {
        table: (tuple(sorted(known)), tuple(known[i] for i in sorted(known))) for table, known in sorted(used.items())
    }
