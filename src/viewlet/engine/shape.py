"""The shape of a view: what is left of its definition without the names that it gives.

    SELECT custkey AS c, SUM(price) AS s FROM orders o GROUP BY custkey      orders(0, 1, 2), Sum[1](... * 2), ...
    SELECT k.custkey, SUM(k.price) FROM orders AS k GROUP BY k.custkey       the same

Views of the same shape hold the same rows, so that one engine is enough for all of them. Variables are numbered as they
occur. Names of tables, types, the order of columns, ORDER BY and LIMIT are part of the shape; names of columns are not.

Stored views have shapes likewise (`triggers/view_shapes.py`).
"""

from __future__ import annotations

from collections.abc import Hashable

from viewlet.algebra.query import Query
from viewlet.engine.declaration import Declaration
from viewlet.triggers.view_shapes import numbered


def shape_of(declared: Declaration) -> Hashable | None:
    """The shape of a view whose definition is a query; None for others, which share nothing."""
    query = declared.definition
    if not isinstance(query, Query) or query is not declared.query:
        return None
    return declared.strategy, declared.layered, declared.aggregates, numbered(query, {})
