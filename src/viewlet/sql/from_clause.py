"""FROM: tables, derived tables and joins as one flat product.

A table is an atom over fresh variables, one per column; a derived table contributes its own factors, because bags of
rows multiply; an inner join adds its conditions. A comma starts a new chain of joins: JOIN binds tighter.
"""

from __future__ import annotations

import re

from sqlglot import exp

from viewlet.algebra.nodes import Cond, Expr, Rel, Scalar
from viewlet.sql import coerce
from viewlet.sql.common_tables import common_table, derived_table
from viewlet.sql.conditions import bind_conditions
from viewlet.sql.context import Context
from viewlet.sql.outer_joins import full_join, left_join, semi_join
from viewlet.sql.scalars import ScalarBinder
from viewlet.sql.scope import Field, Item, Relation, Scope, unknown
from viewlet.sql.source import MismatchError, name_of, sql_of

_UNSUPPORTED_ITEMS: dict[type[exp.Expr], str] = {
    exp.Lateral: "LATERAL",
    exp.Unnest: "UNNEST",
    exp.Pivot: "PIVOT",
}


def translate_from(select: exp.Select, scope: Scope, context: Context) -> Item:
    """The product of everything in FROM; no FROM is the product of nothing, one row without columns."""
    start = select.args.get("from_")
    if start is None:
        return Item()
    chain = _item(start.this, scope, context)
    product = Item()
    for join in select.args.get("joins") or []:
        if _is_comma(join):
            product = _cross(product, chain, join, context)
            chain = _item(join.this, scope, context)
        else:
            chain = _join(chain, join, scope, context)
    if select.args.get("laterals"):
        raise context.source.unsupported("LATERAL VIEW", select.args["laterals"][0])
    return _cross(product, chain, start, context)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(key) for key in ("on", "using", "kind", "side", "method"))


def _cross(left: Item, right: Item, node: exp.Expr, context: Context) -> Item:
    _check_names(left, right, node, context)
    return Item(left.factors + right.factors, left.fields + right.fields)


def _check_names(left: Item, right: Item, node: exp.Expr, context: Context) -> None:
    twice = left.tables & right.tables
    if twice:
        where = node.this if isinstance(node, exp.Join | exp.From) else node
        raise context.source.error(f"table name '{min(twice)}' is used twice: give one an alias", where)


def _item(node: exp.Expr, scope: Scope, context: Context) -> Item:
    if type(node) in _UNSUPPORTED_ITEMS:
        raise context.source.unsupported(_UNSUPPORTED_ITEMS[type(node)], node)
    if node.args.get("sample") is not None or isinstance(node, exp.TableSample):
        raise context.source.unsupported("TABLESAMPLE", node)
    if node.args.get("pivots"):
        raise context.source.unsupported("PIVOT", node)
    if isinstance(node, exp.Values | exp.Table) and _values_of(node) is not None:
        item = _derived(node, scope, context)
    elif isinstance(node, exp.Table):
        item = _table(node, scope, context)
    elif isinstance(node, exp.Subquery):
        item = (_parenthesised if _is_parenthesised(node) else _derived)(node, scope, context)
    else:
        raise context.source.error("a table or a subquery in parentheses is expected in FROM", node)
    for join in node.args.get("joins") or []:
        item = _join(item, join, scope, context)
    return item


def _values_of(node: exp.Expr) -> exp.Values | None:
    """VALUES in FROM; at the head of a join in parentheses the parser wraps it in a table."""
    values = node.this if isinstance(node, exp.Table) else node
    return values if isinstance(values, exp.Values) else None


def _is_parenthesised(node: exp.Subquery) -> bool:
    """The parentheses hold a table, a join or a derived table with its own alias, not just a query."""
    inner = node.this
    if isinstance(inner, exp.Table):
        return True
    return isinstance(inner, exp.Subquery) and any(inner.args.get(key) for key in ("joins", "alias"))


def _parenthesised(node: exp.Subquery, scope: Scope, context: Context) -> Item:
    """(a JOIN b ON ...), perhaps under one alias."""
    item = _item(node.this, scope, context)
    if not node.alias:
        return item
    alias = name_of(node.args["alias"].this)
    shown = [f for f in item.fields if not f.hidden]
    names = _column_names(node, [f.name for f in shown], context)
    return Item(item.factors, tuple(Field(alias, name, f.scalar) for name, f in zip(names, shown, strict=True)))


_CATALOGUE = re.compile(r"(information_schema|pg_catalog)|(duckdb_|pg_|sqlite_)\w+", re.IGNORECASE)
"""The schemas, and the names without a schema, of DuckDB's catalogue."""


def _refuse_catalogue(node: exp.Table, context: Context) -> None:
    """Declarations are no changes of rows: a view cannot follow them."""
    schema = name_of(node.args["db"]) if node.args.get("db") else ""
    call = node.this if isinstance(node.this, exp.Func) else None
    name = schema or (str(call.this) if isinstance(call, exp.Anonymous) else node.name)
    if _CATALOGUE.fullmatch(name) and (schema or call is not None or name.lower() not in context.catalog):
        hint = "read it with a SELECT outside views"
        raise context.source.unsupported("a view over the catalogue", node, hint)


def _table(node: exp.Table, scope: Scope, context: Context) -> Item:
    _refuse_catalogue(node, context)
    if not isinstance(node.this, exp.Identifier):
        raise context.source.unsupported(f"table function {sql_of(node.this)}", node)
    if node.args.get("db"):
        raise context.source.unsupported("a schema name", node, "all tables live in one schema")
    name = name_of(node.this)
    cte = scope.cte(name)
    if cte is not None:
        relation = common_table(cte, context).named(cte.columns)
        return _aliased(relation, node, name, context)
    if name not in context.catalog:
        known = set(context.catalog)
        raise context.source.error(unknown("table", name, known), node.this)
    table = context.catalog[name]
    context.tables_read.add(name)
    args = tuple(context.fresh(column.name, column.type) for column in table.columns)
    names = _column_names(node, list(table.column_names), context)
    alias = name_of(node.args["alias"].this) if node.alias else name
    fields = tuple(Field(alias, column, var) for column, var in zip(names, args, strict=True))
    return Item((Rel(name, args),), fields)


def _derived(node: exp.Expr, scope: Scope, context: Context) -> Item:
    """A subquery in FROM does not see its neighbours, only the blocks around."""
    values = _values_of(node)
    relation = context.query(values, scope) if values is not None else context.query(node.this, Scope((), scope))
    return _aliased(derived_table(relation, context), node, None, context)


def _aliased(relation: Relation, node: exp.Expr, default: str | None, context: Context) -> Item:
    alias = node.args.get("alias")
    table = name_of(alias.this) if alias is not None and alias.this is not None else default
    names = _column_names(node, [column.name for column in relation.columns], context)
    fields = tuple(Field(table, name, c.scalar) for name, c in zip(names, relation.columns, strict=True))
    return Item(relation.factors, fields)


def _column_names(node: exp.Expr, names: list[str], context: Context) -> list[str]:
    """The names an alias list gives: t(a, b) names the first two columns."""
    alias = node.args.get("alias")
    given = [name_of(column) for column in (alias.args.get("columns") or [])] if alias is not None else []
    if len(given) > len(names):
        raise context.source.error(f"{len(given)} column names for {len(names)} columns", alias)
    return given + names[len(given) :]


# Joins


def _join(left: Item, join: exp.Join, scope: Scope, context: Context) -> Item:
    method, kind = str(join.args.get("method") or "").upper(), str(join.args.get("kind") or "").upper()
    side = str(join.args.get("side") or "").upper()
    if method not in ("", "NATURAL") or kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
        raise context.source.unsupported(f"{method or kind} JOIN", join.this)
    right = _item(join.this, scope, context)
    _check_names(left, right, join, context)
    shared = _shared_columns(left, right, join, context) if method or join.args.get("using") else ()

    def on(first: Item, second: Item) -> tuple[Expr, ...]:
        return _condition(first, second, join, shared, scope, context)

    if kind in ("SEMI", "ANTI"):
        return semi_join(left, right, on, context, negated=kind == "ANTI")
    if side == "LEFT":
        joined = left_join(left, right, on, context)
    elif side == "RIGHT":
        joined = left_join(right, left, on, context, flipped=True)
    elif side == "FULL":
        joined = full_join(left, right, on, context)
    else:
        joined = Item(left.factors + right.factors + on(left, right), left.fields + right.fields)
    return _merge_columns(joined, len(left.fields), shared, side)


def _condition(
    left: Item, right: Item, join: exp.Join, shared: tuple[str, ...], scope: Scope, context: Context
) -> tuple[Expr, ...]:
    on = join.args.get("on")
    if on is not None:
        inner = Scope(left.fields + right.fields, scope)
        return bind_conditions(ScalarBinder(context, inner, "in a join condition"), on)
    try:
        tests = [coerce.comparison("=", _visible(left, name), _visible(right, name)) for name in shared]
    except MismatchError as problem:
        raise context.source.error(str(problem), join.this) from None
    return tuple(Cond(test) for test in tests)


def _visible(item: Item, name: str) -> Scalar:
    return next(f.scalar for f in item.fields if f.name == name and not f.hidden)


def _shared_columns(left: Item, right: Item, join: exp.Join, context: Context) -> tuple[str, ...]:
    """The columns of USING, or for NATURAL all names both sides have."""
    left_names = [f.name for f in left.fields if not f.hidden]
    right_names = [f.name for f in right.fields if not f.hidden]
    using = join.args.get("using")
    if using is None:
        names = [name for name in dict.fromkeys(left_names) if name in right_names]
        where: list[exp.Expr] = [join.this] * len(names)
    else:
        names, where = [name_of(column) for column in using], list(using)
    for name, node in zip(names, where, strict=True):
        for side in (left_names, right_names):
            if name not in side:
                raise context.source.error(unknown("column", name, set(side)) + " on both sides of the join", node)
            if side.count(name) > 1:
                raise context.source.error(f"column '{name}' is ambiguous", node)
    return tuple(names)


def _merge_columns(item: Item, width: int, shared: tuple[str, ...], side: str) -> Item:
    """One visible column per name of USING: the side that is never padded, or whichever is not NULL."""
    if not shared:
        return item
    left, right = item.fields[:width], item.fields[width:]
    fields: list[Field] = []
    for field in left:
        if field.hidden or field.name not in shared:
            fields.append(field)
            continue
        other = next(f.scalar for f in right if f.name == field.name and not f.hidden)
        if side == "RIGHT":
            merged = other
        elif side == "FULL":
            first, second = coerce.unify((field.scalar, other))
            merged = coerce.total("coalesce", first, second, type=first.type, nullable=True)
        else:
            fields.append(field)
            continue
        fields += [Field(None, field.name, merged), Field(field.table, field.name, field.scalar, hidden=True)]
    hidden = [Field(f.table, f.name, f.scalar, f.hidden or f.name in shared) for f in right]
    return Item(item.factors, (*fields, *hidden), item.preserved)
