"""The execution of one statement on dictionaries: an increment of its view, or an assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from viewlet.algebra.evaluate import Environment, KeyOf, Number, Run, State, evaluate, prepare, totals, values_of
from viewlet.algebra.nodes import Rel
from viewlet.algebra.scope import NONE, Vars
from viewlet.algebra.traverse import walk
from viewlet.rings import DOUBLE_RING, INTEGER_RING
from viewlet.triggers.program import Statement, ViewDefinition
from viewlet.triggers.store import MapStore, Payload
from viewlet.types import Row

_NOTHING_GIVEN: Environment = {}
_NO_LAYERS: Mapping[str, MapStore] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """A statement ready to run."""

    view: ViewDefinition
    key_of: KeyOf
    runs: Mapping[str, Run]
    replaces: bool

    @staticmethod
    def of(statement: Statement, view: ViewDefinition, given: Vars = NONE) -> Step:
        """The statement that changes a view, prepared for the variables that are given when it runs."""
        runs = {update.field: prepare(update.expr, given) for update in statement.updates}
        key_of = values_of(tuple(arg.name for arg in statement.args))
        return Step(view, key_of, runs, statement.replaces)

    def compute(self, state: State, given: Environment = _NOTHING_GIVEN) -> dict[Row, Payload]:
        """What the statement adds to its view, or puts in its place."""
        sums: dict[str, dict[Row, Number]] = {}
        for name, run in self.runs.items():
            environment = dict(given)
            sums[name] = totals(run(environment, state), environment, self.key_of)
        return payloads(self.view, [sums.get(f.name, {}) for f in self.view.fields])

    def carry_out(self, state: State, store: MapStore) -> None:
        """Changes the store of the view."""
        computed = self.compute(state)
        if self.replaces:
            store.assign(computed)
        else:
            for key, payload in computed.items():
                store.add(key, payload)


def defined_contents(view: ViewDefinition, state: State) -> dict[Row, Payload]:
    """What a view holds by its definition, over base tables."""
    store = MapStore([f.name for f in view.fields], view.presence)
    store.assign(payloads(view, [evaluate(f.definition, view.keys, state) for f in view.fields]))
    return dict(store.items())


def initial_contents(
    views: Iterable[ViewDefinition], layers: Mapping[str, MapStore] = _NO_LAYERS
) -> dict[str, dict[Row, Payload]]:
    """What views hold over empty tables, and over what layers have then; those left out that hold nothing.

    Constant tables, and the results of outer joins and negations over them, exist before the first change.
    """
    found: dict[str, dict[Row, Payload]] = {}
    for view in views:
        tables = {node.name for f in view.fields for node in walk(f.definition) if isinstance(node, Rel)}
        contents = defined_contents(view, State({name: layers.get(name, MapStore()) for name in tables}))
        if contents:
            found[view.name] = contents
    return found


def payloads(view: ViewDefinition, sums: Sequence[Mapping[Row, Number]]) -> dict[Row, Payload]:
    """One payload per key from one sum per field."""
    if len(sums) == 1:
        return {key: (number,) for key, number in sums[0].items()}
    zeros = [DOUBLE_RING.zero if f.is_float else INTEGER_RING.zero for f in view.fields]
    keys = dict.fromkeys(key for numbers in sums for key in numbers)
    return {key: tuple(numbers.get(key, zero) for numbers, zero in zip(sums, zeros, strict=True)) for key in keys}
