"""The compiled engine: a trigger program running as generated code over flat arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.nodes import View
from viewlet.algebra.order import order
from viewlet.algebra.traverse import walk
from viewlet.changes import MULTIPLICITY, Change
from viewlet.codegen.module import Module, write_module
from viewlet.codegen.module_writer import Function
from viewlet.codegen.precompile import Helper, share
from viewlet.codegen.process import Column, Process
from viewlet.errors import InternalError
from viewlet.runtime.arithmetic import SMALL
from viewlet.runtime.arrow_columns import Words, arrow_column
from viewlet.runtime.batches import BatchShaper
from viewlet.runtime.control import (
    BELOW,
    BY_OPPOSITES,
    FAILURE,
    FULL,
    LARGE,
    LARGEST,
    NEEDED_ROWS,
    NEEDED_STORE,
    ROWS_DONE,
)
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Image, Item, Layout
from viewlet.triggers.program import Program
from viewlet.triggers.result_view import result_stores
from viewlet.triggers.step import initial_contents
from viewlet.triggers.store import MapStore
from viewlet.types import Datum, Kind, Row, SqlType, Table

UNDER_WAY = -1
_MARGIN = 40 << 52
"""Added to the bits of a double, this multiplies it by 2**40."""
_FIRST_BELOW = (20 - 900) << 52
"""The first summands that are looked at more closely are those beyond 2**20."""
READ_BY_CODE_FROM = 2_000
"""Rows in the views a result reads from which compiling the reader pays; fewer are read in Python."""


@dataclass(slots=True)
class TableChange:
    """A change of one table in the form its trigger takes, and how many rows of it are done.

    While it is `UNDER_WAY` the trigger counts them itself, in the control word `ROWS_DONE`: a call of generated code is
    not interrupted, so that word is right whenever an exception comes.
    """

    table: str
    function: Function
    columns: tuple[Column, ...]
    multiplicity: Column
    each_row: bool
    refreshes: Sequence[Function]
    by_opposites: bool = False
    """Whether it is undone by running it with the opposite sign, unless there is an image."""
    done: int = 0
    undo: TableChange | None = None
    image: dict[str, Image] | None = None
    """All stores before it, where it has summands that are too large to be taken back from a sum."""
    below: int = 0
    """What the engine had in `BELOW` before it, if there is an image."""

    def opposite(self, rows: int) -> TableChange:
        """What undoes the first rows."""
        columns = tuple(column[:rows] for column in self.columns)
        return replace(self, columns=columns, multiplicity=-self.multiplicity[:rows], by_opposites=True, done=0)


class CompiledEngine:
    """Keeps one query fresh; tables are seen only as changes, never stored."""

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        dictionary: StringDictionary | None = None,
        make_store: Callable[[Layout], FlatStore] = FlatStore,
        module: Module | None = None,
    ) -> None:
        self.program = program
        self.tables = tables
        self.module: Module = module if module is not None else write_module(program, tables)
        self._process = Process(self.module.generated, dictionary, make_store)
        self.dictionary = self._process.dictionary
        self._control = self._process.notes
        self._row_by_row = _reading_what_they_assign(program)
        self._shapers = {table: BatchShaper() for table in self.module.triggers}
        self._result = order(program.result)
        self._below = _FIRST_BELOW
        """What is put into `BELOW` where changes are undone by running them with the opposite sign.

        A summand that is far larger than all before would leave nothing of a sum from which it is taken back. Before a
        change with such a summand all stores are copied.
        """
        self._empty()

    @property
    def stores(self) -> Mapping[str, FlatStore]:
        return self._process.stores

    # Views of other engines

    def is_own(self, name: str) -> bool:
        """Whether the triggers of this engine maintain a view."""
        return self._process.is_own(name)

    def borrow(self, stores: Mapping[str, FlatStore]) -> None:
        """From now on reads views that other engines maintain, in one step."""
        self._process.read_from(stores)

    def keep_again(self, names: Iterable[str]) -> None:
        """From now on maintains copies of views that it has borrowed, in one step."""
        copies = self._empty_stores(names)
        for name, copy in copies.items():
            copy.fill(self.stores[name].packed())
        self._process.keep(copies)

    def stop_keeping(self, names: Iterable[str]) -> None:
        """Forgets views, which nothing that it runs reads from now on, in one step."""
        self._process.read_from(self._empty_stores(names))

    @contextlib.contextmanager
    def alone(self, borrowed: Iterable[str]) -> Iterator[None]:
        """Lets the engine be filled from the beginning: views that it has borrowed are empty at first, like its own."""
        stores = {name: self.stores[name] for name in borrowed if not self.is_own(name)}
        self._process.keep(self._empty_stores(stores))
        try:
            yield
        finally:
            self._process.read_from(stores)

    def _empty_stores(self, names: Iterable[str]) -> dict[str, FlatStore]:
        layouts = {layout.name: layout for layout in self.module.generated.layouts}
        return {name: FlatStore(layouts[name]) for name in names}

    # Filling

    def warm_up(self, step: Callable[[str], None] = lambda text: None) -> None:
        """Runs every trigger on no rows at all, so that Numba compiles it now and not in the first batch.

        `step` hears what is about to be compiled. Long triggers that are not in the cache are shared with a second
        process.
        """
        self._process.fill_lookups()
        lengths = self.module.generated.lengths()
        tables = {function.name: table for table, function in self.module.triggers.items()}
        cold = {name: lengths[name] for name in tables if not self._process.is_cached(name)}
        others = share(cold)
        types = {name: [column.dtype.name for column in self._no_columns(tables[name])] for name in others}
        helper = Helper(self._process.path, len(self.module.generated.arrays), types) if others else None
        for name in (name for name in tables if name not in others):
            step(f"the trigger on {tables[name]}")
            self._warm(name, tables[name])
        if helper is not None:
            step("waiting for a second process")
            helper.wait()
        for name in others:
            self._warm(name, tables[name])

    def warm_up_reading(self) -> None:
        """Reads the result with generated code, so that Numba compiles that too and the first long reading does not."""
        self._process.read_result([var.type for var in self.program.query.output])

    def _warm(self, name: str, table: str) -> None:
        self._process.call(name, 0, 0, False, np.zeros(0, np.int64), *self._no_columns(table))

    def _no_columns(self, table: str) -> list[Column]:
        """The columns of a change without rows."""
        columns = [self.tables[table].columns[i] for i in self.columns_used(table)]
        return [np.zeros(0, np.float64 if column.type.is_float else np.int64) for column in columns]

    def clear(self) -> None:
        """Back to the state over empty tables, whatever an exception has left of the arrays."""
        self._process.repair()
        for store in self._process.own_stores().values():
            store.clear()
        self._process.forget_notes()
        self._empty()

    def take_over(self, views: Mapping[str, MapStore]) -> None:
        """Goes on from the state in which another engine holds the views of the same program."""
        for view in self.program.views:
            rows = [(key, tuple(numbers)) for key, numbers in views[view.name].items()]
            self._process.fill(view.name, [key.type for key in view.keys], rows)

    def keep_result_in_order(self) -> None:
        """Keeps the ordered indexes that reading the result uses from now on, instead of from the first long read."""
        function = self.module.generated.result
        for view in function.stores if function is not None else ():
            self.stores[view].keep_orders()

    def _empty(self) -> None:
        """Views with constant rows have some over empty tables too, and those that are assigned have a value."""
        kept = [view for view in self.program.views if self.is_own(view.name)]
        for name, contents in initial_contents(kept).items():
            self._process.fill(name, [key.type for key in self.program.view(name).keys], list(contents.items()))
        self._process.fill_lookups()
        self._refresh_all(tuple(dict.fromkeys(each for many in self.module.refreshes.values() for each in many)))
        self._process.forget_notes()  # what fails over empty tables need not fail over those to come

    def columns_used(self, table: str) -> tuple[int, ...]:
        """Positions of the columns the triggers of a table read."""
        function = self.module.triggers.get(table)
        return function.columns if function else ()

    def apply(self, table: str, change: Change, each_row: bool = False) -> None:
        """Runs the triggers of one table.

        Views are fresh at the end of the change, or with `each_row` after every row of it.
        """
        prepared = self.prepare(table, change, each_row)
        if prepared is not None:
            self.run(prepared)

    def prepare(self, table: str, change: Change, each_row: bool = False) -> TableChange | None:
        """A change in the form that triggers take, nothing of it done yet; None if there is no trigger."""
        function = self.module.triggers.get(table)
        if function is None or not change:
            return None
        columns = change.columns(self.tables[table], function.columns, self.dictionary)
        self._process.fill_lookups()
        words, multiplicity = columns.words, columns.multiplicity
        given = tuple([words[i] for i in function.columns])
        refreshes = self.module.refreshes.get(table, ())
        each_row = bool(refreshes) and (each_row or table in self._row_by_row)
        if not each_row:
            given, multiplicity = self._shapers[table].shape(given, multiplicity)
        return TableChange(table, function, given, multiplicity, each_row, refreshes)

    def run(self, change: TableChange) -> None:
        """Runs the triggers for the rows of a change that are not done yet."""
        if (
            change.by_opposites
            and not change.done
            and all(each.is_empty for each in self._process.own_stores().values())
        ):
            self._keep_image(change)
        self._run_rows(change)
        if self._control[FAILURE] == LARGE:
            self._undo(change)
            self._keep_image(change)
            self._run_rows(change)
        if change.image is not None:
            self._below = min(max(self._control[LARGEST] + _MARGIN - int(SMALL), self._below), 0)
        self._process.check_overflow()

    def _keep_image(self, change: TableChange) -> None:
        """Copies all stores before a change of which nothing is done."""
        change.below, change.image = self._below, self.image()
        change.undo, change.done = None, 0
        self._control[LARGEST] = 0

    def _run_rows(self, change: TableChange) -> None:
        control, end = self._control, len(change.multiplicity)
        control[BY_OPPOSITES] = int(change.by_opposites and change.image is None)
        control[BELOW] = self._below if change.by_opposites else 0
        if change.done == UNDER_WAY:
            self._refresh_all(change.refreshes)
        else:
            control[ROWS_DONE] = change.done
            change.done = UNDER_WAY
        if change.each_row and not all(self._is_plain(refresh) for refresh in change.refreshes):
            for row in range(control[ROWS_DONE], end):
                self._run(change, row + 1, each_row=False)
        else:
            self._run(change, end, change.each_row)
        change.done = end
        control[BY_OPPOSITES] = control[BELOW] = 0

    def _run(self, change: TableChange, end: int, each_row: bool) -> None:
        """Calls a trigger until it has seen the rows up to `end`: it comes back when a store has no room left."""
        function, control, done = change.function, self._control, self._control[ROWS_DONE]
        while done < end:
            self._process.call(function.name, done, end, each_row, change.multiplicity, *change.columns)
            done = control[ROWS_DONE]
            if control[FULL]:
                control[FULL] = 0
                if not each_row:
                    raise InternalError(f"{function.name} added more rows than it made room for")
                self._refresh_all(change.refreshes)
            elif done < end:
                self._make_room(function)
        if change.refreshes and not each_row:
            self._refresh_all(change.refreshes)

    def take_back_last(self, changes: list[TableChange]) -> None:
        """Undoes the last of the changes that were run one after another, perhaps in part, and removes it.

        Rows that are done run again with the opposite sign. That is exact for integers and decimals; sums of doubles
        may keep a rounding error. If it is interrupted, the next call continues.
        """
        self._undo(changes[-1])
        changes.pop()
        self.forget_changes()

    def _undo(self, change: TableChange) -> None:
        self._process.repair()
        self.forget_changes()
        self._control[FAILURE] = self._control[FULL] = 0
        self._process.forget_failure()
        if change.image is not None:
            self.put_back(change.image)
            self._below = change.below
            return
        self._process.fill_lookups()
        if change.undo is None:
            done = self._control[ROWS_DONE] if change.done == UNDER_WAY else change.done
            change.undo = change.opposite(done)
        self._refresh_all(change.refreshes)
        self._run_rows(change.undo)  # what it notes does not count: on its way back a sum may pass the bound it broke
        self._process.forget_notes()

    def image(self) -> dict[str, Image]:
        """A copy of all stores, for `put_back`."""
        return self._process.images()

    def put_back(self, images: Mapping[str, Image]) -> None:
        """Makes all stores what they were when their images were made."""
        self._process.put_back(images)
        self._process.forget_notes()
        self.forget_changes()

    def _refresh_all(self, refreshes: Sequence[Function]) -> None:
        for refresh in refreshes:
            target = refresh.stores[0]
            self.stores[target].clear()  # even if it looks empty: an exception may have cut a `clear` short
            self._process.compute(refresh.name, target, refresh.stores)

    def _is_plain(self, refresh: Function) -> bool:
        """The view that is assigned can be emptied by generated code."""
        layout = self.stores[refresh.stores[0]].layout
        return not layout.slices and not layout.ordered

    def _make_room(self, function: Function) -> None:
        """Grows the store a trigger stopped at, by what it said it needs."""
        store = self.stores[function.stores[self._control[NEEDED_STORE]]]
        store.reserve(self._control[NEEDED_ROWS])

    # Reading

    def result(self, whole: bool = False) -> dict[Row, int]:
        """The result rows with their multiplicities: by generated code where there is much to read.

        Of a query with ORDER BY and LIMIT these are all that can be among the first; with `whole`, all rows.
        """
        if whole and self.program.query.limit is not None:
            return self._evaluate_result()
        found = self._process.result(self.program.query, READ_BY_CODE_FROM)
        return self._evaluate_result() if found is None else found

    def arrow(self) -> Any:
        """The result rows as an Arrow table with their multiplicities; None where no code lists them."""
        types = [var.type for var in self.program.query.output]
        found = self._process.read_result(types, READ_BY_CODE_FROM)
        if found is None:
            return None
        import pyarrow as pa

        columns, weights = found
        arrays = [arrow_column(type, words, self.dictionary) for type, words in zip(types, columns, strict=True)]
        return pa.table([*arrays, pa.array(weights)], names=[*map(str, range(len(types))), MULTIPLICITY])

    def count(self) -> int | None:
        """How many rows the result has; None where no code lists them."""
        found = self._process.read_result([var.type for var in self.program.query.output], READ_BY_CODE_FROM)
        return None if found is None else int(found[1].sum())

    def rows_with(self, values: Mapping[int, Collection[Datum]]) -> dict[Row, int] | None:
        """The result rows that have one of some values in each of some columns.

        They are evaluated over those rows of the views that have these values; None if a large view has to be read
        whole.
        """
        output = self.program.query.output
        wanted = {output[i]: self._known_words(output[i].type, choices) for i, choices in values.items()}
        slots: dict[str, list[Words]] = {}
        for node in walk(self.program.result):
            if isinstance(node, View):
                store = self.stores[node.name]
                conditions = [(i, wanted[var]) for i, var in enumerate(node.args) if var in wanted]
                if not conditions and len(store) > READ_BY_CODE_FROM:
                    return None
                slots.setdefault(node.name, []).append(store.slots_with(conditions))
        rows = {name: self.stores[name].items_at(np.unique(np.concatenate(each))) for name, each in slots.items()}
        result = self._evaluate({name: self._as_map(name, each) for name, each in rows.items()})
        return {row: n for row, n in result.items() if all(row[i] in choices for i, choices in values.items())}

    def _known_words(self, type: SqlType, values: Iterable[Datum]) -> Words:
        """The words of values, without strings that no row can have."""
        if type.kind is Kind.VARCHAR:
            codes = [self.dictionary.known(str(value)) for value in values]
            return np.array([code for code in codes if code is not None], np.int64)
        return self._process.key_words(type, list(values))

    def watch(self) -> bool:
        """From now on `changes` tells how the result has changed, if it can."""
        names = result_stores(self.program)
        for name in names:
            self.stores[name].keep_journal()
        self.forget_changes()
        return bool(names)

    def forget_changes(self) -> None:
        """The result counts as unchanged from now on."""
        for name in result_stores(self.program):
            self.stores[name].forget_journal()

    def changes(self) -> dict[Row, int]:
        """How the result has changed since it was asked or watched last, from the rows that were touched."""
        journals = {name: self.stores[name].take_journal() for name in result_stores(self.program)}
        if not journals:
            raise InternalError("the result is not made of the rows of its views")
        change = self._evaluate({name: self._as_map(name, after) for name, (_, after) in journals.items()})
        old = self._evaluate({name: self._as_map(name, before) for name, (before, _) in journals.items()})
        for row, count in old.items():
            change[row] = change.get(row, 0) - count
        return {row: count for row, count in change.items() if count}

    def _evaluate_result(self) -> dict[Row, int]:
        wanted = {node.name for node in walk(self.program.result) if isinstance(node, View)}
        return self._evaluate({name: self._as_map(name, self.stores[name].items()) for name in wanted})

    def _evaluate(self, views: dict[str, MapStore]) -> dict[Row, int]:
        rows = evaluate(self._result, self.program.query.output, State({}, {}, views))
        return {row: int(number) for row, number in rows.items()}  # type: ignore[arg-type]

    def _as_map(self, name: str, rows: Iterable[Item]) -> MapStore:
        view = self.program.view(name)
        copy = MapStore([f.name for f in view.fields], view.presence)
        types = [key.type for key in view.keys]
        for words, numbers in rows:
            key = tuple(self._process.decode(word, type) for word, type in zip(words, types, strict=True))
            copy.add(key, numbers)
        return copy


def _reading_what_they_assign(program: Program) -> frozenset[str]:
    """Tables whose trigger reads a view that it also assigns: each row must see what the row before made of it."""
    found: set[str] = set()
    for trigger in program.triggers:
        assigned = {statement.view for statement in trigger.statements if statement.replaces}
        updates = [u for statement in trigger.statements if not statement.replaces for u in statement.updates]
        if any(isinstance(node, View) and node.name in assigned for u in updates for node in walk(u.expr)):
            found.add(trigger.table)
    return frozenset(found)
