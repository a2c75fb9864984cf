"""The views that a compilation requires, each stored once (duplicate-view elimination, thesis, section 3.1.1).

Requests for the same relational part under the same keys are one view whatever they sum: each sum is a field of its
payload (a family). `orders * lineitem` counted and summed by customer is one view with two fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.canonical import canonical_names, scalar_text, text_under
from viewlet.algebra.nodes import Expr, Rel, Scalar, Sum, Value, Var, View, mul
from viewlet.algebra.traverse import substitute_scalar, walk
from viewlet.triggers.program import COUNT_FIELD, Field, ViewDefinition


@dataclass(slots=True)
class Entry:
    name: str
    keys: tuple[Var, ...]
    relational: tuple[Expr, ...]
    by_name: dict[str, Var]  # canonical name -> the entry's own variable
    fields: dict[str, Field] = field(default_factory=dict)  # canonical text of the values -> field

    def definition(self) -> ViewDefinition:
        return ViewDefinition(self.name, self.keys, tuple(self.fields.values()))


class Catalogue:
    """Collects views; `on_new` is called for every new field that has to be maintained."""

    def __init__(self, prefix: str, on_new: Callable[[Entry, Field], None]) -> None:
        self._prefix = prefix
        self._on_new = on_new
        self._entries: dict[str, Entry] = {}
        self._known: dict[tuple[tuple[Var, ...], tuple[Expr, ...]], View] = {}
        """What was requested before, by its own names: finding canonical ones is slow."""
        self._taken: set[str] = set()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def request(self, keys: Sequence[Var], factors: Sequence[Expr]) -> View:
        """The view for Sum[keys](product of factors), made if it is new, as an atom over `keys`."""
        request = (tuple(keys), tuple(factors))
        if request not in self._known:
            self._known[request] = self._find(*request)
        return self._known[request]

    def _find(self, keys: tuple[Var, ...], factors: tuple[Expr, ...]) -> View:
        values = [factor.scalar for factor in factors if isinstance(factor, Value)]
        relational = tuple(factor for factor in factors if not isinstance(factor, Value))
        marks = tuple(View("", "", (key,)) for key in keys)
        names = canonical_names((*relational, *marks), {})
        text = text_under(mul(*relational, *marks), names)
        entry = self._entries.get(text) or self._enter(text, keys, relational, names)
        position = {names[key]: key for key in keys}
        args = tuple(position[name] for name in (self._name_in(entry, key) for key in entry.keys))
        return View(entry.name, self._field(entry, values, names), args)

    def _enter(self, text: str, keys: tuple[Var, ...], relational: tuple[Expr, ...], names: dict[Var, str]) -> Entry:
        entry = Entry(self._fresh_name(relational), keys, relational, {name: var for var, name in names.items()})
        self._entries[text] = entry
        return entry

    @staticmethod
    def _name_in(entry: Entry, var: Var) -> str:
        return next(name for name, own in entry.by_name.items() if own == var)

    def _field(self, entry: Entry, values: list[Scalar], names: dict[Var, str]) -> str:
        text = "*".join(sorted(scalar_text(value, names) for value in values))
        if text not in entry.fields:
            own = {var: entry.by_name[name] for var, name in names.items() if name in entry.by_name}
            scalars = tuple(substitute_scalar(value, own) for value in values)
            if any(scalar.type.is_float for scalar in scalars) and "" not in entry.fields:
                self._add(entry, "", COUNT_FIELD, ())
            self._add(entry, text, self._field_name(entry, scalars), scalars)
        return entry.fields[text].name

    def _add(self, entry: Entry, text: str, name: str, scalars: tuple[Scalar, ...]) -> None:
        body = Sum(entry.keys, mul(*entry.relational, *(Value(scalar) for scalar in scalars)))
        entry.fields[text] = Field(name, body, any(scalar.type.is_float for scalar in scalars))
        self._on_new(entry, entry.fields[text])

    @staticmethod
    def _field_name(entry: Entry, scalars: tuple[Scalar, ...]) -> str:
        if not scalars:
            return COUNT_FIELD
        taken = {f.name for f in entry.fields.values()}
        plain = "_".join(s.name if isinstance(s, Var) else "expr" for s in scalars)
        base = "sum_" + re.sub(r"\W+", "_", plain)
        return base if base not in taken else next(f"{base}{i}" for i in range(2, 1000) if f"{base}{i}" not in taken)

    def _fresh_name(self, relational: tuple[Expr, ...]) -> str:
        tables = dict.fromkeys(node.name for factor in relational for node in walk(factor) if isinstance(node, Rel))
        base = "_".join([self._prefix, *tables])
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
