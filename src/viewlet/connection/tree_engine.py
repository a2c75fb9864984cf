"""View trees over rings as a connection runs them: fed with rows of tables, read as rows of a view.

A batch is remembered until it is committed. If it fails, a tree over kept tables is filled again from them; one over
streams takes the changes back with the opposite sign, which is exact for counts, and in sums of doubles may leave a
rounding error far below the last digit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload
from viewlet.changes import Changes, to_python
from viewlet.changes.factored import FactoredChanges
from viewlet.connection.factorised_sums import aggregate_rows
from viewlet.errors import UnsupportedError
from viewlet.rings.ring import times
from viewlet.triggers.store import MapStore
from viewlet.types import CofactorValue, Column, Row
from viewlet.viewtree.factored_update import FactoredUpdate, expand, factored
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_plan import RingPlan

Part = tuple[tuple[str, ...], Mapping[Row, int]]
"""A factor of a product: variables, and rows with multiplicities."""
State = Mapping[str, Mapping[Row, Any]]
"""The entries of every stored node."""


class TreeEngine(ABC):
    """One view tree; `kept` are its tables if all of them keep their rows."""

    engine_name = "interpreter"

    def __init__(self, plan: RingPlan, kept: Mapping[str, MapStore] | None) -> None:
        self.plan = plan
        self._kept = kept
        self._batch: list[tuple[str, Changes | FactoredChanges]] = []

    @property
    def source(self) -> str:
        """The generated code that runs it."""
        return "no code is generated for it: it runs on the interpreter"

    @property
    def is_kept(self) -> bool:
        """The tables hold all that it takes to fill the tree again."""
        return self._kept is not None

    def load(self, stores: Mapping[str, MapStore]) -> None:
        """Starts anew from the rows already there."""
        rows = {table: store.multiplicities() for table, store in stores.items()}
        self._fill(
            {
                projection.relation.name: projection.counted(rows[table].items())
                for table, projections in self.plan.projections.items()
                for projection in projections
            }
        )

    def apply(self, table: str, changes: Changes | FactoredChanges) -> None:
        """Changes of a table, before the table's own store changes."""
        self._batch.append((table, changes))
        if isinstance(changes, FactoredChanges):
            self._change_by_products(table, changes)
        else:
            self._change(table, changes)

    def _change_by_products(self, table: str, changes: FactoredChanges) -> None:
        for projection in self.plan.projections.get(table, ()):
            products = [projection.factored(factors) for factors in changes.products]
            self._add_products(projection.relation.name, [parts for parts in products if parts is not None])

    def _change(self, table: str, changes: Changes, sign: int = 1) -> None:
        for projection in self.plan.projections.get(table, ()):
            change = projection.counted((row, sign * weight) for row, weight in changes.items())
            if change:
                self._add(projection.relation.name, change)

    def commit(self) -> None:
        self._batch.clear()

    def rollback(self) -> None:
        """Takes back what the current batch did; the kept tables are as they were before it."""
        batch, self._batch = self._batch, []
        if self._kept is not None:
            self.load(self._kept)
        else:
            for table, changes in reversed(batch):
                if isinstance(changes, FactoredChanges):
                    self._change_by_products(table, changes.negated())
                else:
                    self._change(table, changes, -1)

    @property
    @abstractmethod
    def maintained(self) -> MaintainedTree[Any]:
        """The tree itself."""

    @abstractmethod
    def _fill(self, relations: Mapping[str, Mapping[Row, int]]) -> None: ...

    @abstractmethod
    def _add(self, relation: str, change: Mapping[Row, int]) -> None: ...

    def _add_products(self, relation: str, products: Sequence[Sequence[Part]]) -> None:
        """Add a union of products to a relation, without multiplying them out before that is needed."""
        tree = self.maintained
        updates = [
            factored(*((schema, {row: times(tree.ring, n) for row, n in rows.items()}) for schema, rows in parts))
            for parts in products
        ]
        self._note(tree.update_factored(relation, updates))

    def _note(self, changes: Sequence[FactoredUpdate[Any]]) -> None:  # noqa: B027 - those who need not know, do not
        """The result has changed by a union of products."""

    @abstractmethod
    def result(self) -> Mapping[Row, int]:
        """The rows of the view, all of them."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are, without making them."""

    @abstractmethod
    def watch(self) -> bool:
        """From now on `changes` tells what a batch did to the rows."""

    @abstractmethod
    def changes(self) -> Mapping[Row, int]: ...

    def sizes(self) -> dict[str, int]:
        """Keys per stored view."""
        return {name: len(store) for name, store in self.maintained.stores.items()}

    def state(self) -> State:
        """All there is to know between two batches."""
        return {name: store.entries for name, store in self.maintained.stores.items()}

    def restore(self, state: State) -> None:
        """Goes on from what `state` was once."""
        self.maintained.restore(state)


class CofactorEngine(TreeEngine):
    def __init__(self, plan: RingPlan, kept: Mapping[str, MapStore] | None) -> None:
        super().__init__(plan, kept)
        self._tree: MaintainedTree[Any] = MaintainedTree(plan.tree, plan.ring, updatable=plan.updatable)
        self._places = plan.key_places()
        self._touched: set[Row] = set()
        self._shown: dict[Row, Row] | None = None
        self._before: dict[Row, Row | None] = {}

    @property
    def maintained(self) -> MaintainedTree[Any]:
        return self._tree

    def _fill(self, relations: Mapping[str, Mapping[Row, int]]) -> None:
        ring = self._tree.ring
        self._tree.load({name: {row: times(ring, n) for row, n in rows.items()} for name, rows in relations.items()})

    def _add(self, relation: str, change: Mapping[Row, int]) -> None:
        self._touched.update(self._tree.apply({relation: change.items()}))

    def _note(self, changes: Sequence[FactoredUpdate[Any]]) -> None:
        if self._shown is not None:
            self._touched.update(expand(changes, self.plan.tree.root.keys, self._tree.ring))

    def cofactor(self) -> Any:
        """Count, sums and matrix; of every group, by its keys, where there are groups."""
        types = self.plan.query.key_types
        if not types:
            return self._table(())
        shown = [to_python(type) for type in types]
        found: dict[Any, Any] = {}
        for at in self._groups():
            key = tuple(show(value) for show, value in zip(shown, self._key(at), strict=True))
            found[key if len(key) > 1 else key[0]] = self._table(at)
        return found

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for at in self._groups():
            row = self._row(at)
            found[row] = found.get(row, 0) + 1
        return found

    def count(self) -> int:
        return len(self._groups())

    def watch(self) -> bool:
        if self._shown is None:
            self._shown = {at: self._row(at) for at in self._groups()}
        return True

    def changes(self) -> Mapping[Row, int]:
        assert self._shown is not None
        found: dict[Row, int] = {}
        present = self._groups()
        for at in self._touched:
            old, new = self._shown.get(at), self._row(at) if at in present else None
            self._before.setdefault(at, old)
            for row, weight in ((old, -1), (new, 1)):
                if row is not None:
                    found[row] = found.get(row, 0) + weight
            if new is None:
                self._shown.pop(at, None)
            else:
                self._shown[at] = new
        self._touched.clear()
        return {row: weight for row, weight in found.items() if weight}

    def commit(self) -> None:
        super().commit()
        self._touched.clear()
        self._before.clear()

    def rollback(self) -> None:
        super().rollback()
        self._touched.clear()
        for at, row in self._before.items():
            assert self._shown is not None
            if row is None:
                self._shown.pop(at, None)
            else:
                self._shown[at] = row
        self._before.clear()

    def _groups(self) -> Mapping[Row, object] | tuple[Row, ...]:
        """Keys of the root that have a row: those there are, or the only one of a view without GROUP BY."""
        return self._tree.result.entries if self.plan.query.keys else ((),)

    def _key(self, at: Row) -> Row:
        return tuple(at[place] for place in self._places)

    def _table(self, at: Row) -> Any:
        from viewlet.rings.cofactor_table import cofactor_moments

        payload = self.plan.query.payload
        assert isinstance(payload, CofactorPayload)
        element = self._tree.result.entries.get(at, self._tree.ring.zero)
        shown = {category.name: to_python(category.type) for category in payload.categorical}
        return cofactor_moments(self._tree.ring, element, shown)  # type: ignore[arg-type]

    def _row(self, at: Row) -> Row:
        key = self._key(at)
        value: Any = None
        if None in self.plan.query.shown:
            table = self._table(at)
            matrix = tuple(map(tuple, table.matrix.tolist()))
            value = CofactorValue(table.variables, table.count, tuple(table.sums.tolist()), matrix)
        return tuple(value if place is None else key[place] for place in self.plan.query.shown)


class FactorisedEngine(TreeEngine):
    def __init__(self, plan: RingPlan, kept: Mapping[str, MapStore] | None) -> None:
        super().__init__(plan, kept)
        payload = plan.query.payload
        assert isinstance(payload, FactorisedPayload)
        self.factorised = FactorisedResult(plan.tree, payload.variables, plan.updatable)

    @property
    def maintained(self) -> MaintainedTree[Any]:
        return self.factorised.maintained

    def _fill(self, relations: Mapping[str, Mapping[Row, int]]) -> None:
        self.factorised.load(relations)

    def _add(self, relation: str, change: Mapping[Row, int]) -> None:
        self.factorised.apply({relation: change.items()})

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Rows with multiplicities, one after another; the view must not change meanwhile."""
        shown = [place for place in self.plan.query.shown if place is not None]
        for values, multiplicity in self.factorised.rows():
            yield tuple(values[place] for place in shown), multiplicity

    def aggregate(self, columns: Sequence[Column], function: str, of: Sequence[str]) -> object:
        """A sum over all rows, in one pass over the pieces."""
        variables = [self.factorised.variables[place] for place in self.plan.query.shown if place is not None]
        return aggregate_rows(self.factorised, variables, columns, function, of)

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for row, multiplicity in self.rows():
            found[row] = found.get(row, 0) + multiplicity
        return found

    def count(self) -> int:
        return self.factorised.count

    def watch(self) -> bool:
        hint = "its rows are not written out, so neither are their changes; declare the join without FACTORIZED"
        raise UnsupportedError("following the changes of a FACTORIZED view", hint, "engine")

    def changes(self) -> Mapping[Row, int]:
        return {}


def make_engine(plan: RingPlan, kept: Mapping[str, MapStore] | None) -> TreeEngine:
    """The reference engine of a plan, still empty."""
    factorised = isinstance(plan.query.payload, FactorisedPayload)
    return FactorisedEngine(plan, kept) if factorised else CofactorEngine(plan, kept)
