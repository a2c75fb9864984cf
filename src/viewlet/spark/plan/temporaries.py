"""The temporaries of one batch, each computed and moved once (common-subexpression elimination, section 5.3.2).

Two statements that need the same contents in the same place share a temporary, whatever they call its columns, as long
as no view it reads was written in between. Sums over the same rows are fields of one temporary (a family), and travel
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from viewlet.algebra.canonical import canonical_names, scalar_text, text_under
from viewlet.algebra.nodes import Add, Delta, Expr, Mul, Neg, Scalar, Sum, Value, Var, View, factors_of, mul
from viewlet.algebra.scope import outputs
from viewlet.algebra.traverse import Names, atoms, children, rebuild, substitute_scalar
from viewlet.spark.plan.locations import LOCAL, Dist, Location, Replicated
from viewlet.spark.plan.program import Compute, Move, Movement, Step, Temporary, mode_of
from viewlet.triggers.program import Field, Statement, Update, ViewDefinition


@dataclass(slots=True)
class Family:
    """One temporary under construction: its keys are fixed, its sums grow as they are asked for."""

    name: str
    keys: tuple[Var, ...]
    at: Location
    fields: list[Field] = field(default_factory=list)

    def view(self) -> ViewDefinition:
        return ViewDefinition(self.name, self.keys, tuple(self.fields))

    def step(self) -> Compute:
        updates = tuple(Update(each.name, each.definition) for each in self.fields)
        return Compute(Statement(self.name, self.keys, updates, replaces=True), mode_of(self.at))


@dataclass(slots=True)
class _Rows:
    """The relational part of some sums of a family, in its variables."""

    family: Family
    relational: tuple[Expr, ...]
    by_name: Mapping[str, Var]  # canonical name -> the variable here
    fields: dict[str, Field] = field(default_factory=dict)  # canonical text of the values -> field


@dataclass(slots=True)
class Shipment:
    """A family brought somewhere else."""

    name: str
    source: Family
    movement: Movement
    to: Dist | Replicated | None

    def view(self) -> ViewDefinition:
        return ViewDefinition(self.name, self.source.keys, tuple(self.source.fields))

    def step(self) -> Move:
        return Move(self.name, self.source.name, self.movement, self.to)


@dataclass(slots=True)
class Temporaries:
    """Collects the steps of a batch; temporaries come before the statement that first asks for them."""

    names: Names
    float_fields: set[tuple[str, str]]
    steps: list[Family | Shipment | Compute] = field(default_factory=list)
    _versions: Counter[str] = field(default_factory=Counter)
    _rows: dict[tuple[str, ...], _Rows] = field(default_factory=dict)
    _families: dict[tuple[object, ...], Family] = field(default_factory=dict)
    _shipments: dict[tuple[str, Movement, Dist | Replicated | None], Shipment] = field(default_factory=dict)

    def run(self, step: Compute) -> None:
        """Adds a statement that changes a view."""
        self.steps.append(step)
        self._versions[step.statement.view] += 1

    def computed(self, expr: Expr, at: Location) -> tuple[Family, View]:
        """The temporary that holds an expression where it is computed, and the expression as an atom of it."""
        keys = expr.keys if isinstance(expr, Sum) else tuple(sorted(outputs(expr), key=lambda var: var.name))
        factors = factors_of(expr.body if isinstance(expr, Sum) else expr)
        values = [factor.scalar for factor in factors if isinstance(factor, Value)]
        relational = tuple(factor for factor in factors if not isinstance(factor, Value))
        names, text = _canonical(relational, keys)
        state = self._state_read(relational)
        key = (text, _place(at, names), *state)
        rows = self._rows.get(key)
        if rows is None:
            family = self._family(keys, relational, at, state)
            rows = self._rows[key] = _Rows(family, relational, {each: var for var, each in names.items()})
        position = {names[var]: var for var in keys}
        canonical = {own: each for each, own in rows.by_name.items()}
        args = tuple(position[canonical[own]] for own in rows.family.keys)
        return rows.family, View(rows.family.name, self._field(rows, values, names), args)

    def _family(self, keys: tuple[Var, ...], relational: tuple[Expr, ...], at: Location, state: list[str]) -> Family:
        """The family of sums under these keys that differ only in the values, or in the fields of views, they sum."""
        key = (frozenset(keys), tuple(map(_any_field, relational)), at, *state)
        if key not in self._families:
            family = self._families[key] = Family(self.names.name(_base_name(relational)), keys, at)
            self.steps.append(family)
        return self._families[key]

    def shipped(self, family: Family, movement: Movement, to: Dist | Replicated | None) -> Shipment:
        """The family at its destination, which is named by the family's own keys."""
        key = (family.name, movement, to)
        if key not in self._shipments:
            shipment = Shipment(self.names.name(f"{family.name}_{_ARRIVED[movement]}"), family, movement, to)
            self._shipments[key] = shipment
            self.steps.append(shipment)
        return self._shipments[key]

    def finish(self) -> tuple[list[Step], dict[str, Temporary]]:
        made = [each for each in self.steps if not isinstance(each, Compute)]
        temporaries = {each.name: Temporary(each.view(), _location(each)) for each in made}
        return [each if isinstance(each, Compute) else each.step() for each in self.steps], temporaries

    def _state_read(self, relational: Sequence[Expr]) -> list[str]:
        views = {node.name for factor in relational for node in atoms(factor) if isinstance(node, View)}
        return [f"{name}@{self._versions[name]}" for name in sorted(views)]

    def _field(self, rows: _Rows, values: list[Scalar], names: Mapping[Var, str]) -> str:
        text = "*".join(sorted(scalar_text(value, names) for value in values))
        if text not in rows.fields:
            own = {var: rows.by_name[name] for var, name in names.items() if name in rows.by_name}
            scalars = [Value(substitute_scalar(value, own)) for value in values]
            body = Sum(rows.family.keys, mul(*rows.relational, *scalars))
            is_float = any(map(self._is_float, (*rows.relational, *scalars)))
            rows.fields[text] = Field(f"sum_{len(rows.family.fields) + 1}", body, is_float)
            rows.family.fields.append(rows.fields[text])
            if is_float:
                self.float_fields.add((rows.family.name, rows.fields[text].name))
        return rows.fields[text].name

    def _is_float(self, expr: Expr) -> bool:
        """A double is among the numbers that are multiplied; one that a variable is bound to is none of them."""
        match expr:
            case View(name, field_name, _):
                return (name, field_name) in self.float_fields
            case Value(scalar):
                return scalar.type.is_float
            case Mul() | Add() | Neg() | Sum():
                return any(map(self._is_float, children(expr)))
            case _:
                return False


_ARRIVED = {Movement.REPART: "here", Movement.SCATTER: "sent", Movement.GATHER: "gathered"}


@lru_cache(maxsize=4096)
def _canonical(relational: tuple[Expr, ...], keys: tuple[Var, ...]) -> tuple[Mapping[Var, str], str]:
    """Names that depend only on how variables are used, and the text under them; keys are told apart from the rest."""
    marks = tuple(View("", "", (key,)) for key in keys)
    names = canonical_names((*relational, *marks), {})
    return names, text_under(mul(*relational, *marks), names)


def _location(made: Family | Shipment) -> Location:
    if isinstance(made, Family):
        return made.at
    return made.to if made.to is not None else LOCAL


def _place(at: Location, names: Mapping[Var, str]) -> str:
    return str(tuple(names[var] for var in at.by)) if isinstance(at, Dist) else str(at)


def _any_field(expr: Expr) -> Expr:
    """The expression with the fields of its views blanked out."""
    return View(expr.name, "", expr.args) if isinstance(expr, View) else rebuild(expr, _any_field)


def _base_name(relational: Sequence[Expr]) -> str:
    changes = [atom for factor in relational for atom in atoms(factor) if isinstance(atom, Delta)]
    return "change_of_" + changes[0].name if changes else "part"
