"""The rows of a base table in a flat store, with an index on the primary key, or on whole rows if there is none.

    t (a, k, b), PRIMARY KEY (k)    key (k)          payload (a, b)
    t (a, b)                        key (a, b)       payload (count)

Words are those of generated code (`changes/word_codec.py`), doubles as their bits. Multiplicities, and their sum, stay
below `MOST_ROWS`, so that no sum overflows: a table with more rows does not belong here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.changes import Change, ColumnChange, RowChange
from viewlet.changes.word_codec import encode_words
from viewlet.runtime.columns import net_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Image, Layout
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.probe import SIZE
from viewlet.runtime.state import bundle, bundle_lines
from viewlet.runtime.table_rows import (
    APPLIED,
    FREED,
    TOTAL,
    USED,
    add_rows,
    collect_texts,
    find_keys,
    first_absent,
    first_duplicate,
    first_present,
    keys_increase,
)
from viewlet.runtime.text_heap import TextHeap
from viewlet.types import Row, Table

MOST_ROWS = 2**62
_MANY_ROWS = 2_000
"""Rows from which copying the columns of a batch to one place is more work than finding them in several."""
_FEW_BYTES = 1 << 20
"""Bytes of strings that are gone for which nothing is moved."""
Words = Any
Undo = tuple[Image, Words]


@dataclass(frozen=True, slots=True)
class RowBatch:
    """The change of a table as its store takes it: columns of words, and multiplicities.

    A row that is deleted occurs once.
    """

    columns: Sequence[Words] | Words
    words: Any
    """The columns as kernels take them."""
    weights: Words
    deletes: bool
    """Whether any multiplicity is negative."""
    texts_end: int
    """Where the strings of the batch end, behind those of the table."""

    def __len__(self) -> int:
        return len(self.weights)


class FlatTable:
    """The rows of one base table."""

    def __init__(self, schema: Table, dictionary: StringDictionary, texts: Collection[int] = ()) -> None:
        self.schema = schema
        self.dictionary = dictionary
        self._texts = frozenset(texts)
        self._heap = TextHeap()
        names = schema.column_names
        key = tuple(names.index(name) for name in schema.primary_key)
        self.order = (*key, *(i for i in range(len(names)) if i not in key))
        """The columns in the order of their words."""
        fields = tuple(f"c{i}" for i in self.order[len(key) :]) if key else ("count",)
        self._arity = len(key) or len(names)
        self._keyed = bool(key)
        self._store = FlatStore(Layout(schema.name, self._arity, fields, ("count",) * len(fields)))
        self._floats = frozenset(i for i, column in enumerate(schema.columns) if column.type.is_float)
        self._coded = tuple(i for i in range(len(names)) if i not in self._texts)
        self._is_text = np.array([i in self._texts for i in self.order], np.bool_)
        self._notes = np.zeros(4, np.int64)

    def __len__(self) -> int:
        """How many distinct rows there are."""
        return len(self._store)

    @property
    def total(self) -> int:
        """How many rows there are, repeats included."""
        return int(self._notes[TOTAL])

    # -- changes ----------------------------------------------------------------------------------------------------

    def batch(self, change: Change) -> RowBatch | None:
        """A change that has all columns, as the store takes it; None if its multiplicities are too large."""
        columns = change.held_columns(())
        if columns is None or columns.dictionary is not self.dictionary or not columns.holds(self._coded):
            columns = None
        if columns is None:
            rows = change if isinstance(change, RowChange) else RowChange(change.rows())
            words, values = rows.columns(self.schema, self._coded, self.dictionary), list(rows.rows())
            texts: dict[int, Any] = {i: [row[i] for row in values] for i in self._texts}
        else:
            if len(columns) > 1 and not columns.is_net and columns.multiplicity.min() < 0:
                columns = net_columns((columns,))
            words = columns
            texts = {i: columns.texts[i] if i in columns.texts else self._decoded(columns, i) for i in self._texts}
        weights, count = words.multiplicity, len(words.multiplicity)
        least, most = (int(weights.min()), int(weights.max())) if count > 1 else (int(sum(weights)),) * 2
        if max(-least, most) * count + self.total >= MOST_ROWS:
            return None
        return self._batch(words.words, texts, weights, least < 0)

    def _batch(self, words: Mapping[int, Words], texts: Mapping[int, Any], weights: Words, deletes: bool) -> RowBatch:
        if texts:
            self._collect()
        end, lines = int(self._notes[USED]), []
        for i in self.order:
            if i in texts:
                line, end = self._heap.write(texts[i], end)
            else:
                line = words[i].view(np.int64) if i in self._floats else words[i]
            lines.append(line)
        if len(weights) >= _MANY_ROWS:
            columns = [np.ascontiguousarray(line) for line in lines]
            return RowBatch(columns, bundle(columns), weights, deletes, end)
        matrix = np.concatenate(lines).reshape(len(lines), len(weights))
        return RowBatch(matrix, bundle_lines(matrix), weights, deletes, end)

    def _decoded(self, change: ColumnChange, position: int) -> list[str | None]:
        return [self.dictionary.text(code) for code in change.words[position].tolist()]

    def _collect(self) -> None:
        """Between two batches: takes the bytes of strings that are gone for new ones, once they are the most."""
        used, store = int(self._notes[USED]), self._store
        if self._notes[FREED] > max(used // 2, _FEW_BYTES):
            places = np.flatnonzero(self._is_text)
            collect_texts(
                store.pool, store.live, store.meta, places, self._heap.bytes, np.empty(used, np.uint8), self._notes
            )

    def first_absent(self, batch: RowBatch) -> int:
        """The number of the first row that is deleted more often than it is there; -1 if there is none."""
        if not batch.deletes:
            return -1
        store, width = self._store, len(self.order)
        heap = self._heap.bytes
        return int(
            first_absent(store.pool, store.index, batch.words, batch.weights, width, self._arity, self._is_text, heap)
        )

    def first_duplicate(self, batch: RowBatch) -> int:
        """The number of the first row whose primary key would be there twice; -1 if there is none."""
        if not self._keyed:
            return -1
        store, rows = self._store, len(batch)
        if rows == 1 or keys_increase(batch.words, rows, self._arity):
            return int(first_present(store.pool, store.index, batch.words, batch.weights, self._arity))
        index = np.zeros(1 << (2 * rows).bit_length(), np.uint64)
        groups, sums = np.empty(rows, np.int64), np.empty(rows, np.int64)
        found = first_duplicate(
            store.pool, store.index, batch.words, batch.weights, self._arity, index, groups, sums
        )  # fmt: skip
        return int(found)

    def row(self, batch: RowBatch, row: int) -> Row:
        """A row of a batch as values, for a message."""
        words = {position: batch.columns[line][row : row + 1] for line, position in enumerate(self.order)}
        return next(iter(self._change(words, np.ones(1, np.int64)).rows()))

    def count(self, batch: RowBatch, row: int) -> int:
        """How often a row of a batch is there."""
        found = self.row(batch, row)
        key = tuple(found[position] for position in self.order[: self._arity])
        return self.with_keys([key]).rows().get(found, 0)

    def begin(self) -> Undo | None:
        """Before a batch: no change of it has been made. What `undo` needs, where calls can be interrupted."""
        self._notes[APPLIED] = 0
        return None if ENABLED else (self._store.image(), self._notes.copy())

    def add(self, batch: RowBatch) -> None:
        """Adds a batch that has been checked."""
        self._store.reserve(len(batch))
        self._add(batch, 1)

    def undo(self, batch: RowBatch, image: Undo | None) -> None:
        """Takes back what `add` has done since `begin`, if anything; may be repeated after an exception."""
        if image is not None:
            self._store.put_back(image[0])
            self._notes[:] = image[1]
            return
        self._store.repair()
        if self._notes[APPLIED]:
            self._store.reserve(len(batch))
            self._add(batch, -1)

    def _add(self, batch: RowBatch, sign: int) -> None:
        store = self._store
        add_rows(
            store.pool, store.index, store.meta, store.live, batch.words, batch.weights, sign, len(self.order),
            self._arity, self._is_text, batch.texts_end, self._notes,
        )  # fmt: skip

    # -- reading ----------------------------------------------------------------------------------------------------

    def columns(self) -> ColumnChange:
        """All rows, as the change that inserts them."""
        return self._columns_at(np.flatnonzero(self._store.live[: self._store.meta[SIZE]]))

    def sample(self, rows: int) -> ColumnChange:
        """So many rows, or all if there are fewer, chosen at random but always the same."""
        slots = np.flatnonzero(self._store.live[: self._store.meta[SIZE]])
        if len(slots) > rows:
            slots = np.sort(np.random.default_rng(rows).choice(slots, rows, replace=False))
        return self._columns_at(slots)

    def with_keys(self, keys: Sequence[Row]) -> ColumnChange:
        """The rows with these keys: values of the primary key, or whole rows if there is none."""
        words = np.empty((self._arity, len(keys)), np.int64)
        for line, position in enumerate(self.order[: self._arity]):
            type, values = self.schema.columns[position].type, [key[line] for key in keys]
            words[line] = encode_words(type, values, self.dictionary).view(np.int64)
        slots = np.empty(len(keys), np.int64)
        find_keys(self._store.pool, self._store.index, bundle_lines(words), self._arity, slots)
        return self._columns_at(np.unique(slots[slots >= 0]))

    def _columns_at(self, slots: Words) -> ColumnChange:
        rows = self._store.pool[slots]
        words = {position: np.ascontiguousarray(rows[:, line]) for line, position in enumerate(self.order)}
        weights = np.ones(len(slots), np.int64) if self._keyed else np.ascontiguousarray(rows[:, self._arity])
        return self._change(words, weights)

    def _change(self, words: dict[int, Words], weights: Words) -> ColumnChange:
        """Rows with these words: doubles are held as their bits."""
        typed = {i: words[i].view(np.float64) if i in self._floats else words[i] for i in self._coded}
        texts = {i: self._heap.arrow(words[i]) for i in self._texts}
        return ColumnChange(typed, weights, self.schema, self.dictionary, texts)

    def nbytes(self) -> int:
        return self._store.nbytes() + len(self._heap.bytes)
