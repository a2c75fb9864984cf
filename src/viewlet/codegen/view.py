"""Generated triggers as an engine (`engine/contract.py`): filled from kept rows, and rolled back when a batch fails.

Flat arrays have no undo log. The changes of the current batch are remembered instead; if the batch fails, the engine is
filled again from the tables, or, over streams, the rows that were applied are applied once more with the opposite sign.
That is exact for integers and decimals; sums of doubles may keep a rounding error far below their last digit. It rests
on calls of generated code being atomic. As plain Python (`VIEWLET_JIT=0`) they are not: there the first change of a
batch copies the arrays.

Views that another engine of generated code keeps too may be borrowed from it (`triggers/shared_views.py`). An engine
that is filled again reads views of its own meanwhile, which are empty at first. Rows that are applied with the opposite
sign have to meet the views as they were: engines that borrow from each other go back table by table, all together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from viewlet.changes import Change, rows_to_arrow
from viewlet.codegen.engine import CompiledEngine, TableChange
from viewlet.codegen.module import Module
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Image
from viewlet.runtime.jit import ENABLED
from viewlet.triggers.guards import Guard, guard_of
from viewlet.triggers.program import Program
from viewlet.triggers.result_view import change_stores, result_stores
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.shared_views import Borrowed, borrowable_by_rows, needed_for
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore
from viewlet.types import Column, Datum, Row, Table


class CompiledView:
    """Runs one trigger program over the sources that it was made with."""

    name = "compiled"

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        dictionary: StringDictionary,
        sources: Sources,
        step: Callable[[str], None] = lambda text: None,
        module: Module | None = None,
        reads: bool = False,
    ) -> None:
        self._engine = CompiledEngine(program, tables, dictionary, module=module)
        self._engine.warm_up(step)
        if reads:
            self._engine.warm_up_reading()
        self._stores = sources.stores
        self._is_kept = not sources.streams
        """The sources hold all that it takes to fill the views again."""
        self._loans: Mapping[str, Borrowed] = {}
        self._watched = False
        self._batch: list[TableChange] = []
        self._image: dict[str, Image] | None = None

    @property
    def plan(self) -> Program:
        return self._engine.program

    @property
    def digest(self) -> str:
        return self.plan.state_digest

    def load(self) -> None:
        """Runs the rows already there through the triggers, from an empty state."""
        with self._engine.alone(self.borrowed):
            self._engine.clear()
            for table, store in self._stores.items():
                self._engine.apply(table, store.change())

    def take_over(self, views: Mapping[str, MapStore]) -> None:
        """Goes on from the views as the interpreter holds them."""
        self._engine.take_over(views)

    # -- views that several engines read ----------------------------------------------------------------------------

    @property
    def borrowed(self) -> Mapping[str, Borrowed]:
        return {name: each for name, each in self._loans.items() if not self._engine.is_own(name)}

    @property
    def kept(self) -> frozenset[str]:
        return frozenset(view.name for view in self.plan.views if self._engine.is_own(view.name))

    def can_borrow(self, name: str, other: Borrowed) -> bool:
        """The rows are laid out alike, and the owner has the indexes that are used here; changes of it are not told."""
        if not (isinstance(other.owner, CompiledView) and name in borrowable_by_rows(self.plan)):
            return False
        if other.owner._is_kept and not self._is_kept:  # they would go back in different ways
            return False
        mine, its = self._engine.stores[name].layout, other.owner._engine.stores[other.name].layout
        rows = (mine.arity, mine.fields, mine.kinds) == (its.arity, its.fields, its.kinds)
        indexes = its.slices[: len(mine.slices)] == mine.slices and its.ordered[: len(mine.ordered)] == mine.ordered
        return rows and indexes and name not in result_stores(self.plan)

    def borrow(self, views: Mapping[str, Borrowed]) -> None:
        self._loans = {**self._loans, **views}
        self._engine.borrow({name: each.owner._engine.stores[each.name] for name, each in views.items()})

    def keep_again(self) -> None:
        self._engine.keep_again(self.borrowed)

    def keep_only(self, names: Collection[str]) -> None:
        needed = needed_for(self.plan, names)
        given_up = (self.kept - needed) & borrowable_by_rows(self.plan)
        if given_up:
            self._engine.stop_keeping(given_up)

    # -- batches ----------------------------------------------------------------------------------------------------

    def guard(self, table: str) -> Guard | None:
        return guard_of(self.plan, table)

    def columns_used(self, table: str) -> tuple[int, ...]:
        return self._engine.columns_used(table)

    def apply(self, table: str, change: Change) -> None:
        """Runs the triggers of one table."""
        prepared = self._engine.prepare(table, change)
        if prepared is None:
            return
        if not ENABLED and self._image is None:
            self._image = self._engine.image()
        prepared.by_opposites = not self._is_kept and self._image is None
        self._batch.append(prepared)
        self._engine.run(prepared)

    def result(self) -> Mapping[Row, int]:
        return self._engine.result()

    def arrow(self) -> Any:
        listed = self._engine.arrow()
        if listed is not None:
            return listed
        columns = [Column(f"c{i}", var.type) for i, var in enumerate(self.plan.query.output)]
        return rows_to_arrow(columns, self.result().items(), with_multiplicity=True)

    def count(self) -> int:
        count = self._engine.count()
        return sum(self.result().values()) if count is None else count

    def rows_with(self, values: Mapping[int, Collection[Datum]]) -> Mapping[Row, int] | None:
        return self._engine.rows_with(values)

    def forget_rows(self) -> None:
        """Empties the views behind the result, if changes of the result are known without them."""
        for name in change_stores(self.plan):
            self._engine.stores[name].drain()

    def watch(self) -> bool:
        self._watched = self._engine.watch()
        return self._watched

    def finish(self) -> Mapping[Row, int] | None:
        return self._engine.changes() if self._watched else None

    def commit(self) -> None:
        self._batch.clear()
        self._image = None

    def rollback(self) -> None:
        """Takes back what the current batch did; the kept tables are as they were before it.

        If it is interrupted, it is to be called again.
        """
        if self._image is not None:
            self._engine.put_back(self._image)
        elif not self._is_kept:
            while self._batch:
                self._engine.take_back_last(self._batch)
        elif self._batch:
            self.load()
            self._engine.forget_changes()
        self.commit()

    def take_back(self, table: str) -> None:
        """Undoes the change of a table, if it was the last of the batch and cannot be undone by filling the engine."""
        if self._image is None and not self._is_kept and self._batch and self._batch[-1].table == table:
            self._engine.take_back_last(self._batch)

    def _views(self) -> dict[str, FlatStore]:
        """The stores that hold something between two batches."""
        return {view.name: self._engine.stores[view.name] for view in self._engine.program.views}

    def _layouts(self) -> dict[str, object]:
        """What the words of each view mean, as plain lists."""
        return {
            name: [store.layout.arity, list(store.layout.fields), list(store.layout.kinds)]
            for name, store in self._views().items()
        }

    def save(self, writer: StateWriter) -> dict[str, object]:
        """The rows of every view as words: what there is to know between two batches, but for the strings."""
        for name, store in self._views().items():
            writer.words(name, store.packed())
        return self._layouts()

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        """Continues from the state that a program with the same layouts saved."""
        if layout != self._layouts():
            return False
        for name, store in self._views().items():
            store.fill(reader.words(name))
        return True

    def stats(self) -> dict[str, object]:
        """Rows of each store, the bytes of its arrays, and those of its rows without room to grow and indexes."""
        stores = [(name, store) for name, store in self._engine.stores.items() if self._engine.is_own(name)]
        return {
            "borrowed": {name: each.name for name, each in self.borrowed.items()},
            "stored": {name: len(store) for name, store in stores},
            "bytes": {name: store.nbytes() for name, store in stores},
            "packed_bytes": {name: store.packed_bytes() for name, store in stores},
        }

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}
