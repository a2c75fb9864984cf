"""The compiled engine: a trigger program running as generated code over flat arrays."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Scalar, Var, View
from viewlet.algebra.order import order
from viewlet.algebra.traverse import walk
from viewlet.codegen.module import Function, Module, write_module
from viewlet.errors import DataError
from viewlet.rings import Dyadic
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore
from viewlet.runtime.wide import double_of
from viewlet.triggers.program import Program
from viewlet.triggers.store import MapStore
from viewlet.types import Datum, Kind, Row, SqlType, Table

Column = Any


class CompiledEngine:
    """Keeps one query fresh; tables are seen only as changes, never stored."""

    def __init__(self, program: Program, tables: Mapping[str, Table], dictionary: StringDictionary | None = None) -> None:
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
        self.seconds: dict[str, float] = {}

    def columns_used(self, table: str) -> tuple[int, ...]:
        """Positions of the columns the triggers of a table read."""
        function = self.module.triggers.get(table)
        return function.columns if function else ()

    def apply(self, table: str, changes: Mapping[Row, int]) -> None:
        """Runs the triggers of one table for a change given as rows."""
        used = self.columns_used(table)
        if table not in self.module.triggers or not changes:
            return
        types = [column.type for column in self.tables[table].columns]
        columns = {i: self._encode(types[i], [row[i] for row in changes]) for i in used}
        self.apply_columns(table, columns, np.fromiter(changes.values(), np.int64, len(changes)))

    def apply_columns(self, table: str, columns: Mapping[int, Column], multiplicity: Column) -> None:
        """Runs the triggers of one table for a change given as columns of words."""
        function = self.module.triggers.get(table)
        if function is None:
            return
        started = time.perf_counter()
        run = getattr(self._code, function.name)
        given = tuple(columns[i] for i in function.columns)
        begin, end = 0, len(multiplicity)
        for view in function.direct:
            self.stores[view].reserve(end + 2)
        self._fill_lookups()
        while begin < end:
            begin = run(begin, end, multiplicity, *given, *self._arguments(function))
            if begin < end:
                self._make_room(function)
        self.seconds[table] = self.seconds.get(table, 0.0) + time.perf_counter() - started
        for refresh in self.module.refreshes.get(table, ()):
            self._refresh(refresh)
        if self._control[0]:
            self._control[0] = 0
            raise DataError("a sum overflows its type")

    def _make_room(self, function: Function) -> None:
        """Grows the store a trigger stopped at, by what it said it needs."""
        store = self.stores[function.stores[int(self._control[3])]]
        store.reserve(max(int(self._control[2]), store.pool.shape[0] // 2))

    def _refresh(self, function: Function) -> None:
        target = self.stores[function.stores[0]]
        while True:
            room = target.pool.shape[0]
            target.clear()
            target.reserve(room)
            self._control[1] = 0
            getattr(self._code, function.name)(*self._arguments(function))
            if not self._control[1]:
                return
            for view in (name for name in function.stores if name.startswith("scratch ")):
                self.stores[view].reserve(2 * self.stores[view].pool.shape[0])
            target.reserve(2 * target.pool.shape[0])

    def _arguments(self, function: Function) -> tuple[Any, ...]:
        arrays = tuple(array for view in function.stores for array in self.stores[view].arrays())
        return (*arrays, *self._lookups, self._strings, self._ranks, self._control)

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
            table[i] = self._word(compute({var.name: text}), scalar.type)
        return table

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
            return np.array([NULL if value is None else value for value in values], np.int64)
        except OverflowError as error:
            raise DataError("the compiled engine holds 64-bit values: " + str(error)) from error

    def decode(self, word: int, type: SqlType) -> Datum:
        if type.is_float:
            number = float(double_of(word))
            return None if number != number else number
        if word == NULL:
            return None
        if type.kind is Kind.VARCHAR:
            return self.dictionary.texts[word]
        return bool(word) if type.kind is Kind.BOOLEAN else int(word)

    # Reading

    def result(self) -> dict[Row, int]:
        """The result rows with their multiplicities."""
        wanted = {node.name for node in walk(self.program.result) if isinstance(node, View)}
        state = State({}, {}, {name: self._as_map(name) for name in wanted})
        rows = evaluate(order(self.program.result), self.program.query.output, state)
        return {row: int(number) for row, number in rows.items()}  # type: ignore[arg-type]

    def _as_map(self, name: str) -> MapStore:
        view, store = self.program.view(name), self.stores[name]
        copy = MapStore([f.name for f in view.fields], view.presence)
        types = [key.type for key in view.keys]
        for words, numbers in store.items():
            key = tuple(self.decode(word, type) for word, type in zip(words, types, strict=True))
            copy.add(key, tuple(Dyadic.of(n) if isinstance(n, float) else n for n in numbers))
        return copy


def load_source(source: str) -> ModuleType:
    """The generated module, kept as a file so that Numba's cache and debuggers find it."""
    name = "viewlet_triggers_" + hashlib.blake2b(source.encode(), digest_size=12).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists() or path.read_text() != source:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(source)
        temporary.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cache_directory() -> Path:
    """Where generated code is kept: VIEWLET_CACHE, or viewlet/ in the user's cache folder."""
    chosen = os.environ.get("VIEWLET_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "viewlet"
    base.mkdir(parents=True, exist_ok=True)
    return base
