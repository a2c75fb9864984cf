"""Turns a database into a stream of batches: inserts, deletes and updates of several tables, mixed.

    small_database(1)  ──►  [{"orders": [((1, ...), 1)], "part": [((3, ...), -1), ((3, ...), 1)]}, ...]

A batch lists, per table, rows with a multiplicity: 1 inserts, -1 deletes, and an update is a delete and an insert. Rows
of all tables arrive interleaved, parents after children as often as before them: views must not care.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import islice
from random import Random

Value = bool | int | float | str | Decimal | date | None
Row = tuple[Value, ...]
Database = dict[str, list[Row]]
Event = tuple[str, Row, int]
Batch = dict[str, list[tuple[Row, int]]]

HELD_BACK = 0.1
"""The largest share of a table that is not loaded at first, but inserted by the stream."""


def batches_of(events: Iterable[Event], batch_size: int) -> Iterator[Batch]:
    """Cut a stream of single-row changes into batches, keeping their order within each table."""
    remaining = iter(events)
    while chunk := list(islice(remaining, batch_size)):
        batch: Batch = {}
        for table, row, multiplicity in chunk:
            batch.setdefault(table, []).append((row, multiplicity))
        yield batch


def insertion(database: Mapping[str, list[Row]]) -> Batch:
    """The whole database as one batch."""
    return {table: [(row, 1) for row in rows] for table, rows in database.items() if rows}


@dataclass(slots=True)
class MixedStream:
    """An endless source of changes to a database that may start empty or loaded.

    `waiting` holds the rows that are not in the database; deleted rows go back there, so the stream never dries up.
    An update copies one column outside the primary key from another row of the same table, which keeps the values as
    biased as the generator made them.
    """

    waiting: Database
    keys: Mapping[str, tuple[int, ...]]
    seed: int = 0
    delete_share: float = 0.25
    update_share: float = 0.15
    present: Database = field(default_factory=dict)
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.waiting = {table: list(rows) for table, rows in self.waiting.items()}
        self.present = {table: list(self.present.get(table, ())) for table in self.waiting}

    def events(self) -> Iterator[Event]:
        """Changes of one row each; an update is two of them."""
        while any(self.waiting.values()) or any(self.present.values()):
            yield from self._choose()()

    def _choose(self) -> Callable[[], Iterator[Event]]:
        chance = self.random.random()
        if not any(self.present.values()):
            return self._insert
        if chance < self.delete_share or not any(self.waiting.values()):
            return self._delete
        return self._update if chance < self.delete_share + self.update_share else self._insert

    def _take(self, rows: Database) -> tuple[str, Row]:
        """Remove a random row; tables are met as often as their share of the rows."""
        tables = [table for table in rows if rows[table]]
        table = self.random.choices(tables, weights=[len(rows[name]) for name in tables])[0]
        position = self.random.randrange(len(rows[table]))
        rows[table][position], rows[table][-1] = rows[table][-1], rows[table][position]
        return table, rows[table].pop()

    def _insert(self) -> Iterator[Event]:
        table, row = self._take(self.waiting)
        self.present[table].append(row)
        yield table, row, 1

    def _delete(self) -> Iterator[Event]:
        table, row = self._take(self.present)
        self.waiting[table].append(row)
        yield table, row, -1

    def _update(self) -> Iterator[Event]:
        table, row = self._take(self.present)
        yield table, row, -1
        changed = self._changed(table, row)
        self.present[table].append(changed)
        yield table, changed, 1

    def _changed(self, table: str, row: Row) -> Row:
        free = [position for position in range(len(row)) if position not in self.keys.get(table, ())]
        pool = self.present[table] + self.waiting[table]
        if not free or not pool:
            return row
        position, source = self.random.choice(free), self.random.choice(pool)
        return (*row[:position], source[position], *row[position + 1 :])


def mixed_batches(
    database: Database, keys: Mapping[str, tuple[int, ...]], batch_size: int, batches: int, seed: int
) -> tuple[Batch, list[Batch]]:
    """What to load first (nearly everything), and a stream of mixed batches over it.

    A few rows are kept back, more of the large tables, so that there is something to insert from the first batch on.
    """
    random = Random(seed)
    before: Database = {table: [] for table in database}
    later: Database = {table: [] for table in database}
    for table, rows in database.items():
        kept_back = min(HELD_BACK, len(rows) / 1000)
        for row in rows:
            (later if random.random() < kept_back else before)[table].append(row)
    stream = MixedStream(later, keys, seed, delete_share=0.35, update_share=0.25, present=before)
    return insertion(before), list(islice(batches_of(stream.events(), batch_size), batches))
