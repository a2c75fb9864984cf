"""Programs of several queries as one program, in which every stored view that they have in common is kept once.

    a:  on items: a_items[id].sum += ...      on orders: a_total[customer] += Δorders(id, customer) * a_items.sum[id]
    b:  on items: b_items[k].count += ...     on orders: b_total[day] += Δorders(k, _, day) * b_items.count[k]

    on items:  a_items[id].(sum, count) += ...
    on orders: b_total[day] += Δorders(k, _, day) * a_items.count[k]
               a_total[customer] += Δorders(id, customer) * a_items.sum[id]

Views are the same by their shapes (`view_shapes`): the same keys and, where both count their rows, the same count. A
view gets the fields that only the other one has. In a trigger the statements of the later query come first: they read
views of the earlier one, whose statements read none of its own, and all of them read the state before the trigger.

Views that are assigned, and those that are maintained by help of such, are not shared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewlet.algebra.nodes import Expr, Var, View
from viewlet.algebra.rename import rename
from viewlet.algebra.traverse import Names, all_variables, rebuild, walk
from viewlet.triggers.program import COUNT_FIELD, Field, Program, Statement, Trigger, Update, ViewDefinition
from viewlet.triggers.shared_views import lendable, needed_for
from viewlet.triggers.view_shapes import Fields, unnamed_shapes


@dataclass(frozen=True, slots=True)
class MergedProgram:
    """A program with the name, the query and the result of the first of some programs, and the views of all."""

    program: Program
    results: tuple[Program, ...]
    """The program with the query and the result of each of them, the first included."""


def merge_programs(programs: Sequence[Program]) -> MergedProgram:
    """One program for all queries, in the order in which they were declared."""
    merger = Merger(programs[0])
    for program in programs[1:]:
        merger.add(program)
    return merger.merged()


def only_for_result(program: Program) -> Program:
    """The program with the views that its result takes, and nothing else."""
    shown = {node.name for node in walk(program.result) if isinstance(node, View)}
    return program if program.layers else only_views(program, needed_for(program, shown))


def only_views(program: Program, names: Iterable[str]) -> Program:
    """The program with some of its views, which have to include what their statements read."""
    kept = frozenset(names)
    if kept.issuperset(view.name for view in program.views):
        return program
    triggers = (
        Trigger(trigger.table, tuple(statement for statement in trigger.statements if statement.view in kept))
        for trigger in program.triggers
    )
    return replace(
        program,
        views=tuple(view for view in program.views if view.name in kept),
        triggers=tuple(trigger for trigger in triggers if trigger.statements),
    )


def shapes_to_share(program: Program) -> frozenset[Hashable]:
    """The shapes of all fields that the program may have in common with others."""
    shared = lendable(program)
    views = (view for view in program.views if view.name in shared)
    return frozenset(shape for view in views for shape in unnamed_shapes(view).values())


@dataclass(frozen=True, slots=True)
class Partner:
    """The view of a merged program that takes the place of another: its name, and what it calls the fields.

    `added` are the fields that it has to be given.
    """

    name: str
    fields: Fields
    added: tuple[str, ...]


@dataclass(slots=True)
class _Shapes:
    """The views of a merged program that others may share, by the shapes of their fields."""

    fields: dict[str, dict[Hashable, str]] = field(default_factory=dict)
    """The fields of each view."""
    owners: dict[Hashable, str] = field(default_factory=dict)
    """The first view with such a field."""

    def add(self, view: str, fields: Mapping[Hashable, str]) -> None:
        self.fields.setdefault(view, {}).update(fields)
        for shape in fields:
            self.owners.setdefault(shape, view)


class Merger:
    """Merges one program after another into the first."""

    def __init__(self, first: Program) -> None:
        self._first = first
        self._views: dict[str, ViewDefinition] = {}
        self._increments: dict[str, list[Statement]] = {}
        self._assignments: dict[str, list[Statement]] = {}
        self._results: list[Program] = []
        self._names = Names()
        self._shapes = _Shapes()
        self.add(first)

    def has_any(self, shapes: Iterable[Hashable]) -> bool:
        """Some view has a field of one of these shapes."""
        return any(shape in self._shapes.owners for shape in shapes)

    def partners(self, program: Program) -> dict[str, Partner]:
        """The views of another program that need not be kept for it, and what is read instead."""
        shared, found, extended = lendable(program), dict[str, Partner](), set[str]()
        for view in program.views:
            partner = self._partner(view, program) if view.name in shared else None
            if partner is not None and not (partner.added and partner.name in extended):
                found[view.name] = partner
                extended.update([partner.name] if partner.added else ())
        return found

    def _partner(self, view: ViewDefinition, program: Program) -> Partner | None:
        shapes = unnamed_shapes(view)
        # two views with the same count have the same keys; without a count only a view with all fields has them
        first = COUNT_FIELD if view.presence is not None else next(iter(shapes))
        name = self._shapes.owners.get(shapes[first])
        if name is None:
            return None
        here = self._shapes.fields[name]
        added = tuple(each for each, shape in shapes.items() if shape not in here)
        if added and (view.presence is None or not self._pairs(name, view.name, program)):
            return None
        free = Names(each.name for each in self._views[name].fields)
        fields = {each: free.name(each) if each in added else here[shape] for each, shape in shapes.items()}
        return Partner(name, fields, added)

    def _pairs(self, name: str, other: str, program: Program) -> bool:
        """Every change is one statement on either side, so that a key and all its numbers change together."""
        for trigger in program.triggers:
            theirs = [each for each in trigger.statements if each.view == other]
            mine = [each for each in self._increments.get(trigger.table, ()) if each.view == name]
            if len(theirs) > 1 or len(mine) > 1:
                return False
        return True

    def add(self, program: Program) -> dict[str, str]:
        """Takes up another program; returns what its views are called."""
        partners, shared, taken = self.partners(program), lendable(program), self._views.keys()
        own = [view.name for view in program.views if view.name not in partners]
        self._names.reserve(own)
        names = {name: self._names.name(name) if name in taken else name for name in own}
        names |= {name: partner.name for name, partner in partners.items()}
        fields = {name: partner.fields for name, partner in partners.items()}
        for view in program.views:
            self._take_view(view, names[view.name], partners.get(view.name), view.name in shared)
        for trigger in program.triggers:
            self._take_trigger(trigger, names, partners)
        result = _over(program.result, names, fields)
        self._results.append(replace(program, result=result))
        return names

    def _take_view(self, view: ViewDefinition, name: str, partner: Partner | None, may_share: bool) -> None:
        shapes = unnamed_shapes(view)
        if partner is None:
            self._views[name] = replace(view, name=name)
            if may_share:
                self._shapes.add(name, {shape: each for each, shape in shapes.items()})
            return
        known = self._views[name]
        added = [each for each in view.fields if each.name in partner.added]
        fields = (
            Field(partner.fields[each.name], _called(each.definition, view.keys, known.keys), each.is_float)
            for each in added
        )
        self._views[name] = replace(known, fields=(*known.fields, *fields))
        self._shapes.add(name, {shapes[each.name]: partner.fields[each.name] for each in added})

    def _take_trigger(self, trigger: Trigger, names: Mapping[str, str], partners: Mapping[str, Partner]) -> None:
        fields = {name: partner.fields for name, partner in partners.items()}
        increments = self._increments.setdefault(trigger.table, [])
        assignments = self._assignments.setdefault(trigger.table, [])
        before: list[Statement] = []
        for statement in trigger.statements:
            partner = partners.get(statement.view)
            wanted = [u for u in statement.updates if partner is None or u.field in partner.added]
            updates = tuple(
                Update(u.field if partner is None else partner.fields[u.field], _over(u.expr, names, fields))
                for u in wanted
            )
            if not updates:
                continue
            own = replace(statement, view=names[statement.view], updates=updates)
            at = next((i for i, each in enumerate(increments) if partner and each.view == partner.name), None)
            if at is not None:
                increments[at] = _together(increments[at], own)
            else:
                (assignments if statement.replaces else before).append(own)
        increments[:0] = before

    def merged(self) -> MergedProgram:
        tables = sorted(self._increments.keys() | self._assignments.keys())
        triggers = (
            Trigger(table, (*self._increments.get(table, ()), *self._assignments.get(table, ()))) for table in tables
        )
        whole = replace(self._first, views=tuple(self._views.values()), triggers=tuple(triggers))
        shown = {node.name for each in self._results for node in walk(each.result) if isinstance(node, View)}
        program = only_views(whole, needed_for(whole, shown))
        results = tuple(replace(each, views=program.views, triggers=program.triggers) for each in self._results)
        return MergedProgram(results[0], results)


def _together(known: Statement, other: Statement) -> Statement:
    """Two increments of the same keys as one."""
    updates = (Update(each.field, _called(each.expr, other.args, known.args)) for each in other.updates)
    return replace(known, updates=(*known.updates, *updates))


def _over(expr: Expr, names: Mapping[str, str], fields: Mapping[str, Fields]) -> Expr:
    """The expression over views of other names, whose fields may be called otherwise too."""

    def go(node: Expr) -> Expr:
        if isinstance(node, View):
            called = fields[node.name][node.field] if node.name in fields else node.field
            return View(names[node.name], called, node.args)
        return rebuild(node, go)

    return go(expr)


def _called(expr: Expr, keys: Sequence[Var], others: Sequence[Var]) -> Expr:
    """The expression with other variables for its keys, and for those of its own that would be taken for them."""
    if tuple(keys) == tuple(others):
        return expr
    mine = all_variables(expr) | set(keys)
    names = Names(var.name for var in (*mine, *others))
    taken = {var.name for var in others}
    mapping = {var: names.fresh(var) if var.name in taken else var for var in sorted(mine, key=lambda var: var.name)}
    return rename(expr, mapping | dict(zip(keys, others, strict=True)))
