"""Queries over one relation in one spelling, so that what they are made of is recognised however it is written.

    SELECT m.g AS k, SUM(X) AS s FROM m GROUP BY 1 HAVING s > 3
    SELECT g AS k, SUM(x) AS s FROM m GROUP BY g HAVING SUM(x) > 3

Positions and names of SELECT are replaced by their expressions as DuckDB resolves them: in GROUP BY, WHERE and SELECT
a column of the relation comes before a name of SELECT; in HAVING only one that is grouped by does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

_NESTED = (exp.Subquery, exp.SetOperation, exp.With, exp.Exists)
_UNKNOWN = (exp.Anonymous, exp.AnonymousAggFunc, exp.CombinedAggFunc)
"""Functions that the parser does not know: they may be aggregates."""


def normalised(node: exp.Expr, columns: Iterable[str]) -> exp.Expr:
    """A query over one relation with these columns in the spelling above; other queries as they are.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT M.G AS k, SUM(x) AS s FROM m GROUP BY ALL HAVING s > 3", read="duckdb")
    >>> normalised(query, ["g", "x"]).sql("duckdb")
    'SELECT g AS k, SUM(x) AS s FROM m GROUP BY g HAVING SUM(x) > 3'
    """
    if not isinstance(node, exp.Select):
        return node
    start = node.args.get("from_")
    if start is None or node.args.get("joins") or not isinstance(start.this, exp.Table) or node.find(*_NESTED):
        return node
    node = node.copy()
    _spell_columns(node, start.this.alias_or_name, list(columns))
    use_expressions(node, columns)
    return node


def use_expressions(node: exp.Select, columns: Iterable[str]) -> None:
    """Puts expressions in the place of positions, ALL and names of SELECT; `columns` are those of FROM."""
    known = {name.lower() for name in columns}
    names: dict[str, exp.Expr] = {}
    for each in node.expressions:
        _use_names(each, {name: value for name, value in names.items() if name not in known})
        if isinstance(each, exp.Alias):
            names.setdefault(each.alias.lower(), each.this)
    hidden = {name: value for name, value in names.items() if name not in known}
    if (where := node.args.get("where")) is not None:
        _use_names(where, hidden)
    _expand_groups(node, hidden)
    if (having := node.args.get("having")) is not None:
        group = node.args.get("group")
        grouped = {each.name.lower() for each in (group.expressions if group else ()) if isinstance(each, exp.Column)}
        _use_names(having, {name: value for name, value in names.items() if name not in grouped & known})


def _spell_columns(node: exp.Expr, table: str, columns: list[str]) -> None:
    """Columns without the name of their table, as they were declared."""
    declared = {name.lower(): name for name in columns}
    found = [each for each in node.find_all(exp.Column) if each.table.lower() in ("", table.lower())]
    plain = {each.name.lower() for each in found if isinstance(each.this, exp.Identifier) and not each.this.quoted}
    for each in found:
        name = each.name.lower()
        if name in declared and isinstance(each.this, exp.Identifier):
            each.replace(exp.column(declared[name], quoted=name not in plain))


def _use_names(node: exp.Expr, names: Mapping[str, exp.Expr]) -> None:
    """Replaces names of SELECT by their expressions, but in arguments of aggregates, which read rows."""
    for each in list(node.find_all(exp.Column)):
        if each.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select):
            continue  # it is of a query inside
        value = names.get(each.name.lower()) if not each.table else None
        aggregate = each.find_ancestor(exp.AggFunc, exp.Select)
        if value is None or isinstance(aggregate, exp.AggFunc):
            continue
        copied = value.copy()
        each.replace(exp.paren(copied) if isinstance(copied, exp.Binary | exp.Connector | exp.Unary) else copied)


def _expand_groups(node: exp.Expr, names: Mapping[str, exp.Expr]) -> None:
    """GROUP BY of expressions in place of ALL, positions and names."""
    group = node.args.get("group")
    if group is None:
        return
    shown = [each.this if isinstance(each, exp.Alias) else each for each in node.expressions]
    if group.args.get("all"):
        if any(each.find(*_UNKNOWN, exp.Query) or _is_star(each) for each in shown):
            return
        found = [each for each in shown if each.find(exp.AggFunc) is None and each.find(exp.Column) is not None]
        if _groups_more(node, names, found):
            return
    else:
        found = [_group(each, shown, names) for each in group.expressions]
    others = {key: value for key, value in group.args.items() if key not in ("expressions", "all") and value}
    node.set("group", exp.Group(expressions=[each.copy() for each in found], **others) if found or others else None)


def _groups_more(node: exp.Expr, names: Mapping[str, exp.Expr], groups: list[exp.Expr]) -> bool:
    """HAVING reads columns that are no group themselves: by them DuckDB groups too, where it groups by ALL."""
    having = node.args.get("having")
    if having is None:
        return False
    read = having.copy()
    _use_names(read, names)
    columns = [each for each in read.find_all(exp.Column) if each.find_ancestor(exp.AggFunc) is None]
    own = [each for each in groups if isinstance(each, exp.Column)]

    def is_group(column: exp.Column) -> bool:
        tables = (each.table.lower() for each in own if each.name.lower() == column.name.lower())
        return any(not table or not column.table or table == column.table.lower() for table in tables)

    return not all(map(is_group, columns))


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


def _group(node: exp.Expr, shown: list[exp.Expr], names: Mapping[str, exp.Expr]) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        place = int(node.this) - 1
        return shown[place] if 0 <= place < len(shown) else node
    if isinstance(node, exp.Column) and not node.table:
        return names.get(node.name.lower(), node)
    return node
