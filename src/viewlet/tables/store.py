"""The rows of a base table, in the form that suits its readers.

| form         | class                            | when                                                     |
|--------------|----------------------------------|----------------------------------------------------------|
| a dictionary | `viewlet.triggers.store.MapStore`| at first, and when the interpreter reads single rows     |
| flat arrays  | `viewlet.runtime.table.FlatTable`| from a large batch of columns, or snapshot, on           |

A table changes its form between two steps and keeps its contents. Small tables and interactive use stay with the
dictionary, which needs neither NumPy nor Numba; so do tables with values wider than a 64-bit word.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, Changes, rows_to_arrow, sorted_rows
from viewlet.errors import DataError
from viewlet.tables.checks import check_rows, refuse_absent, refuse_duplicate
from viewlet.tables.sorted_arrow import MOST_CHANGES, SortedArrow
from viewlet.tables.static import check_inserts
from viewlet.triggers.statistics import SAMPLE, Size, sampled_size
from viewlet.triggers.store import MapStore, Payload, UndoLog
from viewlet.types import Kind, Row, Table, TableKind

if TYPE_CHECKING:
    from viewlet.runtime.dictionary import StringDictionary
    from viewlet.runtime.table import FlatTable, RowBatch

FLAT_FROM = 256
"""Rows of a batch of columns from which a table moves to flat arrays, once compiled code is loaded anyway."""
WORTH_LOADING = 200_000
"""Rows of a batch of columns from which loading Numba for the table alone pays."""


def flat_from() -> int:
    """Rows of a batch of columns from which a table moves to flat arrays; as plain Python they would be slow."""
    if os.environ.get("VIEWLET_JIT") == "0":
        return sys.maxsize
    return FLAT_FROM if "viewlet.runtime.jit" in sys.modules else WORTH_LOADING


class TableStore:
    """The rows of one base table with their multiplicities; `dictionary` gives the codes of strings."""

    def __init__(self, schema: Table, log: UndoLog, dictionary: Callable[[], StringDictionary]) -> None:
        self.schema = schema
        self._log = log
        self._dictionary = dictionary
        self._form: MapStore | FlatTable = MapStore(log=log)
        self._total: int | None = 0
        """How many rows a dictionary has, repeats included, if that is known."""
        self._sorted: SortedArrow | None = None
        """The rows as Arrow, as they were when they were last read that way, and what has changed since."""
        self._checked: tuple[Change, RowBatch] | None = None
        """The change that was checked last, as flat arrays take it."""
        names = schema.column_names
        self._key = tuple(names.index(name) for name in schema.primary_key)
        self._every = range(len(names))
        varchars = (i for i, column in enumerate(schema.columns) if column.type.kind is Kind.VARCHAR)
        self.texts = frozenset(i for i in varchars if self._key and i not in self._key)
        """Columns of strings that flat arrays hold as such."""
        self.coded = frozenset(self._every) - self.texts
        """The columns of which they hold words."""
        self._is_static = schema.kind is TableKind.STATIC
        self._fits = not any(column.type.is_wide for column in schema.columns)

    # -- form -------------------------------------------------------------------------------------------------------

    @property
    def is_flat(self) -> bool:
        return not isinstance(self._form, MapStore)

    def takes_columns(self, rows: int) -> bool:
        """Whether a batch of so many rows is better given as columns."""
        if not self._fits:
            return False
        if self.is_flat:
            return True
        return rows >= flat_from()

    @staticmethod
    def _flat_class() -> type[FlatTable]:
        from viewlet.runtime.table import FlatTable

        return FlatTable

    def _new_flat(self) -> FlatTable:
        return self._flat_class()(self.schema, self._dictionary(), self.texts)

    def _as_map(self) -> MapStore:
        """The rows in a dictionary, from now on."""
        form = self._form
        if not isinstance(form, MapStore):
            rows = MapStore(log=self._log)
            rows.add_rows(form.columns().rows())
            self._take(rows)
            return rows
        return form

    def _as_flat(self) -> FlatTable | None:
        """The rows in flat arrays, from now on; None if they do not fit."""
        form = self._form
        if isinstance(form, MapStore):
            flat = self._new_flat()
            batch = self._batch(flat, form.change())
            if batch is None:
                return None
            flat.add(batch)
            self._take(flat)
            return flat
        return form

    def _take(self, form: MapStore | FlatTable) -> None:
        """Changes the form; undone with the batch, so that earlier steps of the undo log find the form they changed."""
        self._log_facts()
        self._total = None
        self._form = form

    def _log_facts(self) -> None:
        """Lets a failed batch bring back what is known of the rows."""
        before = self._form, self._total, self._sorted
        self._log.record(lambda: self._set_facts(*before))

    def _set_facts(self, form: MapStore | FlatTable, total: int | None, arrow: SortedArrow | None) -> None:
        self._form, self._total, self._sorted = form, total, arrow

    def _batch(self, flat: FlatTable, change: Change) -> RowBatch | None:
        """A change as flat arrays take it; None if a value or a multiplicity is too large for them."""
        try:
            return flat.batch(change)
        except (DataError, OverflowError, UnicodeEncodeError):
            return None

    def _flat_batch(self, change: Change) -> tuple[FlatTable, RowBatch] | None:
        """The flat table and the change as it takes it, if the table is flat or becomes so with this change."""
        if not self.is_flat:
            columns = change.held_columns(())
            if columns is None or not columns.holds(self._every) or not self.takes_columns(len(change)):
                return None
        flat = self._as_flat()
        if flat is None:
            return None
        if self._checked is not None and self._checked[0] is change:
            return flat, self._checked[1]
        batch = self._batch(flat, change)
        return None if batch is None else (flat, batch)

    # -- changes ----------------------------------------------------------------------------------------------------

    def check(self, change: Change) -> None:
        """Refuses a change that deletes rows which are not there, or leaves a primary key twice."""
        self._checked = None
        if self._is_static:
            columns = change.held_columns(())
            check_inserts(self.schema, change.rows().values() if columns is None else columns.multiplicity.tolist())
        taken = self._flat_batch(change)
        if taken is None:
            check_rows(self.schema, self._key, self._as_map(), change.rows())
            return
        flat, batch = taken
        if (row := flat.first_absent(batch)) >= 0:
            found = flat.row(batch, row)
            refuse_absent(self.schema, found, flat.count(batch, row))
        if (row := flat.first_duplicate(batch)) >= 0:
            refuse_duplicate(self.schema, flat.row(batch, row))
        self._checked = change, batch

    def add_change(self, change: Change) -> None:
        """Adds a change that has been checked."""
        taken = self._flat_batch(change)
        self._checked = None
        self._log_facts()
        self._note(change)
        if taken is None:
            self._as_map().add_rows(change.rows())
            return
        flat, batch = taken
        image = flat.begin()
        self._log.record(lambda: flat.undo(batch, image))
        flat.add(batch)

    def _note(self, change: Change) -> None:
        """Keeps what is known of the rows true."""
        if self._sorted is not None:
            small = len(change) <= MOST_CHANGES
            self._sorted = self._sorted.after(change.rows()) if small else None
        if self._total is not None:
            self._total = None if self.is_flat else self._total + sum(change.rows().values())

    def fill(self, held: Any, may_be_flat: bool = True) -> None:
        """Replaces everything by the rows of a snapshot, as `held_arrow` gives them."""
        flat = self._flat_rows(held) if may_be_flat and self.takes_columns(held.num_rows) else None
        self._take(self._map_rows(held) if flat is None else flat)

    def _flat_rows(self, held: Any) -> FlatTable | None:
        """The rows of a snapshot in flat arrays; None if they do not fit."""
        from viewlet.runtime.arrow_columns import held_change

        flat = self._new_flat()
        change = held_change(self.schema, held, flat.dictionary, self.texts)
        batch = None if change is None else self._batch(flat, change)
        if batch is None:
            return None
        flat.add(batch)
        return flat

    def _map_rows(self, held: Any) -> MapStore:
        from viewlet.runtime.durable.rows import from_arrow

        made = MapStore(log=self._log)
        made.assign(dict(from_arrow(held, len(self._every))))
        return made

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._form)

    @property
    def total(self) -> int:
        """How many rows there are, repeats included."""
        form = self._form
        if not isinstance(form, MapStore):
            return form.total
        if self._total is None:
            self._total = sum(weight for (weight,) in form.payloads())
        return self._total

    def arrow(self) -> Any:
        """All rows as Arrow, sorted by all columns; after a small change, made from what was read before."""
        if self._sorted is None:
            self._sorted = SortedArrow(self._sort(), self.schema.columns)
        self._sorted = self._sorted.brought_up_to_date()
        return self._sorted.arrow

    def held_arrow(self) -> Any:
        """All rows as a snapshot has them: values in the engine's representation, and multiplicities."""
        form = self._form
        if isinstance(form, MapStore):
            from viewlet.runtime.durable.rows import to_arrow

            return to_arrow(form.items(), len(self._every), 1)
        from viewlet.runtime.arrow_columns import held_arrow

        return held_arrow(form.columns())

    def _sort(self) -> Any:
        form = self._form
        if isinstance(form, MapStore):
            return rows_to_arrow(self.schema.columns, sorted_rows(form.multiplicities()))
        from viewlet.runtime.arrow_columns import sorted_arrow

        return sorted_arrow(form.columns())

    def with_keys(self, keys: Sequence[Row]) -> Changes:
        """The rows with these primary keys."""
        form = self._form
        if isinstance(form, MapStore):
            found = dict.fromkeys(row for key in keys for row in form.slice(self._key, key))
            return dict.fromkeys(found, 1)
        return form.with_keys(keys).rows()

    def change(self) -> Change:
        """All rows, as the change that inserts them."""
        form = self._form
        return form.change() if isinstance(form, MapStore) else form.columns()

    def size(self, width: int) -> Size:
        """How large it is, distinct values estimated from a sample."""
        form = self._form
        if isinstance(form, MapStore):
            return form.size(width)
        return sampled_size(list(form.sample(SAMPLE).rows()), len(form), width)

    def items(self) -> Iterable[tuple[Row, Payload]]:
        form = self._form
        if isinstance(form, MapStore):
            return form.items()
        return ((row, (weight,)) for row, weight in form.columns().rows().items())

    # What the interpreter reads, row by row: the table then is a dictionary.

    def get(self, key: Row) -> Payload | None:
        return self._as_map().get(key)

    def keys(self) -> Iterable[Row]:
        return self._as_map().keys()

    def slice(self, positions: tuple[int, ...], part: Row) -> Iterator[Row]:
        return self._as_map().slice(positions, part)

    def field_index(self, name: str) -> int:
        return 0

    def add(self, key: Row, values: Payload) -> None:
        self._log_facts()
        self._total = self._sorted = None
        self._as_map().add(key, values)
