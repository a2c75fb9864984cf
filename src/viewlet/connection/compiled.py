"""The compiled engine as a connection uses it: filled from kept rows, and taken back when a batch fails.

Flat arrays have no undo log. The changes of the current batch are remembered instead; if the batch fails, the engine is
filled again from the tables, or, over streams, the rows that were applied are applied once more with the opposite sign.
That is exact for integers and decimals; sums of doubles may keep a rounding error far below their last digit. It rests
on calls of generated code being atomic. As plain Python (`VIEWLET_JIT=0`) they are not: there the first change of a
batch copies the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from viewlet.changes import Change
from viewlet.codegen.engine import CompiledEngine, TableChange
from viewlet.codegen.module import Module
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Image, Words
from viewlet.runtime.jit import ENABLED
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore, RowStore
from viewlet.types import Row, Table


class CompiledView:
    """Runs one trigger program; `kept` are its sources if all of them keep their rows."""

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        dictionary: StringDictionary,
        kept: Mapping[str, RowStore] | None,
        step: Callable[[str], None] = lambda text: None,
        module: Module | None = None,
        reads: bool = False,
    ) -> None:
        self._engine = CompiledEngine(program, tables, dictionary, module=module)
        self._engine.warm_up(step)
        if reads:
            self._engine.warm_up_reading()
        self._kept = kept
        self._batch: list[TableChange] = []
        self._image: dict[str, Image] | None = None

    def load(self, stores: Mapping[str, RowStore]) -> None:
        """Runs the rows already there through the triggers."""
        for table, store in stores.items():
            self._engine.apply(table, store.change())

    def reload(self, stores: Mapping[str, RowStore]) -> None:
        """Like `load`, for an engine that may hold something."""
        self._engine.clear()
        self.load(stores)

    def take_over(self, views: Mapping[str, MapStore]) -> None:
        """Goes on from the views as the interpreter holds them."""
        self._engine.take_over(views)

    def columns_used(self, table: str) -> tuple[int, ...]:
        return self._engine.columns_used(table)

    def apply(self, table: str, change: Change) -> None:
        """Runs the triggers of one table."""
        prepared = self._engine.prepare(table, change)
        if prepared is None:
            return
        if not ENABLED and self._image is None:
            self._image = self._engine.image()
        self._batch.append(prepared)
        self._engine.run(prepared)

    def result(self) -> Mapping[Row, int]:
        return self._engine.result()

    def watch(self) -> bool:
        """Whether `changes` can tell from now on what a batch did to the result."""
        return self._engine.watch()

    def changes(self) -> Mapping[Row, int]:
        return self._engine.changes()

    def commit(self) -> None:
        self._batch.clear()
        self._image = None

    def rollback(self) -> None:
        """Takes back what the current batch did; the kept tables are as they were before it.

        If it is interrupted, it is to be called again.
        """
        if self._image is not None:
            self._engine.put_back(self._image)
        elif self._kept is None:
            self._engine.take_back(self._batch)
        elif self._batch:
            self.reload(self._kept)
            self._engine.forget_changes()
        self.commit()

    def _views(self) -> dict[str, FlatStore]:
        """The stores that hold something between two batches."""
        return {view.name: self._engine.stores[view.name] for view in self._engine.program.views}

    def layouts(self) -> dict[str, object]:
        """What the words of the rows in `packed` mean, as plain lists."""
        return {
            name: [store.layout.arity, list(store.layout.fields), list(store.layout.kinds)]
            for name, store in self._views().items()
        }

    def packed(self) -> Iterator[tuple[str, Words]]:
        """The rows of every view as words: what there is to know between two batches, but for the strings."""
        for name, store in self._views().items():
            yield name, store.packed()

    def restore(self, state: Mapping[str, Words]) -> None:
        """Takes the state that `packed` gave to a program with the same layouts."""
        for name, store in self._views().items():
            store.fill(state[name])

    def sizes(self) -> dict[str, int]:
        return {name: len(store) for name, store in self._engine.stores.items()}

    def bytes(self) -> dict[str, int]:
        """What the arrays of each store take."""
        return {name: store.nbytes() for name, store in self._engine.stores.items()}

    def packed_bytes(self) -> dict[str, int]:
        """What the rows of each store would take without room to grow and without indexes."""
        return {name: store.packed_bytes() for name, store in self._engine.stores.items()}
