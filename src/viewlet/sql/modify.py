"""INSERT, DELETE and UPDATE as queries for the inserted and deleted rows.

UPDATE t SET a = a + 1 WHERE b   ->   out: SELECT * FROM t WHERE b    in: SELECT CAST(a + 1 AS ...), b FROM t WHERE b
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.sql.key_condition import keys_of
from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, sql_of
from viewlet.sql.statements import Modify
from viewlet.sql.syntax import check_target
from viewlet.sql.tables import table_name
from viewlet.types import Column, Table, TableKind


def bind_modify(node: exp.Expr, source: Source, catalog: Mapping[str, Table]) -> Modify:
    if isinstance(node, exp.Insert):
        return _insert(node, source, catalog)
    if isinstance(node, exp.Delete):
        return _delete(node, source, catalog)
    assert isinstance(node, exp.Update)
    return _update(node, source, catalog)


def _target(node: exp.Expr, source: Source, catalog: Mapping[str, Table]) -> Table:
    name = table_name(node, source)
    if name not in catalog:
        raise source.error(unknown("table", name, catalog), node)
    if catalog[name].kind is TableKind.VIEW:
        raise source.error(f"'{name}' is a view: change the tables it reads", node)
    return catalog[name]


def _refuse(node: exp.Expr, source: Source, *clauses: str) -> None:
    for clause in clauses:
        if node.args.get(clause):
            where = node.args[clause]
            raise source.unsupported(
                f"{node.key.upper()} with {clause.strip('_').upper()}",
                where if isinstance(where, exp.Expr) else None,
            )


def _insert(node: exp.Insert, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(
        node, source, "conflict", "returning", "alternative", "by_name", "default", "overwrite", "partition", "ignore"
    )
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    table = _target(target, source, catalog)
    check_target(target, source)
    names = [name_of(column) for column in node.this.expressions] if isinstance(node.this, exp.Schema) else []
    for name, column in zip(names, node.this.expressions, strict=False):
        if not isinstance(column, exp.Identifier):
            raise source.error("INSERT takes names of columns", column)
        if name not in table.column_names:
            raise source.error(unknown("column", name, table.column_names), column)
        if names.count(name) > 1:
            raise source.error(f"column '{name}' is listed twice", column)
    names = names or list(table.column_names)
    if not isinstance(node.expression, exp.Query | exp.Values):
        raise source.error("INSERT needs VALUES or a query", node)
    rows = _with_clause(node, node.expression)
    _check_width(rows, len(names), source)
    given = ", ".join(quoted(name) for name in names)
    cells = [_cast(quoted(c.name), c) if c.name in names else _cast("NULL", c) for c in table.columns]
    sql = f"SELECT {', '.join(cells)} FROM ({_text(rows, source)}) AS new_rows({given})"
    return Modify("insert", table.name, inserted_sql=sql, sql=source.text)


def _with_clause(node: exp.Expr, rows: exp.Expr) -> exp.Expr:
    """WITH in front of INSERT belongs to the query of the rows."""
    rows = rows.copy()
    clause = node.args.get("with_")
    if clause is not None:
        rows.set("with_", clause.copy())
    return rows


def _check_width(rows: exp.Expr, width: int, source: Source) -> None:
    if isinstance(rows, exp.Values):
        for row in rows.expressions:
            count = len(row.expressions) if isinstance(row, exp.Tuple) else 1
            if count != width:
                raise source.error(f"{count} values for {width} columns", row)
        return
    columns = rows.selects if isinstance(rows, exp.Select) else []
    if columns and len(columns) != width and not any(column.is_star for column in columns):
        raise source.error(f"{len(columns)} values for {width} columns", rows)


def _delete(node: exp.Delete, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "using", "returning", "limit", "order", "tables", "with_")
    table = _target(node.this, source, catalog)
    check_target(node.this, source, alias=True)
    deleted = _select(table, {}, node, source)
    return Modify("delete", table.name, deleted_sql=deleted, sql=source.text, keys=keys_of(table, node))


def _update(node: exp.Update, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "from_", "returning", "limit", "order", "with_")
    table = _target(node.this, source, catalog)
    check_target(node.this, source, alias=True)
    changes: dict[str, str] = {}
    for assignment in node.expressions:
        column = assignment.this
        if not isinstance(assignment, exp.EQ) or not isinstance(column, exp.Column):
            raise source.unsupported(f"SET {sql_of(assignment)}", assignment)
        name = name_of(column.this)
        if name not in table.column_names:
            raise source.error(unknown("column", name, table.column_names), column)
        if name in changes:
            raise source.error(f"column '{name}' is set twice", column)
        changes[name] = _text(assignment.expression, source)
    old, new = _select(table, {}, node, source), _select(table, changes, node, source)
    return Modify("update", table.name, deleted_sql=old, inserted_sql=new, sql=source.text, keys=keys_of(table, node))


def _text(node: exp.Expr, source: Source) -> str:
    """A part of the statement as SQL of DuckDB."""
    try:
        return node.sql("duckdb")
    except Exception:  # the generator fails in its own ways on trees it does not expect
        raise source.unsupported(f"{node.key.upper()} here", node) from None


def _select(table: Table, changes: Mapping[str, str], node: exp.Expr, source: Source) -> str:
    """The rows of the table that WHERE picks, with some columns replaced."""
    cells = [_cast(changes[c.name], c) if c.name in changes else quoted(c.name) for c in table.columns]
    alias = f" AS {_text(node.this.args['alias'], source)}" if node.this.alias else ""
    where = node.args.get("where")
    condition = f" WHERE {_text(where.this, source)}" if where is not None else ""
    return f"SELECT {', '.join(cells)} FROM {quoted(table.name)}{alias}{condition}"


def _cast(sql: str, column: Column) -> str:
    return f"CAST({sql} AS {column.type}) AS {quoted(column.name)}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
