"""What is known about tables when a view is compiled: sizes, distinct values, and how often each table changes.

Sizes are meant to be those of the steady state (thesis, section 3.6.4). What is not known takes a default: a table of
`DEFAULT_ROWS` rows, `DEFAULT_FANOUT` rows for each value of a column, one change of `batch_rows` rows to every table
per unit of time, and one reading of the result per change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from viewlet.types import Row, Table

DEFAULT_ROWS = 100_000.0
DEFAULT_FANOUT = 10.0
DEFAULT_BATCH_ROWS = 1.0
SAMPLE = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of a relation, and distinct values of each of its columns."""

    rows: float
    distinct: tuple[float, ...]

    def change(self, rows: float) -> Size:
        """The size of a change of that many rows."""
        return Size(rows, tuple(min(rows, values) for values in self.distinct))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates are relative: only their proportions matter."""

    sizes: Mapping[str, Size] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    query_rate: float | None = None
    batch_rows: float = DEFAULT_BATCH_ROWS
    guessed: bool = False
    """The sizes have been inferred from the query, not measured."""

    @property
    def known(self) -> bool:
        return bool(self.sizes) and not self.guessed

    def size(self, table: Table) -> Size:
        return self.sizes.get(table.name) or default_size(table)

    def rate(self, table: str) -> float:
        """How often the table changes."""
        return self.rates.get(table, 1.0)

    def reading_rate(self, tables: Iterable[str]) -> float:
        """How often the result is read; unless it is known, after each change."""
        return self.query_rate if self.query_rate is not None else sum(self.rate(table) for table in tables)


UNKNOWN = Statistics()


def default_size(table: Table) -> Size:
    """The default size of a table: a key of one column is unique, other values occur `DEFAULT_FANOUT` times."""
    unique = table.primary_key if len(table.primary_key) == 1 else ()
    distinct = (DEFAULT_ROWS / (1 if name in unique else DEFAULT_FANOUT) for name in table.column_names)
    return Size(DEFAULT_ROWS, tuple(distinct))


def measured_size(rows: Iterable[Row], count: int, width: int) -> Size:
    """The size of a relation of `count` rows, distinct values estimated from about `SAMPLE` of them.

    >>> measured_size([(1, 7), (2, 7), (3, 8)], 3, 2)
    Size(rows=3.0, distinct=(3.0, 2.0))
    """
    return sampled_size(list(rows) if count <= SAMPLE else list(_sampled(iter(rows), count // SAMPLE)), count, width)


def sampled_size(sample: Sequence[Row], count: int, width: int) -> Size:
    """The size of a relation of `count` rows, distinct values estimated from some of them."""
    columns = list(zip(*sample, strict=True)) if sample else [()] * width
    return Size(float(count), tuple(_distinct(column, count) for column in columns))


def _sampled(rows: Iterator[Row], stride: int) -> Iterator[Row]:
    """One row in `stride`, at uneven distances: rows that arrived together often share values."""
    random = Random(stride)
    while (row := next(islice(rows, random.randrange(2 * stride - 1), None), None)) is not None:
        yield row


def _distinct(values: Sequence[object], count: int) -> float:
    """Values seen twice or more in the sample are taken to be few; those seen once grow with the relation.

    This is the estimator Duj1: d / (1 - (1 - q) * f1 / n) for d distinct values among n sampled, f1 of them seen
    once, where q is the sampled share of the rows.
    """
    if not values:
        return 1.0
    seen: dict[object, int] = {}
    for value in values:
        seen[value] = seen.get(value, 0) + 1
    once = sum(times == 1 for times in seen.values())
    share = len(values) / max(count, len(values))
    return min(float(max(count, len(values))), len(seen) / (1 - (1 - share) * once / len(values)))
