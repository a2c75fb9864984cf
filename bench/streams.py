"""The order in which a table's rows come and go, cut into the pieces that one refresh takes in.

    insert   +r0 +r1 +r2 +r3 ...
    churn    +r0 +r1 -r0 +r2 -r1 +r3 ...      with a working set of two rows

A step is what happens between two refreshes: one piece of one table in the round-robin streams, and up to one piece of
each table where events of several tables are interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

ALWAYS_KEPT = 100
"""Tables up to this size are dimension tables, which a churning stream leaves alone."""


@dataclass(frozen=True, slots=True)
class Events:
    """Changes of one table in order: which row, and 1 or -1."""

    rows: Any
    signs: Any

    def __len__(self) -> int:
        return len(self.signs)


class Piece(NamedTuple):
    table: str
    begin: int
    end: int


Step = Sequence[Piece]


def insert_events(rows: int) -> Events:
    return Events(np.arange(rows), np.ones(rows, np.int64))


def churn_events(rows: int, working_set: int) -> Events:
    """Inserts up to the working set; from then on each insert follows the delete of the oldest row."""
    if rows <= max(working_set, ALWAYS_KEPT):
        return insert_events(rows)
    later = np.arange(working_set, rows)
    mixed = np.stack([later - working_set, later], axis=1).ravel()
    signs = np.tile(np.array([-1, 1], np.int64), len(later))
    first = insert_events(working_set)
    return Events(np.concatenate([first.rows, mixed]), np.concatenate([first.signs, signs]))


def round_robin(sizes: Mapping[str, int], batch: int) -> Iterator[Step]:
    """A batch of each table in turn until all are exhausted."""
    begins = dict.fromkeys(sizes, 0)
    while begins:
        for table in list(begins):
            begin = begins[table]
            end = min(begin + batch, sizes[table])
            if begin < end:
                yield (Piece(table, begin, end),)
            begins[table] = end
            if end == sizes[table]:
                del begins[table]


def interleaved(tables: Sequence[str], sequence: Any, batch: int) -> Iterator[Step]:
    """Consecutive chunks of a stream whose n-th event belongs to `tables[sequence[n]]`."""
    begins = dict.fromkeys(tables, 0)
    for start in range(0, len(sequence), batch):
        counts = np.bincount(sequence[start : start + batch], minlength=len(tables))
        step = [
            Piece(table, begins[table], begins[table] + int(count))
            for table, count in zip(tables, counts, strict=True)
            if count
        ]
        for piece in step:
            begins[piece.table] = piece.end
        yield step


def net_changes(events: Events, begin: int, end: int) -> tuple[Any, Any]:
    """The rows that are there after a piece and were not before, and the rows that are gone."""
    rows, where = np.unique(events.rows[begin:end], return_inverse=True)
    net = np.bincount(where, weights=events.signs[begin:end], minlength=len(rows))
    return rows[net > 0], rows[net < 0]
