"""Triggers: what a change of some inputs does to every view (Algorithm 1).

    ON UPDATE A BY (u_A, v_A):
      U_B := [u_A, A * u_A + u_A * (v_A' * u_A)];      assignments: thin factors over old values
      V_B := [A' * v_A, v_A];
      A += u_A * v_A';  B += U_B * V_B';                 updates, all with the factors above
      C := B * B;                                        recomputed views, over new values

Each view is treated in one of three ways: its delta is kept in factors, formed in full, or the view is recomputed. A
view that reads a recomputed one is recomputed too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from viewlet.linalg.associate import Sizes, associate_all
from viewlet.linalg.delta import Delta, Derivation, collapse, woodbury
from viewlet.linalg.expression import (
    Expression,
    Identity,
    Inverse,
    Matrix,
    matrices,
    matrix,
    postorder,
    product,
    shape,
    transpose,
)
from viewlet.linalg.printer import ATOM, text
from viewlet.linalg.program import Statement, Statements, Supply
from viewlet.linalg.sizes import Size, size


@dataclass(frozen=True, slots=True)
class Policy:
    """How a trigger treats views: those that it recomputes, and whether the others may have full deltas.

    With `full`, a delta is formed where the view has no more rows or columns than the delta has outer products. Without
    `extract`, common factors are not merged.
    """

    recomputed: frozenset[Matrix] = frozenset()
    full: bool = False
    extract: bool = True


@dataclass(frozen=True, slots=True)
class Update:
    """view += left * right'; of a view that is a Cholesky factor, the matrix whose factor it is: `factor_of`."""

    view: Matrix
    left: Expression
    right: Expression
    factor_of: Expression | None = None

    @property
    def rank(self) -> Size:
        """The number of outer products."""
        return shape(self.left)[1]

    def __str__(self) -> str:
        name = self.view.name if self.factor_of is None else f"chol({text(self.factor_of)})"
        if isinstance(self.right, Identity):
            return f"{name} += {text(self.left)};"
        if isinstance(self.left, Identity):
            return f"{name} += {text(transpose(self.right))};"
        return f"{name} += {text(self.left, ATOM)} * {text(transpose(self.right), ATOM)};"


@dataclass(frozen=True, slots=True)
class Guard:
    """The capacitance matrix I + R' W L of an inverse W, of which L R' is the change of the matrix."""

    inverse: Matrix
    system: Expression
    """The matrix whose inverse it is."""
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Trigger:
    """The reaction to a change of some inputs. `factors` are the variables that hold the change of each."""

    factors: Mapping[Matrix, tuple[Matrix, Matrix]]
    assignments: tuple[Statement, ...]
    updates: tuple[Update, ...]
    recomputed: tuple[Statement, ...]
    guards: Mapping[Expression, Guard] = field(default_factory=dict)
    """By the inverse of a capacitance matrix, what is multiplied in it."""

    def __str__(self) -> str:
        changes = ", ".join(
            f"{each.name} BY ({left.name}, {right.name})" for each, (left, right) in self.factors.items()
        )
        lines = [f"ON UPDATE {changes}:"]
        lines += [f"  {statement}" for statement in self.assignments]
        lines.append("  " + " ".join(str(update) for update in self.updates))
        lines += [f"  {statement}" for statement in self.recomputed]
        return "\n".join(lines)


def derive_trigger(
    source: Statements, ranks: Mapping[Matrix, Size | int], sizes: Sizes, policy: Policy | None = None
) -> Trigger:
    """Algorithm 1, for changes of several inputs at once: `ranks` has the rank of the change of each."""
    return _Deriver(source, ranks, sizes, policy or Policy()).trigger()


class _Deriver:
    def __init__(self, source: Statements, ranks: Mapping[Matrix, Size | int], sizes: Sizes, policy: Policy) -> None:
        self.source = source
        self.sizes = sizes
        self.policy = policy
        self.fresh = Supply(
            {each.name for each in source.inputs}
            | {statement.target.name for statement in source.views}
            | set(source.outputs)
        )
        self.factors = {each: self._factors(each, size(rank)) for each, rank in ranks.items()}
        self.deltas = {each: Delta((pair,)) for each, pair in self.factors.items()}
        self.variables: set[Expression] = {each for pair in self.factors.values() for each in pair}
        self.assignments: list[Statement] = []
        self.recomputed: list[Statement] = []
        self.guards: list[tuple[int, Guard]] = []
        """With the first assignment that can have the inverse of the capacitance matrix."""

    def _factors(self, changed: Matrix, rank: Size) -> tuple[Matrix, Matrix]:
        """The variables of a change: u and v are thin, A += u v'."""
        left = matrix(self.fresh(f"u_{changed.name}"), changed.rows, rank)
        return left, matrix(self.fresh(f"v_{changed.name}"), changed.columns, rank)

    def trigger(self) -> Trigger:
        stale = self._stale()
        updates = [Update(each, delta.left, delta.right) for each, delta in self.deltas.items()]
        for statement in self.source.views:
            target = statement.target
            if target in stale:
                self.recomputed.append(statement)
            elif target in self.source.factored:
                updates += self._follow_factor(statement, stale)
            elif (delta := self._delta(statement)).blocks:
                found = self.deltas[target] = self._assign(target, delta)
                updates.append(Update(target, found.left, found.right))
        assignments = self._associated()
        guards = {_first_inverse(assignments[place:]): guard for place, guard in self.guards}
        return Trigger(self.factors, assignments, tuple(updates), tuple(self.recomputed), guards)

    def _stale(self) -> set[Matrix]:
        """The views that are recomputed: those that the policy names, and what reads them."""
        stale: set[Matrix] = set()
        changed: set[Matrix] = set(self.factors)
        for statement in self.source.views:
            read = matrices(statement.body)
            if read & changed:
                changed.add(statement.target)
                if read & stale or statement.target in self.policy.recomputed:
                    stale.add(statement.target)
        return stale

    def _follow_factor(self, statement: Statement, stale: set[Matrix]) -> list[Update]:
        """A Cholesky factor follows the change of its matrix; that of the inverse is derived where a view needs it."""
        target, body = statement.target, statement.body
        assert isinstance(body, Inverse)
        change = Derivation(self.deltas, self.policy.extract).of(body.body)
        if not change.blocks:
            return []
        readers = [each.target for each in self.source.views if target in matrices(each.body)]
        if any(each not in stale for each in readers):
            self.deltas[target] = self._assign(target, self._delta(statement))
        return [Update(target, change.left, change.right, body.body)]

    def _delta(self, statement: Statement) -> Delta:
        derivation = Derivation(self.deltas, self.policy.extract)
        if not isinstance(statement.body, Inverse):
            return derivation.of(statement.body)
        change = derivation.of(statement.body.body)
        if not change.blocks:
            return change
        target = statement.target
        ahead = self._variable(f"Z_{target.name}", product(target, change.left))
        self.guards.append((len(self.assignments), Guard(target, statement.body.body, change.left, change.right)))
        return woodbury(target, ahead, change.right)

    def _assign(self, target: Matrix, delta: Delta) -> Delta:
        """Gives the factors names, so that later statements read them; a factor that has a name keeps it."""
        rows, columns = target.rows.at(self.sizes), target.columns.at(self.sizes)
        if self.policy.full and min(rows, columns) <= delta.rank.at(self.sizes):
            by_rows = rows < columns
            delta = collapse(delta, by_rows=by_rows)
            ((left, right),) = delta.blocks
            if by_rows:
                return Delta(((left, self._variable(f"D_{target.name}", right)),))
            return Delta(((self._variable(f"D_{target.name}", left), right),))
        left = self._variable(f"U_{target.name}", delta.left)
        right = self._variable(f"V_{target.name}", delta.right)
        return Delta(((left, right),))

    def _variable(self, name: str, body: Expression) -> Expression:
        """The variable that holds a factor; a view is copied, because it changes before its value is used."""
        if isinstance(body, Identity) or body in self.variables:
            return body
        variable = matrix(self.fresh(name), *shape(body))
        self.variables.add(variable)
        self.assignments.append(Statement(variable, body))
        return variable

    def _associated(self) -> tuple[Statement, ...]:
        bodies = associate_all([statement.body for statement in self.assignments], self.sizes)
        return tuple(
            Statement(statement.target, body) for statement, body in zip(self.assignments, bodies, strict=True)
        )


def _first_inverse(assignments: tuple[Statement, ...]) -> Expression:
    nodes = (node for statement in assignments for node in postorder([statement.body]))
    return next(node for node in nodes if isinstance(node, Inverse))
