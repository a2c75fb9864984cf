"""`SELECT *` with the columns that DuckDB has for it, in their order: other databases put those of USING first.

    SELECT * FROM a JOIN b USING (k)          a has x, k and b has k, y
    SELECT a.x, k AS k, b.y FROM a JOIN b USING (k)

Where a query asks for other columns than all (`EXCLUDE`, `REPLACE`, `RENAME`), they are written too, and so are the
expressions behind names of SELECT that other clauses use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewlet.errors import UnsupportedError
from viewlet.streams.normalise import use_expressions
from viewlet.streams.schema import QueryError, outline
from viewlet.types import Column

Tables = Mapping[str, Sequence[Column]]
_HINT = "name the columns: other databases put those of NATURAL JOIN and USING in another order than DuckDB"


def expand_stars(query: exp.Expr, tables: Tables) -> exp.Expr:
    """A query without stars whose columns depend on the database; `tables` are those that it reads.

    >>> import sqlglot
    >>> from viewlet.types import BIGINT
    >>> tables = {"a": [Column("x", BIGINT), Column("k", BIGINT)], "b": [Column("k", BIGINT), Column("y", BIGINT)]}
    >>> expand_stars(sqlglot.parse_one("SELECT * FROM a NATURAL JOIN b", read="duckdb"), tables).sql("postgres")
    'SELECT a."x" AS "x", "k" AS "k", b."y" AS "y" FROM a NATURAL JOIN b'
    """
    for select in list(query.find_all(exp.Select)):
        stars = [each for each in select.expressions if _star(each) is not None]
        joined = [each for each in select.args.get("joins") or () if _is_merging(each)]
        group = select.args.get("group")
        by_all = group is not None and bool(group.args.get("all"))
        if not any(by_all or (joined and isinstance(each, exp.Star)) or _changes(each) for each in stars):
            continue
        try:
            shown = [column for each in select.expressions for column in _expanded(each, select, tables)]
        except QueryError:
            raise UnsupportedError("SELECT * of this query on another host", _HINT) from None
        select.set("expressions", shown)
    return query


def expand_names(query: exp.Expr, tables: Tables) -> exp.Expr:
    """A query whose GROUP BY, HAVING, WHERE and SELECT name no other item of SELECT, which not all databases allow.

    >>> import sqlglot
    >>> from viewlet.types import BIGINT
    >>> tables = {"a": [Column("x", BIGINT), Column("k", BIGINT)]}
    >>> text = "SELECT k, COUNT(*) AS n FROM a GROUP BY ALL HAVING n > 1"
    >>> expand_names(sqlglot.parse_one(text, read="duckdb"), tables).sql("postgres")
    'SELECT k, COUNT(*) AS n FROM a GROUP BY k HAVING COUNT(*) > 1'
    """
    for select in reversed(list(query.find_all(exp.Select))):
        start = select.args.get("from_")
        if start is None:
            continue
        joins = "".join(
            f" {each.sql('duckdb')}" for key in ("joins", "laterals") for each in select.args.get(key) or ()
        )
        try:
            found = outline(in_scope(select, f"SELECT * {start.sql('duckdb')}{joins}"), tables)
        except QueryError:  # it reads columns of a query around it: the host takes the names, or refuses them
            continue
        use_expressions(select, [name for name, _ in found])
        group = select.args.get("group")
        if group is not None and group.args.get("all"):
            raise UnsupportedError("GROUP BY ALL of this query on another host", "name what it is grouped by")
    return query


def in_scope(node: exp.Expr, sql: str) -> str:
    """A query that stands where a node does, with the WITH that it sees."""
    visible: list[str] = []
    inner: exp.Expr | None = None
    outer: exp.Expr | None = node
    while outer is not None:
        found = outer.args.get("with_")
        if found is not None and found is not inner:
            visible = [each.sql("duckdb") for each in found.expressions] + visible
        elif isinstance(outer, exp.With):
            at = next(at for at, each in enumerate(outer.expressions) if each is inner)
            visible = [*(each.sql("duckdb") for each in outer.expressions[:at]), *_beginning(inner), *visible]
        inner, outer = outer, outer.parent
    return f"WITH RECURSIVE {', '.join(visible)} {sql}" if visible else sql


def _beginning(node: exp.Expr | None) -> list[str]:
    """A recursive query of WITH, as what it begins with."""
    if not isinstance(node, exp.CTE) or not isinstance(node.this, exp.SetOperation):
        return []
    first = node.copy()
    first.set("this", node.this.this.copy())
    return [first.sql("duckdb")]


def _star(node: exp.Expr) -> exp.Star | None:
    inner = node.this if isinstance(node, exp.Column) else node
    return inner if isinstance(inner, exp.Star) else None


def _changes(node: exp.Expr) -> bool:
    """It asks for other columns than all."""
    star = _star(node)
    return star is not None and any(star.args.get(key) for key in ("except_", "replace", "rename"))


def _is_merging(join: exp.Join) -> bool:
    return bool(join.args.get("using")) or join.method.upper() == "NATURAL"


def _expanded(node: exp.Expr, select: exp.Select, tables: Tables) -> list[exp.Expr]:
    """The columns that an item of SELECT stands for."""
    star = _star(node)
    if star is None:
        return [node]
    table = node.table if isinstance(node, exp.Column) else None
    replaced = {each.alias.lower(): each.this for each in star.args.get("replace") or ()}
    renamed = {each.this.name.lower(): each.alias for each in star.args.get("rename") or ()}
    excluded = {each.name.lower() for each in star.args.get("except_") or ()}
    names: list[str] = []
    found: list[exp.Expr] = []
    for name, qualifier in _columns(select, table, tables):
        if name.lower() in excluded:
            continue
        shown = renamed.get(name.lower(), name)
        twice = sum(each.lower() == shown.lower() for each in names)
        names.append(shown)
        column: exp.Expr = exp.column(exp.to_identifier(name, quoted=True), table=qualifier)
        column = replaced[name.lower()].copy() if name.lower() in replaced else column
        found.append(exp.alias_(column, f"{shown}_{twice}" if twice else shown, quoted=True))
    return found


def _columns(select: exp.Select, table: str | None, tables: Tables) -> list[tuple[str, exp.Identifier | None]]:
    """The columns of `*` or `table.*`, each with what qualifies it: nothing where both sides of a join have it."""
    start = select.args["from_"].this
    found: list[tuple[str, exp.Identifier | None]] = []
    merged: set[str] = set()
    for source, join in [(start, None), *((each.this, each) for each in select.args.get("joins") or ())]:
        if join is not None and (join.kind.upper() in ("SEMI", "ANTI")):
            continue
        alias = source.args.get("alias")
        qualifier = alias.this if alias is not None and alias.this is not None else source.this
        if not isinstance(qualifier, exp.Identifier):
            raise QueryError("a source has no name")
        names = [name for name, _ in outline(in_scope(select, f"SELECT * FROM {source.sql('duckdb')}"), tables)]
        if table is not None:
            if qualifier.name.lower() == table.lower():
                return [(name, qualifier.copy()) for name in names]
            continue
        known = [name.lower() for name, _ in found]
        common = {each.name.lower() for each in join.args.get("using") or ()} if join is not None else set()
        if join is not None and join.method.upper() == "NATURAL":
            common = {name.lower() for name in names} & set(known)
        if any(known.count(name) != 1 for name in common):
            raise QueryError("a column is of several tables")
        merged |= common
        found = [(name, None if name.lower() in common else before) for name, before in found]
        found += [(name, qualifier.copy()) for name in names if name.lower() not in common]
    return found
