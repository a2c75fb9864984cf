"""Queries in layers: large operands of outer joins as tables of their own, and the rest of the query over them.

    SELECT * FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)

    joined   a FULL JOIN b             over a and b
    result   joined FULL JOIN c        over joined and c

A FULL OUTER JOIN mentions its operands several times, so that a chain of them in one expression has twice the size for
every table. In layers every operand is mentioned by name, and the size is that of the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.query import Query
from viewlet.types import Table


@dataclass(frozen=True, slots=True)
class Layer:
    """The rows of `query`, which later layers read as those of `table`."""

    table: Table
    query: Query


@dataclass(frozen=True, slots=True)
class LayeredQuery:
    """What a view in layers keeps: each layer reads base tables and layers before it; `result` is the last one."""

    layers: tuple[Layer, ...]
    result: Query
