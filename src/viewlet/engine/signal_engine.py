"""The engine of signal views: changes of tables as events, and samples as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.algebra.signal_query import SignalInput, SignalQuery
from viewlet.changes import MULTIPLICITY, Change, RowChange, to_python
from viewlet.errors import DataError
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.types import Column, Kind, Row

if TYPE_CHECKING:
    from viewlet.signals.batches import Batch
    from viewlet.signals.maintain import Arrival, Maintenance


class SignalEngine:
    """Keeps the state of a query per group, and its samples.

    A batch runs at its end, when the tables have its rows: those of groups that are disturbed are read from there.
    """

    name = "kernels"
    keeps_events = False
    """There are no tables to read rows from that are late, corrected or deleted."""

    def __init__(self, plan: SignalQuery, sources: Sources) -> None:
        from viewlet.runtime.dictionary import StringDictionary

        self.plan = plan
        self.digest = f"{plan!r}, state 2"
        self._sources = sources
        self._keys = [sources.tables[plan.inputs[0].table].columns[position] for position in plan.inputs[0].key]
        self._dictionary = StringDictionary()
        self._changes: dict[str, Change] = {}
        self._is_watched = False
        self._made = self._new()

    def _new(self) -> Maintenance:
        from viewlet.signals.check import accept_functions
        from viewlet.signals.maintain import Maintenance
        from viewlet.signals.notation import from_text

        kept, query = [each.is_kept for each in self.plan.inputs], from_text(self.plan.text)
        accept_functions(query)
        return Maintenance(query, kept, self.plan.retain, keeps_events=self.keeps_events)

    # -- batches -------------------------------------------------------------------------------------------------------

    def columns_used(self, table: str) -> tuple[int, ...] | None:
        used = {position for each in self.plan.inputs if each.table == table for position in each.positions}
        return tuple(sorted(used))

    def load(self) -> None:
        self._made = self._new()
        kept = {each.table for each in self.plan.inputs}
        self._changes = {table: self._sources.stores[table].change() for table in sorted(kept)}
        self._advance()
        self.commit()

    def apply(self, table: str, change: Change) -> None:
        self._changes[table] = change

    def finish(self) -> Mapping[Row, int]:
        delta = self._advance()
        if not self._is_watched:
            return {}
        changes: dict[Row, int] = {}
        for batches, weight in ((delta.removed, -1), (delta.added, 1)):
            for batch in batches:
                for row in self._rows(batch):
                    changes[row] = changes.get(row, 0) + weight
        return {row: weight for row, weight in changes.items() if weight}

    def _advance(self) -> Any:
        arrived: list[Arrival] = []
        groups = self._made.groups
        for each in self.plan.inputs:
            arrival, groups = self._arrival(each, self._changes.get(each.table, RowChange({})), groups)
            arrived.append(arrival)
        return self._made.advance(groups, arrived, self._history, self._describe)

    def commit(self) -> None:
        before = self._made.groups.count
        self._made.commit()
        self._changes = {}
        if self._made.groups.count < before:
            self._forget_texts()

    def _forget_texts(self) -> None:
        """Keeps the strings of the groups that are left only."""
        import numpy as np

        from viewlet.runtime.dictionary import StringDictionary

        count = self._made.groups.count
        keys = self._key_values(np.arange(count))
        self._dictionary = StringDictionary()
        self._made.groups = self._groups_of(keys, count)

    def rollback(self) -> None:
        self._made.rollback()
        self._changes = {}

    # -- events --------------------------------------------------------------------------------------------------------

    def _arrival(self, each: SignalInput, change: Change, groups: Any) -> tuple[Arrival, Any]:
        """A change of a table as events of a source, and the groups with new ones; rows without a value are none."""
        import numpy as np

        from viewlet.changes.word_codec import NULL
        from viewlet.signals.batches import Events
        from viewlet.signals.ingest import check_times
        from viewlet.signals.maintain import Arrival

        table = self._sources.tables[each.table]
        held = change.held_columns(each.positions) or change.columns(table, each.positions, self._dictionary)
        words = held.words
        times = words[each.time]
        value = np.stack([self._numbers(words[i], scale) for i, scale in zip(each.values, each.scales, strict=True)], 1)
        present = np.isfinite(value).all(axis=1)
        keys = tuple(self._own_words(column, words[i], held) for i, column in zip(each.key, self._keys, strict=True))
        ends = None if each.end is None else words[each.end]
        for position in (each.time, *(() if each.end is None else (each.end,))):
            name = f"{table.name}.{table.columns[position].name}"
            if (words[position] == NULL).any():
                raise DataError(f"{name} is NULL in a row: an event needs a time")
            check_times(name, words[position])
        weights = held.multiplicity
        if not present.all():
            value, times, weights = value[present], times[present], weights[present]
            keys = tuple(key[present] for key in keys)
            ends = None if ends is None else ends[present]
        source = self._made.sources[self.plan.inputs.index(each)]
        if source.is_complex:
            value = value[:, :1] + 1j * value[:, 1:]
        slots, groups = groups.find(keys, len(times))
        return Arrival(Events(slots, times, value, ends), weights), groups

    def _numbers(self, words: Any, scale: int) -> Any:
        """Numbers of words, NaN for NULL."""
        import numpy as np

        from viewlet.changes.word_codec import NULL
        from viewlet.signals.ingest import scaled

        return words if words.dtype == np.float64 else np.where(words == NULL, np.nan, scaled(words, scale))

    def _own_words(self, column: Column, words: Any, held: Any) -> Any:
        """The words of a key; codes of strings are those of this engine's dictionary, not of the change's."""
        import numpy as np

        from viewlet.changes.word_codec import NULL

        if column.type.kind is not Kind.VARCHAR or held.dictionary is self._dictionary:
            return words
        codes, places = np.unique(words, return_inverse=True)
        texts = [None if code == NULL else held.dictionary.texts[code] for code in codes.tolist()]
        return self._dictionary.encode(texts)[places]

    def _history(self, number: int) -> Arrival:
        """All events that the rows of a table are."""
        each = self.plan.inputs[number]
        return self._arrival(each, self._sources.stores[each.table].change(), self._made.groups)[0]

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _key_values(self, slots: Any) -> list[Row]:
        from viewlet.changes.word_codec import decode_words

        held = self._made.groups.words
        columns = [
            decode_words(column.type, words[slots], self._dictionary)
            for column, words in zip(self._keys, held, strict=True)
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(slots)

    def _describe(self, slot: int) -> str:
        import numpy as np

        if not self._keys:
            return "of the signal"
        (key,) = self._key_values(np.array([slot]))
        shown = (
            f"{column.name} = {to_python(column.type)(value)!r}" for column, value in zip(self._keys, key, strict=True)
        )
        return f"of {', '.join(shown)}"

    def _rows(self, batch: Batch) -> list[Row]:
        import numpy as np

        from viewlet.signals.rows import times_of, value_columns

        form = self._made.form
        times, ends = times_of(form, batch)
        columns: list[Any] = [times.tolist()]
        if ends is not None:
            columns.append(ends.tolist())
        for each in value_columns(form):
            numbers = each.of(batch.value)
            shown: Any = np.where(np.isfinite(numbers), numbers, None)
            found = shown.tolist()
            columns.append(found if each.size is None else list(map(tuple, found)))
        keys = self._key_values(batch.slot)
        return [(*key, *rest) for key, rest in zip(keys, zip(*columns, strict=True), strict=True)]

    def result(self) -> Mapping[Row, int]:
        return {row: 1 for chunk in self._made.chunks for row in self._rows(chunk)}

    def count(self) -> int:
        return len(self._made)

    def arrow(self) -> Any:
        """All samples; the keys of a group are converted once."""
        import numpy as np
        import pyarrow as pa

        from viewlet.runtime.arrow_columns import arrow_column
        from viewlet.signals.batches import together
        from viewlet.signals.ingest import no_events
        from viewlet.signals.rows import arrow_times, arrow_values, times_of, value_columns

        form, groups = self._made.form, self._made.groups
        batch = together(self._made.chunks) if self._made.chunks else None
        if batch is None:
            batch = self._made.program.run([no_events(each) for each in self._made.sources])
        slots = pa.array(batch.slot)
        columns: dict[str, Any] = {}
        for column, words in zip(self._keys, groups.words, strict=True):
            columns[f"k{len(columns)}"] = arrow_column(column.type, words, self._dictionary).take(slots)
        times, ends = times_of(form, batch)
        columns["t"] = arrow_times(form, times)
        if ends is not None:
            columns["e"] = arrow_times(form, ends)
        for number, each in enumerate(value_columns(form)):
            columns[f"v{number}"] = arrow_values(each, batch.value)
        columns[MULTIPLICITY] = pa.array(np.ones(len(batch), np.int64))
        return pa.table(columns)

    def watch(self) -> bool:
        self._is_watched = True
        return True

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save(self, writer: StateWriter) -> dict[str, object]:
        import numpy as np

        keys = self._key_values(np.arange(self._made.groups.count)) if self._keys else []
        writer.rows("keys", ((key, (slot,)) for slot, key in enumerate(keys)), len(self._keys), 1)
        facts, arrays = self._made.save()
        for name, array in arrays.items():
            writer.words(name, array)
        return facts

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self._made = self._new()
        held = sorted(reader.rows("keys", len(self._keys)), key=lambda item: item[1]) if self._keys else []
        self._made.resume(self._groups_of([key for key, _ in held], layout["groups"]), layout, reader.words)
        return True

    def _groups_of(self, keys: list[Row], count: int) -> Any:
        from viewlet.changes.word_codec import encode_words
        from viewlet.signals.groups import Groups

        words = tuple(
            encode_words(column.type, [key[i] for key in keys], self._dictionary) for i, column in enumerate(self._keys)
        )
        return Groups.numbered(words, count)

    def stats(self) -> dict[str, object]:
        made = self._made
        stored = {"groups": made.groups.count, "samples": len(made), "waiting": made.waiting}
        return {"stored": stored, "late": made.late}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {}
