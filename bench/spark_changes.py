"""Changes of TPC-H tables that are real: the newest rows are held back from the load, the oldest are deleted later.

    |------ old ------|------------------ loaded and left alone ------------------|------ held back ------|
    1               first                       key of the table                  last                  largest

A batch inserts rows that were held back and deletes old ones, four to one, over the tables a query reads in proportion
to their sizes; orders come with their line items. Where there are not enough rows for another batch of its size, the
last one is taken back and applied in turn: then its deletes are inserts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sources import plain, schema, tables_read
from bench.streams import ALWAYS_KEPT
from workloads import tpch
from workloads.query import NamedQuery

DELETED = 0.2
"""Deletes among the changes of a batch."""
ROOM = 0.2
"""How much of a table may come and go before batches of one size have to repeat themselves."""
MARGIN = 1.05
"""Rows are found by key, and not every key has the same number of line items."""
MULTIPLICITY = "_multiplicity"

Batch = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the key of a table is cut."""

    column: str
    first: int
    last: int

    @property
    def loaded(self) -> str:
        return f"{self.column} <= {self.last}"

    @property
    def left_alone(self) -> str:
        return f"{self.column} > {self.first} AND {self.column} <= {self.last}"


@dataclass(slots=True)
class Rows:
    """Rows of a table that come or go, in order; which of them are there now."""

    table: pa.Table
    there: Any
    used: int = 0

    def take(self, count: int) -> slice:
        begin, self.used = self.used, min(self.used + count, len(self.table))
        return slice(begin, self.used)

    def present(self) -> pa.Table:
        return self.table.filter(pa.array(self.there))


Slices = dict[str, tuple[slice, slice]]


@dataclass(slots=True)
class ChangeStream:
    """Batches over the tables of one query; `shares` says how much of each table is in a batch of a size."""

    files: Mapping[str, Path]
    cuts: dict[str, Cut]
    shares: dict[int, dict[str, int]]
    different: dict[int, int]
    """How many batches of a size there are rows for."""
    new: dict[str, Rows] = field(default_factory=dict)
    old: dict[str, Rows] = field(default_factory=dict)
    _last: Slices = field(default_factory=dict)
    _is_in: bool = False

    def __post_init__(self) -> None:
        for name, cut in self.cuts.items():
            held_back = _rows_between(self.files[name], cut.column, cut.last + 1, inf)
            oldest = _rows_between(self.files[name], cut.column, -inf, cut.first)
            self.new[name] = Rows(held_back, np.zeros(len(held_back), bool))
            self.old[name] = Rows(oldest, np.ones(len(oldest), bool))

    def next(self, size: int) -> Batch:
        """The next batch of a size."""
        if self.different[size]:
            self.different[size] -= 1
            self._last = {
                name: (self.new[name].take(share - deletes(share)), self.old[name].take(deletes(share)))
                for name, share in self.shares[size].items()
            }
            self._is_in = False
        self._is_in = not self._is_in
        return {name: changes for name in self._last if len(changes := self._changes(name))}

    def _changes(self, name: str) -> pa.Table:
        come, go = self._last[name]
        self.new[name].there[come] = self._is_in
        self.old[name].there[go] = not self._is_in
        sign = 1 if self._is_in else -1
        parts = [(self.new[name].table[come], sign), (self.old[name].table[go], -sign)]
        signed = [
            rows.append_column(MULTIPLICITY, pa.array([weight] * len(rows), pa.int64())) for rows, weight in parts
        ]
        return pa.concat_tables(signed).combine_chunks()

    def present(self) -> Iterator[tuple[str, pa.Table]]:
        """The rows that are there of those that come and go."""
        for name in self.cuts:
            yield name, pa.concat_tables([self.old[name].present(), self.new[name].present()])


def deletes(changes: int) -> int:
    return int(DELETED * changes)


def sizes_of(query: NamedQuery, files: Mapping[str, Path]) -> dict[str, int]:
    """The tables a query reads, with their numbers of rows."""
    return {name: pq.read_metadata(files[name]).num_rows for name in tables_read(query, schema("tpch"))}


def possible(sizes: Mapping[str, int], batch: int) -> bool:
    """Whether the tables are large enough for such a batch to be a change of something."""
    return 2 * batch <= sum(_changing(sizes).values())


def _changing(sizes: Mapping[str, int]) -> dict[str, int]:
    """Tables with a few rows stay as they are."""
    return {name: rows for name, rows in sizes.items() if rows > ALWAYS_KEPT}


def change_stream(files: Mapping[str, Path], sizes: Mapping[str, int], batches: Mapping[int, int]) -> ChangeStream:
    """Changes for so many batches of each size."""
    changing = _changing(sizes)
    total = sum(changing.values())
    shares = {size: {name: max(1, round(size * rows / total)) for name, rows in changing.items()} for size in batches}
    different = {size: min(count, max(1, int(ROOM * total / size))) for size, count in batches.items()}
    cuts = _cuts(files, changing, shares, different)
    if any(cut.first >= cut.last for cut in cuts.values()):
        raise ValueError(f"{total:,} rows are too few for batches of {', '.join(map(str, batches))}")
    return ChangeStream(files, cuts, shares, different)


def _cuts(
    files: Mapping[str, Path],
    rows: Mapping[str, int],
    shares: Mapping[int, Mapping[str, int]],
    different: Mapping[int, int],
) -> dict[str, Cut]:
    """Tables that have a key in common are cut at the same one, so that what belongs together comes together."""
    columns = {name: _key(name) for name in rows}
    largest: dict[str, int] = {}
    come: dict[str, float] = {}
    go: dict[str, float] = {}
    for name, count in rows.items():
        kind = columns[name].partition("_")[2]
        going = sum(deletes(shares[size][name]) * times for size, times in different.items())
        coming = sum(shares[size][name] * times for size, times in different.items()) - going
        largest[kind] = max(largest.get(kind, 0), _largest(files[name], columns[name]))
        come[kind] = max(come.get(kind, 0.0), MARGIN * coming / count)
        go[kind] = max(go.get(kind, 0.0), MARGIN * going / count)
    found: dict[str, Cut] = {}
    for name, column in columns.items():
        kind = column.partition("_")[2]
        top = largest[kind]
        found[name] = Cut(column, min(ceil(go[kind] * top), top), max(0, top - ceil(come[kind] * top)))
    return found


def _key(table: str) -> str:
    return schema("tpch")[table].columns[tpch.KEY_POSITIONS[table][0]].name


def _largest(file: Path, column: str) -> int:
    """The largest key, from what the file says of itself."""
    return max(high for _, high in _ranges(pq.ParquetFile(file), column))


def _ranges(file: pq.ParquetFile, column: str) -> list[tuple[int, int]]:
    """The smallest and the largest key of every row group."""
    at = file.schema.names.index(column)
    groups = [file.metadata.row_group(i).column(at).statistics for i in range(file.num_row_groups)]
    return [(group.min, group.max) for group in groups]


def _rows_between(path: Path, column: str, low: float, high: float) -> pa.Table:
    """The rows with keys from `low` to `high`."""
    file = pq.ParquetFile(path)
    groups = [i for i, (least, most) in enumerate(_ranges(file, column)) if least <= high and most >= low]
    rows = plain(file.read_row_groups(groups))
    keys = rows.column(column)
    return rows.filter(pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high)))
