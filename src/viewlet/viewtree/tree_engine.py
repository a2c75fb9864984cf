"""View trees over rings as engines (`engine/contract.py`): fed with rows of tables, read as rows of a view.

    TreeEngine         reads a tree, wherever it is; it has the methods of `Engine`
      CofactorEngine     its rows are keys and payloads
      FactorisedEngine   its rows are enumerated
    LocalTree          adds what a tree in this process can do; it has the methods of `LocalEngine`

A batch that fails is rolled back exactly: on the reference engine by the connection's undo log, on generated code by
the rows that it logs before their change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload
from viewlet.changes import Change, to_python
from viewlet.triggers.program import text_digest
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.types import CofactorValue, Column, Row
from viewlet.viewtree.factorised_sums import aggregate_rows
from viewlet.viewtree.ring_plan import RingPlan
from viewlet.viewtree.tree_state import RowReader, RowTreeState, TakesColumns, TreeReader, TreeState


class TreeEngine(ABC):
    """The result of one view tree."""

    def __init__(self, plan: RingPlan, reader: TreeReader) -> None:
        self.plan = plan
        self.reader = reader

    @property
    def name(self) -> str:
        return self.reader.engine_name

    @abstractmethod
    def result(self) -> Mapping[Row, int]:
        """The rows of the view, all of them."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are, without making them."""

    @abstractmethod
    def watch(self) -> bool: ...

    @abstractmethod
    def finish(self) -> Mapping[Row, int] | None: ...

    def commit(self) -> None:  # noqa: B027 - a result that is not watched has nothing to commit
        """Makes the changes of the batch permanent."""

    def rollback(self) -> None:  # noqa: B027
        """Undoes what the current batch did to the result."""

    def stats(self) -> dict[str, object]:
        known: dict[str, object] = {"stored": self.reader.sizes()}
        if self.name == "compiled":
            known["bytes"] = {"all": self.reader.bytes()}
        return known

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"code": lambda: self.reader.source} if format == "text" else {}


class CofactorEngine(TreeEngine):
    """A tree whose rows are the keys of a query and the payload of each."""

    def __init__(self, plan: RingPlan, reader: TreeReader) -> None:
        super().__init__(plan, reader)
        self._places = plan.key_places()
        self._touched: set[Row] | None = None
        """Keys of the result that may have changed in the batch; None if any may."""
        self._shown: dict[Row, Row] | None = None
        self._before: dict[Row, Row | None] = {}

    def cofactor(self) -> Any:
        """Count, sums and matrix; of every group, by its keys, where there are groups."""
        types = self.plan.query.key_types
        payloads = self.reader.entries()
        if not types:
            return self._table(payloads.get(()))
        shown = [to_python(type) for type in types]
        found: dict[Any, Any] = {}
        for at in sorted(self._groups(), key=lambda at: [(value is None, value) for value in self._key(at)]):
            key = tuple(show(value) for show, value in zip(shown, self._key(at), strict=True))
            found[key if len(key) > 1 else key[0]] = self._table(payloads.get(at))
        return found

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        payloads = self.reader.entries()
        for at in self._groups():
            row = self._row(at, payloads.get(at))
            found[row] = found.get(row, 0) + 1
        return found

    def count(self) -> int:
        return len(self._groups())

    def watch(self) -> bool:
        if self._shown is None:
            found = self.reader.entries()
            self._shown = {at: self._row(at, found.get(at)) for at in self._groups()}
        return True

    def finish(self) -> Mapping[Row, int] | None:
        if self._shown is None:
            return None
        found: dict[Row, int] = {}
        touched = self._touched
        present = self._payloads(touched)
        for at in touched if touched is not None else {*self._shown, *self._groups()}:
            is_there = at in present or not self.plan.query.keys
            old, new = self._shown.get(at), self._row(at, present.get(at)) if is_there else None
            if old == new:
                continue
            self._before.setdefault(at, old)
            for row, weight in ((old, -1), (new, 1)):
                if row is not None:
                    found[row] = found.get(row, 0) + weight
            if new is None:
                self._shown.pop(at, None)
            else:
                self._shown[at] = new
        return {row: weight for row, weight in found.items() if weight}

    def commit(self) -> None:
        self._before.clear()

    def rollback(self) -> None:
        for at, row in self._before.items():
            assert self._shown is not None
            if row is None:
                self._shown.pop(at, None)
            else:
                self._shown[at] = row
        self._before.clear()

    def _groups(self) -> Mapping[Row, object] | tuple[Row, ...]:
        """Keys of the root that have a row: those there are, or the only one of a view without GROUP BY."""
        return self.reader.entries() if self.plan.query.keys else ((),)

    def _key(self, at: Row) -> Row:
        return tuple(at[place] for place in self._places)

    def _payloads(self, touched: Iterable[Row] | None) -> Mapping[Row, Any]:
        """Payloads by key, at least of the keys that were touched."""
        return self.reader.entries()

    def _table(self, element: Any) -> Any:
        from viewlet.rings.cofactor_table import cofactor_moments

        payload = self.plan.query.payload
        assert isinstance(payload, CofactorPayload)
        ring = self.plan.ring
        element = ring.zero if element is None else element
        shown = {category.name: to_python(category.type) for category in payload.categorical}
        return cofactor_moments(ring, element, shown)  # type: ignore[arg-type]

    def _row(self, at: Row, element: Any) -> Row:
        key = self._key(at)
        value: Any = None
        if None in self.plan.query.shown:
            table = self._table(element)
            matrix = tuple(map(tuple, table.matrix.tolist()))
            value = CofactorValue(table.variables, table.count, tuple(table.sums.tolist()), matrix)
        return tuple(value if place is None else key[place] for place in self.plan.query.shown)


class FactorisedEngine(TreeEngine):
    """A tree whose rows are those of a join, enumerated when they are read."""

    def __init__(self, plan: RingPlan, reader: RowReader) -> None:
        super().__init__(plan, reader)
        payload = plan.query.payload
        assert isinstance(payload, FactorisedPayload)
        self._variables = payload.variables
        self._row_reader = reader

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Rows with multiplicities, one after another; the view must not change meanwhile."""
        shown = [place for place in self.plan.query.shown if place is not None]
        for values, multiplicity in self._row_reader.rows():
            yield tuple(values[place] for place in shown), multiplicity

    def aggregate(self, columns: Sequence[Column], function: str, of: Sequence[str]) -> object:
        """A sum over all rows, in one pass over the pieces."""
        variables = [self._variables[place] for place in self.plan.query.shown if place is not None]
        return aggregate_rows(self._row_reader, variables, columns, function, of)

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for row, multiplicity in self.rows():
            found[row] = found.get(row, 0) + multiplicity
        return found

    def count(self) -> int:
        return self._row_reader.count

    def watch(self) -> bool:
        return False

    def finish(self) -> None:
        """Nothing is kept of the rows that were."""


class LocalTree(TreeEngine):
    """A tree in this process, over the sources that it was made with."""

    tree_state: TreeState

    def __init__(self, tree_state: TreeState, sources: Sources) -> None:
        self.tree_state = tree_state
        self._stores = sources.stores
        self._is_kept = not sources.streams
        """The tables hold all that it takes to fill the tree again."""
        self._columns = tree_state if isinstance(tree_state, TakesColumns) else None

    @property
    def digest(self) -> str:
        return text_digest(self.plan.digest)

    def load(self) -> None:
        rows = {table: store.change().rows() for table, store in self._stores.items()}
        self.tree_state.load(
            {
                projection.relation.name: projection.counted(rows[table].items())
                for table, projections in self.plan.projections.items()
                for projection in projections
            }
        )

    def apply(self, table: str, change: Change) -> None:
        """The change of a table, before the table's own store changes: as products or columns if it has such."""
        tree_state, used, products = self._columns, self.columns_used(table), change.products
        columns = None if used is None else change.held_columns(used)
        for projection in self.plan.projections.get(table, ()):
            name = projection.relation.name
            if products is not None:
                parts = [projection.products(factors) for factors in products]
                told = self._is_watched
                self._touch(self.tree_state.add_products(name, [part for part in parts if part is not None], tell=told))
            elif columns is not None and tree_state is not None:
                self._touch(tree_state.add_columns(projection, columns))
            elif counted := projection.counted(change.rows().items()):
                self._touch(self.tree_state.add(name, counted))

    @property
    def _is_watched(self) -> bool:
        """Someone wants to know which keys of the result a change touches."""
        return False

    def _touch(self, keys: Iterable[Row] | None) -> None:
        """Some keys of the result may have changed, any if it is not known which."""

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if the tree takes columns."""
        taken = [projection.taken for projection in self.plan.projections.get(table, ())]
        if self._columns is None or None in taken:
            return None
        return tuple(dict.fromkeys(position for each in taken if each is not None for position, _ in each))

    def commit(self) -> None:
        super().commit()
        self.tree_state.commit()

    def rollback(self) -> None:
        """Undoes what the current batch did; may be called again if it was interrupted."""
        self.tree_state.rollback()
        super().rollback()

    def save(self, writer: StateWriter) -> dict[str, object]:
        """The stored views of a tree over streams; one over tables is filled from them."""
        return {} if self._is_kept else self.tree_state.save(writer)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        return not self._is_kept and self.tree_state.resume(layout, reader)


class LocalCofactor(LocalTree, CofactorEngine):
    """A cofactor tree in this process: the reference engine tells which keys a change touches."""

    def __init__(self, plan: RingPlan, tree_state: TreeState, sources: Sources) -> None:
        CofactorEngine.__init__(self, plan, tree_state)
        LocalTree.__init__(self, tree_state, sources)
        self._touched = set()

    @property
    def _is_watched(self) -> bool:
        return self._shown is not None

    def watch(self) -> bool:
        self.tree_state.watch()
        return super().watch()

    def _payloads(self, touched: Iterable[Row] | None) -> Mapping[Row, Any]:
        return self.tree_state.entries() if touched is None else self.tree_state.entries_at(touched)

    def _touch(self, keys: Iterable[Row] | None) -> None:
        if self._shown is None:
            return
        if keys is None:
            self._touched = None
        elif self._touched is not None:
            self._touched.update(keys)

    def commit(self) -> None:
        super().commit()
        self._touched = set()

    def rollback(self) -> None:
        super().rollback()
        self._touched = set()


class LocalRows(LocalTree, FactorisedEngine):
    """A factorised result in this process."""

    def __init__(self, plan: RingPlan, tree_state: RowTreeState, sources: Sources) -> None:
        FactorisedEngine.__init__(self, plan, tree_state)
        LocalTree.__init__(self, tree_state, sources)


def tree_engine(plan: RingPlan, tree_state: Any, sources: Sources) -> LocalTree:
    """The engine of a tree; that of a factorised result has a `RowTreeState`."""
    if isinstance(plan.query.payload, FactorisedPayload):
        return LocalRows(plan, tree_state, sources)
    return LocalCofactor(plan, tree_state, sources)
