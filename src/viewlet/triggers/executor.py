"""The execution of statements on dictionaries: the one definition of what a program does to its views.

The interpreter runs triggers on it, a node of a distributed program the blocks of a batch, and the simulator of
clusters one of them for each worker.

    increment(steps)    v += ..., w += ...     all of them read the state before any is added
    run(statement)      v += ...               one after the other: each reads what those before it left
    run(statement)      v := ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.algebra.evaluate import Environment, State
from viewlet.algebra.scope import NONE, Vars
from viewlet.triggers.program import Statement, ViewDefinition
from viewlet.triggers.step import Step
from viewlet.triggers.store import MapStore, Payload, RowStore, UndoLog
from viewlet.types import Row

_NO_TABLES: Mapping[str, RowStore] = {}
_NO_TEMPORARIES: Mapping[str, ViewDefinition] = {}
_NO_STORES: Mapping[str, MapStore] = {}


class Executor:
    """The stores of some views, and of the changes and temporaries of a batch, with the statements that change them.

    Changes of views are logged in `log`. Base tables, if statements read any, belong to the caller. A view that has no
    store in `stores` begins with an empty one.
    """

    def __init__(
        self,
        views: Iterable[ViewDefinition],
        tables: Mapping[str, RowStore] = _NO_TABLES,
        log: UndoLog | None = None,
        stores: Mapping[str, MapStore] = _NO_STORES,
    ) -> None:
        self.log = log if log is not None else UndoLog()
        self._tables = tables
        self._definitions = {view.name: view for view in views}
        self._all_definitions: dict[str, ViewDefinition] = dict(self._definitions)
        self.views = {
            name: stores[name] if name in stores else _store(view, view.presence, self.log)
            for name, view in self._definitions.items()
        }
        self.stores: dict[str, MapStore] = dict(self.views)
        """Views and temporaries."""
        self.deltas: dict[str, MapStore] = {}
        """The changes of tables."""
        self._steps: dict[Statement, Step] = {}

    def begin(self, tables: Iterable[str], temporaries: Mapping[str, ViewDefinition] = _NO_TEMPORARIES) -> None:
        """Begins a batch: the changes of these tables, and the temporaries, are empty."""
        self._steps.clear()  # another batch may give the name of a temporary to another one
        self._all_definitions = self._definitions | dict(temporaries)
        self.stores = self.views | {name: _store(view, None, UndoLog()) for name, view in temporaries.items()}
        self.deltas = {table: MapStore() for table in tables}

    def definition(self, name: str) -> ViewDefinition:
        """A view or a temporary."""
        return self._all_definitions[name]

    def state(self) -> State:
        """What statements read."""
        return State(self._tables, self.deltas, self.stores)

    def prepare(self, statement: Statement, given: Vars = NONE) -> Step:
        """The statement ready to run; `given` are the variables that have values when it runs."""
        return Step.of(statement, self._all_definitions[statement.view], given)

    def increment(self, steps: Iterable[Step], given: Environment) -> None:
        """Runs increments that all read the state before the first of them."""
        state = self.state()
        computed = [(self.stores[step.view.name], step.compute(state, given)) for step in steps]
        for store, added in computed:
            for key, payload in added.items():
                store.add(key, payload)

    def assign(self, steps: Iterable[Step]) -> None:
        """Runs assignments, one after the other."""
        state = self.state()
        for step in steps:
            step.carry_out(state, self.stores[step.view.name])

    def run(self, statement: Statement) -> None:
        """Runs one statement on the state as it is."""
        if statement not in self._steps:
            self._steps[statement] = self.prepare(statement)
        self._steps[statement].carry_out(self.state(), self.stores[statement.view])

    def put(self, name: str, contents: Mapping[Row, Payload]) -> None:
        """Makes `contents` those of a view or a temporary."""
        self.stores[name].assign(dict(contents))


def _store(view: ViewDefinition, presence: str | None, log: UndoLog) -> MapStore:
    return MapStore([field.name for field in view.fields], presence, log)
