"""Queries of DuckDB's dialect as queries of Spark SQL, where both mean the same.

SELECT k, AVG(x) FROM v GROUP BY k
SELECT `k`, AVG(CAST(`x` AS DOUBLE)) FROM `scan_0` AS `v` GROUP BY `k`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError

from viewlet.sql.scope import named_query
from viewlet.types import Column, Kind

EXACT_SCALE = 6
"""Digits after the point that decimal arithmetic of Spark keeps, however large the numbers."""
_CLAUSES = (
    "Alias CTE Column Distinct Except From Group Having Identifier Intersect Join Limit Offset Order Ordered Paren "
    "Select Star Subquery Table TableAlias Tuple Union Where With"
)
_SCALARS = (
    "Add And Between Boolean Case Cast Coalesce DataType Div EQ Exists GT GTE If In Is LT LTE Like Literal Mul NEQ Neg "
    "Not Null NullSafeEQ NullSafeNEQ Or Sub Abs Extract Greatest Least Length Mod Nullif Var"
)
_AGGREGATES = "Avg Count Filter Max Min Sum"
_WINDOWS = "CumeDist DenseRank FirstValue Lag LastValue Lead Ntile PercentRank Qualify Rank RowNumber Window WindowSpec"
_ALIKE = frozenset(f"{_CLAUSES} {_SCALARS} {_AGGREGATES} {_WINDOWS}".split())
"""Parts of queries that mean the same in Spark SQL as in DuckDB, or are translated."""
_TIMES = (Kind.DATE, Kind.TIMESTAMP)
_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")
"""Parts of times that are integers in both."""


def translated(sql: str, places: Mapping[str, str], columns: Iterable[Column]) -> str | None:
    """A query for Spark SQL over other names of tables; None if it may mean something else there.

    >>> translated("SELECT AVG(x) AS a FROM v ORDER BY a", {"v": "p"}, [])
    'SELECT AVG(CAST(`x` AS DOUBLE)) AS `a` FROM `p` AS `v` ORDER BY `a` NULLS LAST'
    >>> translated("SELECT reverse(x) FROM v", {"v": "p"}, [])
    """
    try:
        tree = parse_one(sql, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    nodes = list(tree.walk())
    if not isinstance(tree, exp.Query) or any(type(node).__name__ not in _ALIKE for node in nodes):
        return None
    if not (_has_plain_texts(nodes) and _has_exact_numbers(nodes, columns) and _has_known_windows(nodes)):
        return None
    if any(node.name.upper() not in _UNITS for node in nodes if isinstance(node, exp.Extract)):
        return None
    if not _rename(tree, places):
        return None
    for average in reversed(list(tree.find_all(exp.Avg))):  # the innermost first
        average.set("this", exp.cast(average.this.copy(), "double"))
    for division in reversed(list(tree.find_all(exp.Div))):
        division.set("this", exp.cast(division.this.copy(), "double"))
        division.set("expression", exp.cast(division.expression.copy(), "double"))
    for divided in reversed(list(tree.find_all(exp.Div, exp.Mod))):
        by = divided.expression.copy()
        divided.set("expression", exp.Nullif(this=by, expression=exp.Literal.number(0)))
    try:
        return tree.sql(dialect="spark", identify=True, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError):
        return None


def columns_named(sql: str, names: Sequence[str]) -> list[str]:
    """Those of a table's columns that a query may read.

    >>> columns_named("SELECT COUNT(*) FROM v JOIN w USING (k) WHERE X > 1", ["k", "x", "y"])
    ['k', 'x']
    """
    tree = parse_one(sql, dialect="duckdb")
    stars = (node for node in tree.find_all(exp.Star) if not isinstance(node.parent, exp.Count))
    natural = any(join.args.get("method") for join in tree.find_all(exp.Join))
    if natural or next(stars, None) is not None:
        return list(names)
    named = {node.name.casefold() for node in tree.find_all(exp.Identifier)}
    return [name for name in names if name.casefold() in named] or list(names[:1])


def _has_plain_texts(nodes: Sequence[Any]) -> bool:
    """Strings have no backslash, which Spark takes for an escape, and are converted to nothing but dates."""
    texts = (node.name for node in nodes if isinstance(node, exp.Literal) and node.is_string)
    casts = (node for node in nodes if isinstance(node, exp.Cast))
    likes = (node.expression for node in nodes if isinstance(node, exp.Like))
    return (
        all("\\" not in text for text in texts)
        and all(cast.is_type("date") and cast.this.is_string for cast in casts)
        and all(pattern.is_string for pattern in likes)
    )


def _has_exact_numbers(nodes: Sequence[Any], columns: Iterable[Column]) -> bool:
    """Decimals keep their digits, and nothing but numbers is added."""
    named = {node.name.casefold() for node in nodes if isinstance(node, exp.Column)}
    everything = any(isinstance(node, exp.Star) for node in nodes)
    read = [column.type for column in columns if everything or column.name.casefold() in named]
    scales = [type.scale for type in read if type.kind is Kind.DECIMAL]
    scales += [
        len(node.name.partition(".")[2]) for node in nodes if isinstance(node, exp.Literal) and not node.is_string
    ]
    products = sum(isinstance(node, exp.Mul) for node in nodes)
    adds = any(isinstance(node, exp.Add | exp.Sub | exp.Neg) for node in nodes)
    has_times = any(type.kind in _TIMES for type in read) or any(isinstance(node, exp.Cast) for node in nodes)
    distinct = [node for node in nodes if isinstance(node, exp.Distinct)]
    one_each = all(len(node.expressions) <= 1 and not node.args.get("on") for node in distinct)
    averages = (node.this for node in nodes if isinstance(node, exp.Avg))
    is_plain = not any(isinstance(each, exp.Distinct) for each in averages)
    return max(scales, default=0) * (products + 1) <= EXACT_SCALE and not (adds and has_times) and one_each and is_plain


def _has_known_windows(nodes: Sequence[Any]) -> bool:
    """Frames exclude no rows, and QUALIFY, which becomes a condition on more columns, is not among all columns."""
    frames = (node for node in nodes if isinstance(node, exp.WindowSpec))
    stars = (node for node in nodes if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count))
    chooses = any(isinstance(node, exp.Qualify) for node in nodes)
    return not any(frame.args.get("exclude") for frame in frames) and not (chooses and any(stars))


def _rename(tree: Any, places: Mapping[str, str]) -> bool:
    """Lets a query read tables under other names; False if it reads others, or might, or renames their columns."""
    known = {name.casefold(): place for name, place in places.items()}
    own = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    if own & known.keys():
        return False
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or table.db or table.catalog:
            return False
        if table.args.get("alias") and table.args["alias"].columns:
            return False
        name = table.name.casefold()
        if name in own:
            if named_query(table) is None:
                return False  # a name of a catalogue: the query of that name is elsewhere
            continue
        if name not in known:
            return False
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias or table.name)))
        table.set("this", exp.to_identifier(known[name]))
    return True
