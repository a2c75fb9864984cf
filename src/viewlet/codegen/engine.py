"""The compiled engine: a trigger program running as generated code over flat arrays."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import viewlet.runtime
from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Scalar, Var, View
from viewlet.algebra.order import order
from viewlet.algebra.traverse import walk
from viewlet.codegen.module import Function, Module, result_store, write_module
from viewlet.errors import DataError, InternalError
from viewlet.rings import Dyadic
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.batches import BatchShaper
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Item
from viewlet.runtime.state import bundle, put
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore
from viewlet.types import Datum, Kind, Row, SqlType, Table

Column = Any

READ_BY_CODE_FROM = 2_000
"""Rows in the views a result reads from which compiling the reader pays; fewer are read in Python."""


class CompiledEngine:
    """Keeps one query fresh; tables are seen only as changes, never stored."""

    def __init__(
        self, program: Program, tables: Mapping[str, Table], dictionary: StringDictionary | None = None
    ) -> None:
        self.program = program
        self.tables = tables
        self.dictionary = dictionary if dictionary is not None else StringDictionary()
        self.module: Module = write_module(program, tables)
        self._code = load_source(self.module.source)
        self.stores = {layout.name: FlatStore(layout) for layout in self.module.layouts}
        self._lookups: list[Any] = [np.zeros(1, np.int64) for _ in self.module.lookups]
        self._filled = -1
        self._ranks = np.zeros(1, np.int64)
        self._control = np.zeros(4, np.int64)
        self._state: Any = None
        self._bundled: tuple[int, ...] = ()
        self._row_by_row = _reading_what_they_assign(program)
        self._shapers = {table: BatchShaper() for table in self.module.triggers}
        self._refused: dict[int, DataError] = {}
        self._result = order(program.result)
        self._empty()

    def warm_up(self, step: Callable[[str], None] = lambda text: None) -> None:
        """Runs every trigger on no rows at all, so that Numba compiles it now and not in the first batch.

        `step` hears what is about to be compiled.
        """
        self._fill_lookups()
        for i, (table, function) in enumerate(self.module.triggers.items(), 1):
            step(f"trigger {i} of {len(self.module.triggers)}, on {table}")
            columns = [self.tables[table].columns[i] for i in function.columns]
            given = (np.zeros(0, np.float64 if column.type.is_float else np.int64) for column in columns)
            run = getattr(self._code, function.name)
            run(0, 0, False, np.zeros(0, np.int64), *given, *self._arguments(function))

    def clear(self) -> None:
        """Back to the state over empty tables."""
        for store in self.stores.values():
            store.clear()
        self._control[:] = 0
        self._empty()

    def keep_result_in_order(self) -> None:
        """Keeps the ordered indexes that reading the result uses from now on, instead of from the first long read."""
        for view in self.module.result.stores if self.module.result is not None else ():
            self.stores[view].keep_orders()

    def _empty(self) -> None:
        """Views that are assigned as a whole have a value over empty tables too."""
        self._fill_lookups()
        for refresh in dict.fromkeys(each for many in self.module.refreshes.values() for each in many):
            self._refresh(refresh)

    def columns_used(self, table: str) -> tuple[int, ...]:
        """Positions of the columns the triggers of a table read."""
        function = self.module.triggers.get(table)
        return function.columns if function else ()

    def apply(self, table: str, changes: Mapping[Row, int]) -> None:
        """Runs the triggers of one table for a change given as rows."""
        if table in self.module.triggers and changes:
            self.apply_columns(table, *self.encode(table, changes))

    def encode(self, table: str, changes: Mapping[Row, int]) -> tuple[dict[int, Column], Column]:
        """Rows as the columns of words that the triggers of a table read, and their multiplicities."""
        types = [column.type for column in self.tables[table].columns]
        columns = {i: self._encode(types[i], [row[i] for row in changes]) for i in self.columns_used(table)}
        return columns, np.fromiter(changes.values(), np.int64, len(changes))

    def apply_columns(
        self, table: str, columns: Mapping[int, Column], multiplicity: Column, each_row: bool = False
    ) -> None:
        """Runs the triggers of one table for a change given as columns of words.

        Views are fresh at the end of the change, or with `each_row` after every row of it.
        """
        function = self.module.triggers.get(table)
        if function is None:
            return
        self._fill_lookups()
        self._check_strings(table, columns)
        given = tuple(columns[i] for i in function.columns)
        refreshes = self.module.refreshes.get(table, ())
        each_row = bool(refreshes) and (each_row or table in self._row_by_row)
        if not each_row:
            given, multiplicity = self._shapers[table].shape(given, multiplicity)
        end = len(multiplicity)
        if each_row and not all(self._is_plain(refresh) for refresh in refreshes):
            for row in range(end):
                self._run(function, row, row + 1, False, multiplicity, given, refreshes)
        else:
            self._run(function, 0, end, each_row, multiplicity, given, refreshes)
        if self._control[0]:
            self._control[0] = 0
            raise DataError("a sum overflows its type")

    def _run(
        self,
        function: Function,
        begin: int,
        end: int,
        each_row: bool,
        multiplicity: Column,
        given: tuple[Column, ...],
        refreshes: Sequence[Function],
    ) -> None:
        """Calls a trigger until it has seen all rows: it comes back when a store has no room left."""
        run = getattr(self._code, function.name)
        while begin < end:
            begin = run(begin, end, each_row, multiplicity, *given, *self._arguments(function))
            if self._control[1]:
                self._control[1] = 0
                if not each_row:
                    raise InternalError(f"{function.name} added more rows than it made room for")
                for refresh in refreshes:
                    self._refresh(refresh)
            elif begin < end:
                self._make_room(function)
        if not each_row:
            for refresh in refreshes:
                self._refresh(refresh)

    def _is_plain(self, refresh: Function) -> bool:
        """The view that is assigned can be emptied by generated code."""
        layout = self.stores[refresh.stores[0]].layout
        return not layout.slices and not layout.ordered

    def _make_room(self, function: Function) -> None:
        """Grows the store a trigger stopped at, by what it said it needs."""
        store = self.stores[function.stores[int(self._control[3])]]
        store.reserve(int(self._control[2]))

    def _refresh(self, function: Function) -> None:
        target = self.stores[function.stores[0]]
        while True:
            target.clear()
            self._control[1] = 0
            getattr(self._code, function.name)(*self._arguments(function))
            if not self._control[1]:
                return
            for view in (name for name in function.stores if name.startswith("scratch ")):
                self.stores[view].reserve(2 * self.stores[view].pool.shape[0])
            target.reserve(2 * target.pool.shape[0])

    def _arguments(self, function: Function) -> tuple[Any, ...]:
        versions = (self._filled, *[store.version for store in self.stores.values()])
        if versions != self._bundled:
            self._bundle(versions)
        return self._state, self._control

    def _bundle(self, versions: tuple[int, ...]) -> None:
        """Tells the state where the arrays are that have moved."""
        if self._state is None:
            self._state = bundle([self._array(store, part) for store, part in self.module.arrays])
        else:
            moved = {
                name for name, old, new in zip(("", *self.stores), self._bundled, versions, strict=True) if old != new
            }
            for i, (store, part) in enumerate(self.module.arrays):
                if store in moved:
                    put(self._state, i, self._array(store, part))
        self._bundled = versions

    def _array(self, store: str, part: str) -> Any:
        if store:
            return self.stores[store].array(part)
        named = {"strings": self._strings, "ranks": self._ranks}
        return named[part] if part in named else self._lookups[int(part.removeprefix("lookup"))]

    # Strings

    def _fill_lookups(self) -> None:
        """Extends the tables of string functions to strings not seen before."""
        if self._filled == len(self.dictionary):
            return
        self._strings = np.array([self.dictionary.code(text) for text in self.module.strings] or [0], np.int64)
        while self._filled != len(self.dictionary):
            size = len(self.dictionary)
            for i, (scalar, var) in enumerate(self.module.lookups):
                self._lookups[i] = self._extended(self._lookups[i], scalar, var, size)
            self._filled = size
        if "ranks[" in self.module.source:
            self._ranks = np.argsort(np.argsort(np.array(self.dictionary.texts, object), kind="stable"), kind="stable")

    def _extended(self, known: Any, scalar: Scalar, var: Var, size: int) -> Any:
        compute = compile_scalar(scalar)
        table = np.empty(size + 1, np.int64)
        start = len(known) if self._filled >= 0 else 0
        table[:start] = known[:start]
        for i in range(start, size + 1):
            text = None if i == 0 else self.dictionary.texts[i - 1]
            try:
                table[i] = self._word(compute({var.name: text}), scalar.type)
            except DataError as error:  # the string may be one of another column
                table[i] = NULL
                self._refused[i - 1] = error
        return table

    def _check_strings(self, table: str, columns: Mapping[int, Column]) -> None:
        """Refuses a change with a string that a function of the view cannot take."""
        if not self._refused:
            return
        refused = np.fromiter(self._refused, np.int64, len(self._refused))
        for i in self.columns_used(table):
            if self.tables[table].columns[i].type.kind is Kind.VARCHAR:
                found = columns[i][np.isin(columns[i], refused)]
                if len(found):
                    raise self._refused[int(found[0])]

    # Values and words

    def _word(self, value: Datum, type: SqlType) -> int:
        if value is None:
            return NULL
        return self.dictionary.code(value) if isinstance(value, str) else int(value)

    def _encode(self, type: SqlType, values: Sequence[Datum]) -> Column:
        if type.kind is Kind.VARCHAR:
            return self.dictionary.encode(values)  # type: ignore[arg-type]
        if type.is_float:
            return np.array([np.nan if value is None else value for value in values], np.float64)
        try:
            words = np.array([NULL if value is None else value for value in values], np.int64)
        except OverflowError as error:
            raise _too_wide(type) from error
        if int(np.count_nonzero(words == NULL)) != values.count(None):
            raise _too_wide(type)
        return words

    def decode(self, word: int, type: SqlType) -> Datum:
        if type.is_float:
            number = float(np.int64(word).view(np.float64))
            return None if number != number else number
        if word == NULL:
            return None
        if type.kind is Kind.VARCHAR:
            return self.dictionary.texts[word]
        return bool(word) if type.kind is Kind.BOOLEAN else int(word)

    # Reading

    def result(self) -> dict[Row, int]:
        """The result rows with their multiplicities: by generated code where there is much to read.

        Of a query with ORDER BY and LIMIT these are all rows, or at least all that can be among the first.
        """
        function = self.module.result
        if function is not None and sum(len(self.stores[view]) for view in function.stores) >= READ_BY_CODE_FROM:
            rows = self._read_by_code(function)
            if rows is not None:
                return rows
        return self._evaluate_result()

    def _read_by_code(self, function: Function) -> dict[Row, int] | None:
        """The result as generated code finds it; None if a number did not fit its word."""
        self._fill_lookups()
        types = [var.type for var in self.program.query.output]
        capacity = max((len(self.stores[view]) for view in function.stores), default=1)
        while True:
            columns = [np.empty(capacity, np.float64 if type.is_float else np.int64) for type in types]
            weights = np.empty(capacity, np.int64)
            self._control[:] = 0
            found = getattr(self._code, function.name)(capacity, weights, *columns, *self._arguments(function))
            overflow, full = self._control[0], self._control[1]
            self._control[:] = 0
            if overflow:
                return None
            if full:
                for view in (name for name in function.stores if name.startswith("scratch ")):
                    self.stores[view].reserve(2 * self.stores[view].pool.shape[0])
            elif found <= capacity:
                break
            capacity = max(capacity, found)
        decoded = [self._decode_column(column[:found], type) for column, type in zip(columns, types, strict=True)]
        rows: dict[Row, int] = {}
        for row, weight in zip(
            zip(*decoded, strict=True) if decoded else [()] * found, weights[:found].tolist(), strict=True
        ):
            rows[row] = rows.get(row, 0) + weight
        return {row: weight for row, weight in rows.items() if weight}

    def _decode_column(self, column: Column, type: SqlType) -> list[Datum]:
        values = column.tolist()
        if type.is_float:
            return [None if value != value else value for value in values]
        if type.kind is Kind.VARCHAR:
            texts = self.dictionary.texts
            return [None if value == NULL else texts[value] for value in values]
        if type.kind is Kind.BOOLEAN:
            return [None if value == NULL else bool(value) for value in values]
        return [None if value == NULL else value for value in values] if type.nullable else values

    def watch(self) -> bool:
        """From now on `changes` tells how the result has changed, if it can."""
        name = result_store(self.program)
        if name is None:
            return False
        self.stores[name].keep_journal()
        self.forget_changes()
        return True

    def forget_changes(self) -> None:
        """The result counts as unchanged from now on."""
        if (name := result_store(self.program)) is not None:
            self.stores[name].take_journal()

    def changes(self) -> dict[Row, int]:
        """How the result has changed since it was asked or watched last, from the rows that were touched."""
        name = result_store(self.program)
        if name is None:
            raise InternalError("the result is not made of the rows of one view")
        before, after = self.stores[name].take_journal()
        change = self._evaluate({name: self._as_map(name, after)})
        for row, count in self._evaluate({name: self._as_map(name, before)}).items():
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
            key = tuple(self.decode(word, type) for word, type in zip(words, types, strict=True))
            copy.add(key, tuple(Dyadic.of(n) if isinstance(n, float) else n for n in numbers))
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


def _too_wide(type: SqlType) -> DataError:
    return DataError(f"a {type} does not fit the 64-bit words of the compiled engine; connect(engine='interpreter')")


def load_source(source: str) -> ModuleType:
    """The generated module, kept as a file so that Numba's cache and debuggers find it."""
    name = "viewlet_triggers_" + hashlib.blake2b(source.encode(), key=runtime_digest(), digest_size=12).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists() or path.read_text() != source:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(source)
        temporary.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise InternalError(f"generated code is not Python: {error}") from error
        raise
    return module


@cache
def runtime_digest() -> bytes:
    """A digest of what generated code calls: it is compiled into it, and Numba's cache does not look there."""
    folder = Path(viewlet.runtime.__file__).parent
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).digest()


def cache_directory() -> Path:
    """Where generated code is kept: VIEWLET_CACHE, or viewlet/ in the user's cache folder."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "viewlet"
    base.mkdir(parents=True, exist_ok=True)
    return base
