"""Queries of DuckDB's dialect in those of other hosts, with the same meaning: quantiles stay exact.

    QUANTILE_CONT(x, 0.5)  ──►  PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)

The translator on its own writes some of them for Spark as PERCENTILE_APPROX, and `QUANTILE`, which is one of the
values, as PERCENTILE, which may lie between two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from viewlet.streams.host_meanings import with_meanings
from viewlet.streams.null_safe import to_hashable
from viewlet.streams.star_columns import expand_names, expand_stars
from viewlet.types import Column

_QUANTILES: dict[type[exp.Expr], str] = {
    exp.PercentileCont: "PERCENTILE_CONT",
    exp.PercentileDisc: "PERCENTILE_DISC",
    exp.Quantile: "PERCENTILE_DISC",
}


def to_dialect(sql: str, dialect: str, columns: Mapping[str, Sequence[Column]]) -> str:
    """A query in another dialect, without its comments; `columns` are those of the tables that it reads.

    >>> to_dialect("SELECT QUANTILE(x, 0.5) FROM t", "spark", {})
    'SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) FROM t'
    """
    query = expand_names(expand_stars(sqlglot.parse_one(sql, read="duckdb"), columns), columns)
    query = with_meanings(query, dialect, columns).transform(_exact_quantile)
    if dialect == "postgres":
        query = to_hashable(query, columns)
    return str(query.sql(dialect, comments=False))


def _exact_quantile(node: exp.Expr) -> exp.Expr:
    """A quantile as the ordered-set aggregate of the standard."""
    if isinstance(node, exp.WithinGroup) and type(node.this) in _QUANTILES:
        (ordered,) = node.expression.expressions
        return _ordered_set(_QUANTILES[type(node.this)], node.this.this, ordered.this, bool(ordered.args.get("desc")))
    share = node.args.get("quantile") or node.args.get("expression")
    if type(node) in _QUANTILES and share is not None:
        return _ordered_set(_QUANTILES[type(node)], share, node.this, False)
    return node


def _ordered_set(function: str, share: exp.Expr, value: exp.Expr, is_descending: bool) -> exp.Expr:
    ordered = exp.Ordered(this=value.copy(), desc=is_descending or None, nulls_first=not is_descending)
    return exp.WithinGroup(
        this=exp.Anonymous(this=function, expressions=[share.copy()]), expression=exp.Order(expressions=[ordered])
    )
