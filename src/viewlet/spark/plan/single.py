"""Single-transformer form: every transformer moves one temporary (thesis, section 5.3.2).

M[a] += Repart[a](Sum[a](Repart[b](Sum[a, b](ΔR(a, b))) * V[b, c]))

t1[a, b] := Sum[a, b](ΔR(a, b))
t2 := Repart[b](t1)
t3[a] := Sum[a](t2[a, b] * V[b, c])
t4 := Repart[a](t3)
M[a] += t4[a]
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Delta, Expr, Extremum, Sum, Var, View, add, mul, neg
from viewlet.algebra.order import is_driven, order
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import Names, atoms
from viewlet.algebra.traverse import rebuild as rebuild_calculus
from viewlet.spark.plan.annotate import Planner
from viewlet.spark.plan.locations import (
    EVERYWHERE,
    LOCAL,
    REPLICATED,
    Arrival,
    Dist,
    Location,
    Replicated,
    ViewLocation,
)
from viewlet.spark.plan.nodes import Gather, Moved, Repart, Transformer, as_expr, is_moved, rebuild, strip
from viewlet.spark.plan.program import Compute, Movement, mode_of
from viewlet.spark.plan.result_location import is_natural
from viewlet.spark.plan.temporaries import Family, Temporaries
from viewlet.spark.plan.wellformed import Placement, is_domain, tag_of
from viewlet.triggers.compose import rows_over
from viewlet.triggers.program import ProgramLayer, Statement, Update, ViewDefinition
from viewlet.triggers.shared_views import views_read


@dataclass(slots=True)
class Normalizer:
    """Turns planned statements into steps."""

    planner: Planner
    temporaries: Temporaries
    ordered: dict[Expr, Expr] = field(default_factory=dict)
    """Expressions as they are evaluated: what normalizers of views in the same places have found."""
    _told: dict[str, tuple[View, tuple[Var, ...]]] = field(default_factory=dict)
    """The temporaries that hold the changes of layers: each as an atom over the columns of its layer."""
    _differences: set[str] = field(default_factory=set)

    @property
    def differences(self) -> frozenset[str]:
        """The temporaries that hold what has been added to views since they were copied."""
        return frozenset(self._differences)

    def add(self, statement: Statement, location: ViewLocation) -> None:
        """Adds the steps of a statement whose view lives at `location`, which is given by the statement's variables."""
        final = Statement(statement.view, statement.args, self._updates(statement, location), statement.replaces)
        self.temporaries.run(Compute(final, mode_of(location)))

    def set_aside(self, statement: Statement, location: ViewLocation) -> Compute:
        """Computes what a statement adds, now, and gives back the step that adds it, for later."""
        updates = []
        for update in self._updates(statement, location):
            _, atom = self.temporaries.computed(Sum(statement.args, update.expr), location)
            updates.append(Update(update.field, atom))
        return Compute(Statement(statement.view, statement.args, tuple(updates)), mode_of(location))

    def added(self, statement: Statement, at: Arrival) -> Statement:
        """What a statement would add to a view that is not kept, as temporaries: at the driver or at the workers."""
        updates = []
        for update in statement.updates:
            plan = (
                self.planner.place(update.expr, LOCAL, statement.args)
                if at == LOCAL
                else self.planner.place_anywhere(update.expr, statement.args)
            )
            expr = Sum(statement.args, self._ready(self._extract(plan.expr)))
            _, atom = self.temporaries.computed(expr, LOCAL if at == LOCAL else plan.tag.at)
            updates.append(Update(update.field, atom))
        return Statement(statement.view, statement.args, tuple(updates))

    def copied(self, view: ViewDefinition, at: ViewLocation) -> Statement:
        """What a view holds now, as temporaries beside it."""
        atoms = ((each.name, View(view.name, each.name, view.keys)) for each in view.fields)
        updates = (Update(name, self.temporaries.computed(Sum(view.keys, atom), at)[1]) for name, atom in atoms)
        return Statement(view.name, view.keys, tuple(updates))

    def difference(self, before: Statement, at: ViewLocation, told: Arrival) -> Statement:
        """What has been added to a view since it was copied; at the workers, unless all of a layer is at the driver."""
        updates = []
        for update in before.updates:
            now = View(before.view, update.field, before.args)
            family, atom = self.temporaries.computed(Sum(before.args, add(now, neg(update.expr))), at)
            self._differences.add(family.name)
            if told != LOCAL and at in (LOCAL, REPLICATED):
                movement = Movement.SCATTER if at == LOCAL else Movement.REPART
                atom = View(self.temporaries.shipped(family, movement, Dist(family.keys)).name, atom.field, atom.args)
            updates.append(Update(update.field, atom))
        return Statement(before.view, before.args, tuple(updates))

    def tell(self, layer: ProgramLayer, added: Sequence[Statement], at: Arrival) -> None:
        """Makes what was added to the views of a layer its change, which statements may read from now on."""
        columns = tuple(column.var for column in layer.query.columns)
        change = self._ready(rows_over(layer, lambda view: _sum_of(added, view)))
        _, atom = self.temporaries.computed(Sum(columns, change), at)
        self._told[layer.table.name] = atom, columns

    def _updates(self, statement: Statement, location: ViewLocation) -> tuple[Update, ...]:
        plans = [self.planner.place(update.expr, location, statement.args) for update in statement.updates]
        return tuple(
            Update(update.field, self._ready(self._extract(plan.expr)))
            for update, plan in zip(statement.updates, plans, strict=True)
        )

    def _extract(self, moved: Moved) -> Expr:
        if isinstance(moved, Transformer):
            return self._sent(moved, *self._computed(moved.body))
        if not is_moved(moved):
            return as_expr(moved)
        if isinstance(moved, Extremum) and self._has_partial_extremes(moved):
            return self._of_extremes(moved)
        return as_expr(rebuild(moved, self._extract))

    def _computed(self, body: Moved) -> tuple[Family, View]:
        """The temporary that holds what is to be moved."""
        at = _origin(body, self.planner.placement)
        return self.temporaries.computed(self._ready(self._extract(body)), at)

    def _sent(self, transformer: Transformer, family: Family, atom: View) -> View:
        movement, to = _movement(transformer)
        if isinstance(to, Dist):
            to = Dist(tuple(family.keys[atom.args.index(var)] for var in to.by))
        shipment = self.temporaries.shipped(family, movement, to)
        return View(shipment.name, atom.field, atom.args)

    def _has_partial_extremes(self, extremum: Extremum) -> bool:
        """It is the extreme of numbers that workers have many of, of which none takes back what another has."""
        sent: Moved = extremum.body
        if not isinstance(sent, Transformer) or (isinstance(sent, Repart) and isinstance(sent.to, Dist)):
            return False
        body = strip(sent.body)
        if outputs(body) != {extremum.of} or is_driven(body) or not is_natural(body):
            return False
        return _origin(sent.body, self.planner.placement) not in (LOCAL, REPLICATED)

    def _of_extremes(self, extremum: Extremum) -> Extremum:
        """max x: T(Q[x]) = max x: T((x := max y: Q_p[y]) * Q_p[x]), Q_p being what worker p has of Q."""
        sent: Moved = extremum.body
        assert isinstance(sent, Transformer)
        family, atom = self._computed(sent.body)
        of, other = extremum.of, Names([extremum.of.name]).fresh(extremum.of)
        own = mul(Extremum(of, extremum.which, other, View(atom.name, atom.field, (other,))), atom)
        extremes = self.temporaries.computed(own, family.at)
        return Extremum(extremum.var, extremum.which, of, self._sent(sent, *extremes))

    def _ready(self, expr: Expr) -> Expr:
        """Ordered for evaluation: what was moved here comes from a change, or is as small as one."""
        found = self.ordered.get(expr)
        if found is None:
            found = self.ordered[expr] = _ordered(expr, self.planner.placement.locations)
        return self._over_told(found) if self._told else found

    def _over_told(self, expr: Expr) -> Expr:
        """The expression with the changes of layers as the temporaries that hold them."""
        if isinstance(expr, Delta) and expr.name in self._told:
            atom, columns = self._told[expr.name]
            return View(atom.name, atom.field, tuple(expr.args[columns.index(var)] for var in atom.args))
        return rebuild_calculus(expr, self._over_told)


def _sum_of(added: Sequence[Statement], view: View) -> Expr:
    """What statements add to a view, in place of the view."""
    parts = list[Expr]()
    for statement in added:
        if statement.view == view.name:
            names = dict(zip(statement.args, view.args, strict=True))
            atoms = (update.expr for update in statement.updates if update.field == view.field)
            parts += [View(a.name, a.field, tuple(names[v] for v in a.args)) for a in atoms if isinstance(a, View)]
    return add(*parts)


def _ordered(expr: Expr, stored: Container[str]) -> Expr:
    """The expression in the order of evaluation, in which temporaries, which are no stored views, pass for changes."""
    taken = {atom.name for atom in atoms(expr) if isinstance(atom, Delta)}
    passing = dict[str, tuple[str, str]]()  # a temporary and its field by the name of the change

    def as_changes(part: Expr) -> Expr:
        if not isinstance(part, View) or part.name in stored:
            return rebuild_calculus(part, as_changes)
        own = part.name, part.field
        name = "\0".join(own)
        while name in taken or passing.setdefault(name, own) != own:
            name += "\0"
        return Delta(name, part.args)

    def as_views(part: Expr) -> Expr:
        if isinstance(part, Delta) and part.name in passing:
            return View(*passing[part.name], part.args)
        return rebuild_calculus(part, as_views)

    return as_views(order(_without_needless_sums(as_changes(expr))))


def _without_needless_sums(expr: Expr) -> Expr:
    """Sum[x, y](V[y, x]) = V[y, x]."""
    match expr:
        case Sum(keys, (View(_, _, args) | Delta(_, args)) as atom) if set(keys) == set(args):
            return atom
        case _:
            return rebuild_calculus(expr, _without_needless_sums)


def _origin(body: Moved, placement: Placement) -> Location:
    """Where a temporary is computed that holds the body."""
    at = tag_of(body, placement, tested=is_domain(body)).at
    return LOCAL if at == EVERYWHERE else at


def _movement(transformer: Transformer) -> tuple[Movement, Dist | Replicated | None]:
    if isinstance(transformer, Gather):
        return Movement.GATHER, None
    return Movement.REPART if isinstance(transformer, Repart) else Movement.SCATTER, transformer.to


def in_sequence(statements: Sequence[Statement]) -> list[tuple[Statement, bool]]:
    """The increments of a trigger in an order that may run one by one; True marks those that have to wait.

    All of them read the state before the trigger. One whose view a later one reads is computed in its turn, but
    added to its view only after all others.
    """
    marked, later = list[tuple[Statement, bool]](), set[str]()
    for statement in reversed(statements):
        marked.append((statement, statement.view in later))
        later |= views_read(statement)
    return marked[::-1]
