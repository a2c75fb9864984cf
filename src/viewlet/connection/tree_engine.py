"""View trees over rings as a connection runs them: fed with rows of tables, read as rows of a view.

A batch that fails is taken back exactly: on the reference engine by the connection's undo log, on generated code by the
rows that it logs before their change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from viewlet.algebra.ring_query import CofactorPayload, FactorisedPayload
from viewlet.changes import Change, to_python
from viewlet.errors import InternalError, UnsupportedError
from viewlet.triggers.store import RowStore
from viewlet.types import CofactorValue, Column, Row
from viewlet.viewtree.factorised_sums import aggregate_rows
from viewlet.viewtree.keepers import Keeper, KeepsRows, ReferenceTree, TakesOver
from viewlet.viewtree.ring_plan import RingPlan


class TreeEngine(ABC):
    """One view tree; `kept` are its tables if all of them keep their rows."""

    def __init__(self, plan: RingPlan, keeper: Keeper, kept: Mapping[str, RowStore] | None) -> None:
        self.plan = plan
        self.keeper = keeper
        self._kept = kept

    @property
    def engine_name(self) -> str:
        return self.keeper.engine_name

    @property
    def source(self) -> str:
        """The generated code that runs it."""
        return self.keeper.source

    @property
    def is_kept(self) -> bool:
        """The tables hold all that it takes to fill the tree again."""
        return self._kept is not None

    def load(self, stores: Mapping[str, RowStore]) -> None:
        """Starts from the rows already there."""
        rows = {table: store.change().rows() for table, store in stores.items()}
        self.keeper.load(
            {
                projection.relation.name: projection.counted(rows[table].items())
                for table, projections in self.plan.projections.items()
                for projection in projections
            }
        )

    def take_over(self, other: TreeEngine) -> None:
        """Goes on, on generated code, from what another engine of the same tree holds on the reference engine."""
        if not (isinstance(self.keeper, TakesOver) and isinstance(other.keeper, ReferenceTree)):
            raise InternalError(f"a tree cannot move from {other.engine_name} to {self.engine_name}")
        self.keeper.take_over(other.keeper.state())

    def apply(self, table: str, change: Change) -> None:
        """The change of a table, before the table's own store changes: as products or columns if it has such."""
        used, products = self.columns_used(table), change.products
        columns = None if used is None else change.held_columns(used)
        for projection in self.plan.projections.get(table, ()):
            name = projection.relation.name
            if products is not None:
                parts = [projection.factored(factors) for factors in products]
                self._add_products(name, [part for part in parts if part is not None])
            elif columns is not None:
                self.keeper.add_columns(projection, columns)
                self._touch(None)
            elif counted := projection.counted(change.rows().items()):
                self._add(name, counted)

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        """The columns of a table that are read, if the keeper takes columns: it takes them back by itself then."""
        taken = [projection.taken for projection in self.plan.projections.get(table, ())]
        if not self.keeper.takes_columns or None in taken:
            return None
        return tuple(dict.fromkeys(position for each in taken if each is not None for position, _ in each))

    def _touch(self, keys: Iterable[Row] | None) -> None:  # noqa: B027 - those who need not know, do not
        """Some keys of the result may have changed, any if it is not known which."""

    def _add(self, relation: str, change: Mapping[Row, int]) -> None:
        self.keeper.add(relation, change)

    def _add_products(self, relation: str, products: Sequence[Sequence[Any]]) -> None:
        self.keeper.add_products(relation, products, tell=False)

    def commit(self) -> None:
        self.keeper.commit()

    def rollback(self) -> None:
        """Takes back what the current batch did; may be called again if it was interrupted."""
        self.keeper.rollback()

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
        return self.keeper.sizes()


class CofactorEngine(TreeEngine):
    def __init__(self, plan: RingPlan, keeper: Keeper, kept: Mapping[str, RowStore] | None) -> None:
        super().__init__(plan, keeper, kept)
        self._places = plan.key_places()
        self._touched: set[Row] | None = set()
        """Keys of the result that may have changed; None if any may."""
        self._shown: dict[Row, Row] | None = None
        self._before: dict[Row, Row | None] = {}

    def _add(self, relation: str, change: Mapping[Row, int]) -> None:
        self._touch(self.keeper.add(relation, change))

    def _add_products(self, relation: str, products: Sequence[Sequence[Any]]) -> None:
        told = self.keeper.add_products(relation, products, tell=self._shown is not None)
        if self._shown is not None:
            self._touch(told)

    def _touch(self, keys: Iterable[Row] | None) -> None:
        if keys is None:
            self._touched = None
        elif self._touched is not None:
            self._touched.update(keys)

    def cofactor(self) -> Any:
        """Count, sums and matrix; of every group, by its keys, where there are groups."""
        types = self.plan.query.key_types
        if not types:
            return self._table(())
        shown = [to_python(type) for type in types]
        found: dict[Any, Any] = {}
        for at in sorted(self._groups(), key=lambda at: [(value is None, value) for value in self._key(at)]):
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
        touched = self._touched if self._touched is not None else {*self._shown, *present}
        for at in touched:
            old, new = self._shown.get(at), self._row(at) if at in present else None
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
        self._touched = set()
        return {row: weight for row, weight in found.items() if weight}

    def commit(self) -> None:
        super().commit()
        self._touched = set()
        self._before.clear()

    def rollback(self) -> None:
        super().rollback()
        self._touched = set()
        for at, row in self._before.items():
            assert self._shown is not None
            if row is None:
                self._shown.pop(at, None)
            else:
                self._shown[at] = row
        self._before.clear()

    def _groups(self) -> Mapping[Row, object] | tuple[Row, ...]:
        """Keys of the root that have a row: those there are, or the only one of a view without GROUP BY."""
        return self.keeper.entries() if self.plan.query.keys else ((),)

    def _key(self, at: Row) -> Row:
        return tuple(at[place] for place in self._places)

    def _table(self, at: Row) -> Any:
        from viewlet.rings.cofactor_table import cofactor_moments

        payload = self.plan.query.payload
        assert isinstance(payload, CofactorPayload)
        ring = self.plan.ring
        element = self.keeper.entries().get(at, ring.zero)
        shown = {category.name: to_python(category.type) for category in payload.categorical}
        return cofactor_moments(ring, element, shown)  # type: ignore[arg-type]

    def _row(self, at: Row) -> Row:
        key = self._key(at)
        value: Any = None
        if None in self.plan.query.shown:
            table = self._table(at)
            matrix = tuple(map(tuple, table.matrix.tolist()))
            value = CofactorValue(table.variables, table.count, tuple(table.sums.tolist()), matrix)
        return tuple(value if place is None else key[place] for place in self.plan.query.shown)


class FactorisedEngine(TreeEngine):
    keeper: KeepsRows

    def __init__(self, plan: RingPlan, keeper: KeepsRows, kept: Mapping[str, RowStore] | None) -> None:
        super().__init__(plan, keeper, kept)
        payload = plan.query.payload
        assert isinstance(payload, FactorisedPayload)
        self._variables = payload.variables

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Rows with multiplicities, one after another; the view must not change meanwhile."""
        shown = [place for place in self.plan.query.shown if place is not None]
        for values, multiplicity in self.keeper.rows():
            yield tuple(values[place] for place in shown), multiplicity

    def aggregate(self, columns: Sequence[Column], function: str, of: Sequence[str]) -> object:
        """A sum over all rows, in one pass over the pieces."""
        variables = [self._variables[place] for place in self.plan.query.shown if place is not None]
        return aggregate_rows(self.keeper, variables, columns, function, of)

    def result(self) -> Mapping[Row, int]:
        found: dict[Row, int] = {}
        for row, multiplicity in self.rows():
            found[row] = found.get(row, 0) + multiplicity
        return found

    def count(self) -> int:
        return self.keeper.count

    def watch(self) -> bool:
        hint = "its rows are not written out, so neither are their changes; declare the join without FACTORIZED"
        raise UnsupportedError("following the changes of a FACTORIZED view", hint, "engine")

    def changes(self) -> Mapping[Row, int]:
        return {}
