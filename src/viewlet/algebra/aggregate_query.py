"""Queries with user-defined aggregates: three queries of the calculus, and the calls between them.

    SELECT city, COUNT(*), spread(price) FROM sales GROUP BY city HAVING spread(price) > 1

    values   the rows that the aggregates read          city, price
    groups   the groups with their built-in aggregates  city, count
    result   what is selected, over `table`             city, count, spread

`table` has a row for every group: its keys, its built-in aggregates, and the results of its user-defined ones. Without
built-in aggregates there is no query `groups`: the rows of `values` tell which groups there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewlet.algebra.query import Query
from viewlet.types import SqlType, Table

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of a user-defined aggregate: the positions of its arguments in the rows of `values`, and their types."""

    aggregate: Aggregate
    positions: tuple[int, ...]
    types: tuple[SqlType, ...]


@dataclass(frozen=True, slots=True)
class CollectedQuery:
    """The same over rows that are collected in one place: all that any aggregate reads, and the groups over them.

    `values` has the columns of `AggregateQuery.values` and then those that built-in aggregates read; it is the `table`
    of `groups`.
    """

    values: Query
    groups: Query | None
    table: Table


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """What a view with user-defined aggregates keeps; `keys` is the number of its grouping keys.

    Without GROUP BY (`grouped` is false) there is always one group.
    """

    values: Query
    groups: Query | None
    result: Query
    table: Table
    calls: tuple[AggregateCall, ...]
    keys: int
    grouped: bool
    collected: CollectedQuery | None = None
    """Absent if built-in aggregates read other tables too, in subqueries."""
