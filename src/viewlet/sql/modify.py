"""Statements that change rows, as one query for the changes.

    UPDATE t SET a = a + 1 WHERE b   ->   SELECT a AS "old 0", b AS "old 1", CAST(a + 1 AS ...) AS "new 0", ... WHERE b

The query answers with a row for every changed row: what it was, what it becomes, and where a statement can do several
things, which (`action`). DuckDB evaluates it, and the answer is applied as one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one

from viewlet.sql.key_condition import keys_of
from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, quoted, sql_of
from viewlet.sql.statements import Modify, NewRows, Returning
from viewlet.sql.syntax import check_target
from viewlet.sql.tables import table_name
from viewlet.types import Column, Table, TableKind

MODIFYING = (exp.Insert, exp.Delete, exp.Update, exp.Merge, exp.TruncateTable)
NEW_ROWS = "new rows"
CHANGED_ROWS = "changed rows"
ACTION = '"merge_action"'
_CHANGED = '"changed row"'
_TWICE = "error('two rows of the statement change the same row of the table')"


def bind_modify(node: exp.Expr, source: Source, catalog: Mapping[str, Table]) -> Modify:
    match node:
        case exp.Insert():
            return _insert(node, source, catalog)
        case exp.Delete():
            return _delete(node, source, catalog)
        case exp.Update():
            return _update(node, source, catalog)
        case exp.Merge():
            return _merge(node, source, catalog)
        case _:
            assert isinstance(node, exp.TruncateTable)
            return _truncate(node, source, catalog)


@dataclass(frozen=True, slots=True)
class _Target:
    """The table that a statement changes, and the name that the statement has for it."""

    table: Table
    alias: str
    source: Source
    names: frozenset[str]
    """Those of tables, views and columns, which the names of the query itself have to differ from."""

    @property
    def read(self) -> str:
        return f"{quoted(self.table.name)} AS {quoted(self.alias)}"

    def fresh(self, name: str) -> str:
        """A name that nothing else in the query has."""
        while name in self.names:
            name += " "
        return name

    @property
    def number(self) -> str:
        """The column of row numbers."""
        return f"{quoted(self.alias)}.{quoted(self.fresh('row number'))}"

    @property
    def numbered(self) -> str:
        """The rows of the table with their numbers, as a common table expression."""
        number = quoted(self.fresh("row number"))
        rows = f"SELECT *, row_number() OVER () AS {number} FROM {quoted(self.table.name)}"
        return f"{quoted(self.fresh('target rows'))} AS MATERIALIZED ({rows})"

    @property
    def read_numbered(self) -> str:
        return f"{quoted(self.fresh('target rows'))} AS {quoted(self.alias)}"

    def cell(self, name: str) -> str:
        return f"{quoted(self.alias)}.{quoted(name)}"

    def row(self) -> str:
        """A row as it is."""
        return ", ".join(self.cell(name) for name in self.table.column_names)

    def new_row(self, values: Mapping[str, str]) -> str:
        """A row of given values, and the defaults of the other columns."""
        return ", ".join(_cast(values.get(column.name, _default(column)), column) for column in self.table.columns)

    def default(self, name: str) -> str:
        """What DEFAULT means for a column."""
        return _default(self.table.columns[self.table.column_names.index(name)])

    def change(self, values: Mapping[str, str] | None, is_new: bool = False) -> str:
        """What a row was, and what it becomes: given values, and what it was in the other columns; None if it goes."""
        columns = self.table.columns
        olds = ["NULL" if is_new else self.cell(column.name) for column in columns]
        others = [_default(column) for column in columns] if is_new else olds
        news = ["NULL" if values is None else values.get(c.name, cell) for c, cell in zip(columns, others, strict=True)]
        return ", ".join(
            f"CAST({cell} AS {column.type}) AS {quoted(f'{side} {i}')}"
            for side, cells in (("old", olds), ("new", news))
            for i, (cell, column) in enumerate(zip(cells, columns, strict=True))
        )

    def named(self, column: exp.Expr) -> str:
        """The name of a column of the table that a statement sets."""
        name = name_of(column.this if isinstance(column, exp.Column) else column)
        if name not in self.table.column_names:
            raise self.source.error(unknown("column", name, self.table.column_names), column)
        return name

    @property
    def settable(self) -> tuple[str, ...]:
        """The columns that statements may say something about besides DEFAULT."""
        return tuple(column.name for column in self.table.columns if not column.always)

    def check_settable(self, name: str, value: exp.Expr | None) -> None:
        """Refuses a value for a column that is always generated."""
        if name not in self.settable and (value is None or not _is_default(value)):
            raise self.source.error(f"column '{name}' is GENERATED ALWAYS: leave it out, or say DEFAULT", value)


def _default(column: Column) -> str:
    return "NULL" if column.default is None else column.default


def _is_default(value: exp.Expr) -> bool:
    """The word DEFAULT, which the parser takes for a name."""
    return isinstance(value, exp.Column | exp.Var) and value.sql().upper() == "DEFAULT"


def _target(node: exp.Expr, source: Source, catalog: Mapping[str, Table], alias: bool = True) -> _Target:
    name = table_name(node, source)
    if name not in catalog:
        raise source.error(unknown("table", name, catalog), node)
    if catalog[name].kind is TableKind.VIEW:
        raise source.error(f"'{name}' is a view: change the tables it reads", node)
    check_target(node, source, alias=alias)
    written = node.args.get("alias")
    names = frozenset(catalog).union(catalog[name].column_names)
    return _Target(catalog[name], name if written is None else name_of(written.this), source, names)


def _refuse(node: exp.Expr, source: Source, *clauses: str) -> None:
    for clause in clauses:
        if node.args.get(clause):
            where = node.args[clause]
            raise source.unsupported(
                f"{node.key.upper()} with {clause.strip('_').upper()}",
                where if isinstance(where, exp.Expr) else None,
            )


# -- INSERT ---------------------------------------------------------------------------------------------------------


def _insert(node: exp.Insert, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "overwrite", "partition", "ignore")
    is_listed = isinstance(node.this, exp.Schema)
    target = _target(node.this.this if is_listed else node.this, source, catalog)
    names = _listed(target, node.this.expressions) if is_listed else _unlisted(node.expression, target)
    if node.args.get("by_name"):
        names = _names_of(node.expression, target)
    rows = _new_rows(node, target, names)
    conflict, alternative = node.args.get("conflict"), str(node.args.get("alternative") or "").upper()
    returning = _returning(node, target)
    if conflict is None and not alternative:
        return Modify("insert", target.table.name, rows, source.text, returning=returning)
    action = _on_conflict(target, conflict, alternative)
    keys = _conflict_keys(target, conflict, action)
    changes = _conflicting(target, conflict, action, names, keys)
    asks = conflict is not None and conflict.find(exp.Query) is not None
    new_rows = NewRows(target.fresh(NEW_ROWS), rows, not asks and keys == [target.table.primary_key])
    several = tuple(keys) if len(keys) > 1 else ()
    return Modify("merge", target.table.name, changes, source.text, None, new_rows, returning, several)


def _unlisted(rows: exp.Expr | None, target: _Target) -> Sequence[str]:
    """The columns that an INSERT without a list is for: all, or all that can be set where it has no more values."""
    first = rows.expressions[0] if isinstance(rows, exp.Values) else rows
    values = first.expressions if isinstance(first, exp.Tuple | exp.Select) else [first]
    return target.table.column_names if len(values) == len(target.table.columns) else target.settable


def _listed(target: _Target, columns: Iterable[exp.Expr]) -> Sequence[str]:
    names: list[str] = []
    for column in columns:
        if not isinstance(column, exp.Identifier):
            raise target.source.error("INSERT takes names of columns", column)
        name = target.named(column)
        if name in names:
            raise target.source.error(f"column '{name}' is listed twice", column)
        names.append(name)
    return names


def _new_rows(node: exp.Insert, target: _Target, names: Sequence[str]) -> str:
    """The rows that an INSERT brings for the named columns, in the columns of the table."""
    if node.args.get("default"):
        return f"SELECT {target.new_row({})}"
    if not isinstance(node.expression, exp.Query | exp.Values):
        raise target.source.error("INSERT needs VALUES or a query", node)
    rows = _with_clause(node, node.expression)
    _check_width(rows, len(names), target.source)
    if isinstance(rows, exp.Values):
        _fill_in_defaults(rows, names, target)
    else:
        for name in names:
            target.check_settable(name, None)
    given = ", ".join(quoted(name) for name in names)
    cells = target.new_row({name: quoted(name) for name in names})
    text = _text(rows, target.source)
    if not _has_known_width(rows):  # a list of names may be shorter than the rows, and a UNION may not
        text = f"SELECT {', '.join(['NULL'] * len(names))} WHERE FALSE UNION ALL ({text})"
    return f"SELECT {cells} FROM ({text}) AS new_rows({given})"


def _fill_in_defaults(rows: exp.Values, names: Sequence[str], target: _Target) -> None:
    """VALUES (1, DEFAULT)"""
    for row in rows.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for name, cell in zip(names, cells, strict=True):
            target.check_settable(name, cell)
            if _is_default(cell):
                cell.replace(parse_one(target.default(name), read="duckdb"))


def _names_of(rows: exp.Expr, target: _Target) -> Sequence[str]:
    """The columns that the query of INSERT BY NAME is for."""
    selects = rows.selects if isinstance(rows, exp.Query) else []
    if not selects or any(each.is_star for each in selects):
        raise target.source.unsupported("INSERT BY NAME of this query", rows, "name its columns")
    return _listed(target, (exp.to_identifier(each.alias_or_name, quoted=True) for each in selects))


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
    if _has_known_width(rows) and isinstance(rows, exp.Select) and len(rows.selects) != width:
        raise source.error(f"{len(rows.selects)} values for {width} columns", rows)


def _has_known_width(rows: exp.Expr) -> bool:
    """Whether a query shows how many columns it has."""
    if not isinstance(rows, exp.Select):
        return isinstance(rows, exp.Values)
    return bool(rows.selects) and not any(each.is_star or each.find(exp.Columns) for each in rows.selects)


def _on_conflict(target: _Target, conflict: exp.Expr | None, alternative: str) -> str:
    """What an INSERT does with rows that conflict with others: REPLACE, DO NOTHING or DO UPDATE."""
    if conflict is None:
        if alternative not in ("REPLACE", "IGNORE"):
            raise target.source.unsupported(f"INSERT OR {alternative}", None)
        return "REPLACE" if alternative == "REPLACE" else "DO NOTHING"
    _refuse(conflict, target.source, "duplicate", "constraint", "index_predicate")
    return str(conflict.args["action"].name).upper()


def _conflict_keys(target: _Target, conflict: exp.Expr | None, action: str) -> list[tuple[str, ...]]:
    """The columns in which rows conflict if they are equal: those that are named, or of the keys that there are."""
    table, source = target.table, target.source
    known = [*([table.primary_key] if table.primary_key else []), *(columns for _, columns in table.unique)]
    if not known:
        raise source.error(f"'{table.name}' has no PRIMARY KEY or UNIQUE that rows could conflict with", conflict)
    nodes = () if conflict is None else conflict.args.get("conflict_keys") or ()
    named = {target.named(key.this if isinstance(key, exp.Ordered) else key) for key in nodes}
    if named:
        found = [key for key in known if set(key) == named]
        if not found:
            shown = " or ".join(f"({', '.join(key)})" for key in known)
            raise source.error(f"rows conflict by {shown}, the keys of '{table.name}'", conflict)
        return found[:1]
    if action != "DO NOTHING" and len(known) > 1:
        raise source.error(f"'{table.name}' has several keys: say which in ON CONFLICT (columns)", conflict)
    return known


def _conflicting(
    target: _Target, conflict: exp.Expr | None, action: str, given: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> str:
    """The changes of an INSERT of some columns whose rows may conflict by one of some keys.

    Of new rows with equal keys the last one replaces, the first one stands where nothing is to be done, and an update
    by several is an error. A key with a NULL is equal to none.
    """
    table = target.table
    names, place = ", ".join(map(quoted, table.column_names)), quoted(target.fresh("place"))
    order = {"REPLACE": "DESC", "DO NOTHING": "ASC"}.get(action)
    rows = f"(SELECT *, row_number() OVER () AS {place} FROM {quoted(target.fresh(NEW_ROWS))})"
    for key in keys:
        listed, has_null = ", ".join(map(quoted, key)), " OR ".join(f"{quoted(name)} IS NULL" for name in key)
        same = " AND ".join(f"{target.cell(name)} = excluded.{quoted(name)}" for name in key)
        if action == "DO NOTHING":
            rows = f"(SELECT * FROM {rows} AS excluded ANTI JOIN {target.read} ON {same})"
        if len(keys) > 1:  # which new rows stand one after the other decides: `Modify.first_by`
            continue
        if order is None:
            choice = f"CASE WHEN count(*) OVER (PARTITION BY {listed}) > 1 THEN {_TWICE} ELSE TRUE END"
            chosen = f"CASE WHEN {has_null} THEN TRUE ELSE {choice} END"
        else:
            chosen = f"{has_null} OR row_number() OVER (PARTITION BY {listed} ORDER BY {place} {order}) = 1"
        rows = f"(SELECT * FROM {rows} QUALIFY {chosen})"
    chosen_rows = quoted(target.fresh("incoming"))
    incoming = f"WITH {chosen_rows} AS MATERIALIZED (SELECT {names} FROM {rows} ORDER BY {place})"
    every = {name: f"excluded.{quoted(name)}" for name in table.column_names}
    change = target.change(every, is_new=True)
    added = f"SELECT 'INSERT' AS {ACTION}, {change} FROM {chosen_rows} AS excluded"
    if action == "DO NOTHING":
        return f"{incoming} {added}"
    added += f" ANTI JOIN {target.read} ON {same}"
    values, condition = {name: every[name] for name in given}, ""
    if conflict is not None:
        values = _assigned(target, conflict.expressions, True)
        where = conflict.args.get("where")
        condition = "" if where is None else f" WHERE {_text(_qualified(where.this, target), target.source)}"
    joined = f"{target.read} JOIN {chosen_rows} AS excluded ON {same}"
    replaced = f"SELECT 'UPDATE', {target.change(values)} FROM {joined}{condition}"
    return f"{incoming} {added} UNION ALL {replaced}"


# -- DELETE, UPDATE and TRUNCATE ------------------------------------------------------------------------------------


def _delete(node: exp.Delete, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "limit", "order", "tables")
    target = _target(node.this, source, catalog)
    where, using = _where(node, source), node.args.get("using")
    if using:
        others = ", ".join(_text(each, source) for each in using)
        ctes = _common_tables(node, source, target.numbered)
        found = f"EXISTS (SELECT 1 FROM {others}{where})"
        rows, keys = f"{ctes}SELECT {target.row()} FROM {target.read_numbered} WHERE {found}", None
    else:
        rows, keys = (
            f"{_common_tables(node, source)}SELECT {target.row()} FROM {target.read}{where}",
            keys_of(target.table, node),
        )
    return Modify("delete", target.table.name, rows, source.text, keys, returning=_returning(node, target))


def _truncate(node: exp.TruncateTable, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "is_database", "exists", "only", "cluster", "identity", "option", "partition")
    if len(node.expressions) != 1:
        raise source.unsupported("TRUNCATE of several tables", node.expressions[1])
    target = _target(node.expressions[0], source, catalog, alias=False)
    return Modify("delete", target.table.name, f"SELECT {target.row()} FROM {target.read}", source.text)


def _update(node: exp.Update, source: Source, catalog: Mapping[str, Table]) -> Modify:
    _refuse(node, source, "limit", "order")
    target = _target(node.this, source, catalog)
    change = target.change(_assigned(target, node.expressions, False))
    where, others = _where(node, source), node.args.get("from_")
    if others is None:
        changes, keys = (
            f"{_common_tables(node, source)}SELECT {change} FROM {target.read}{where}",
            keys_of(target.table, node),
        )
    else:
        once = f"QUALIFY row_number() OVER (PARTITION BY {target.number}) = 1"
        joined = f"{target.read_numbered}, {_text(others.this, source)}"
        ctes = _common_tables(node, source, target.numbered)
        changes, keys = f"{ctes}SELECT {change} FROM {joined}{where} {once}", None
    return Modify("update", target.table.name, changes, source.text, keys, returning=_returning(node, target))


def _where(node: exp.Expr, source: Source) -> str:
    where = node.args.get("where")
    return "" if where is None else f" WHERE {_text(where.this, source)}"


def _common_tables(node: exp.Expr, source: Source, *others: str) -> str:
    """The WITH clause of a statement, with some more common table expressions."""
    clause = node.args.get("with_")
    written = [] if clause is None else [_text(each, source) for each in clause.expressions]
    if not written and not others:
        return ""
    recursive = "RECURSIVE " if clause is not None and clause.args.get("recursive") else ""
    return f"WITH {recursive}{', '.join([*others, *written])} "


def _assigned(target: _Target, assignments: Iterable[exp.Expr], qualified: bool) -> dict[str, str]:
    """The values of SET; names without a table mean the target where they are to be `qualified`."""
    source, values = target.source, dict[str, str]()
    for assignment in assignments:
        for column, value in _pairs(assignment, source):
            name = target.named(column)
            if name in values:
                raise source.error(f"column '{name}' is set twice", column)
            target.check_settable(name, value)
            is_default = _is_default(value)
            values[name] = (
                target.default(name) if is_default else _text(_qualified(value, target) if qualified else value, source)
            )
    return values


def _pairs(assignment: exp.Expr, source: Source) -> Iterator[tuple[exp.Column, exp.Expr]]:
    """The columns that one assignment of SET names, with their values."""
    left, right = assignment.args.get("this"), assignment.args.get("expression")
    lefts = left.expressions if isinstance(left, exp.Tuple) else [left]
    rights = right.expressions if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple) else [right]
    is_understood = isinstance(assignment, exp.EQ) and all(isinstance(each, exp.Column) for each in lefts)
    if not is_understood or len(lefts) != len(rights):
        raise source.unsupported(f"SET {sql_of(assignment)}", assignment)
    yield from zip(lefts, rights, strict=True)


def _qualified(node: exp.Expr, target: _Target) -> exp.Expr:
    """An expression whose columns without a table are those of the target; queries inside are left as they are."""

    def qualify(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not part.table and part.find_ancestor(exp.Query) is None:
            return exp.column(part.this.copy(), table=exp.to_identifier(target.alias, quoted=True))
        return part

    return node.copy().transform(qualify)


# -- MERGE ----------------------------------------------------------------------------------------------------------


def _merge(node: exp.Merge, source: Source, catalog: Mapping[str, Table]) -> Modify:
    """MERGE INTO t USING s ON c: pairs that match, rows of s without a match, and rows of t without one.

    In each of these groups the first clause counts whose condition holds. A row of t may be changed once.
    """
    target = _target(node.this, source, catalog)
    using, on = node.args["using"], _merge_condition(node, target)
    read, others, name = target.read_numbered, _text(using, source), using.alias_or_name
    groups = {
        "matched": f"FROM {read} JOIN {others} ON {on}",
        "by target": f"FROM {others} ANTI JOIN {read} ON {on}",
        "by source": f"FROM {read} ANTI JOIN {others} ON {on}",
    }
    before: dict[str, list[str]] = {group: [] for group in groups}
    selects: list[str] = []
    for when in node.args["whens"].expressions:
        group = "matched" if when.args["matched"] else "by source" if when.args.get("source") else "by target"
        if "TRUE" in before[group]:
            raise source.error("no row reaches this clause: one before it has no condition", when)
        condition = when.args.get("condition")
        holds = "TRUE" if condition is None else f"({_text(condition, source)}) IS TRUE"
        found = " AND ".join([holds, *(f"NOT ({each})" for each in before[group])])
        before[group].append(holds)
        done = _merge_action(when, group, target, name)
        if done is not None:
            action, change = done
            number = "NULL" if group == "by target" else target.number
            what = f"'{action}' AS {ACTION}, {change}, {number} AS {_CHANGED}"
            selects.append(f"SELECT {what} {groups[group]} WHERE {found}")
    if not selects:
        nothing = target.change(None, is_new=True)
        selects.append(f"SELECT 'INSERT' AS {ACTION}, {nothing}, NULL AS {_CHANGED} WHERE FALSE")
    twice = f"{_CHANGED} IS NOT NULL AND count(*) OVER (PARTITION BY {_CHANGED}) > 1"
    action = f"CASE WHEN {twice} THEN {_TWICE} ELSE {ACTION} END AS {ACTION}"
    sql = f"SELECT * EXCLUDE ({_CHANGED}) REPLACE ({action}) FROM ({' UNION ALL '.join(selects)})"
    ctes = _common_tables(node, source, target.numbered)
    return Modify("merge", target.table.name, ctes + sql, source.text, returning=_returning(node, target))


def _merge_condition(node: exp.Merge, target: _Target) -> str:
    columns = node.args.get("using_cond")
    if not columns:
        return f"({_text(node.args['on'], target.source)})"
    other = quoted(node.args["using"].alias_or_name)
    return " AND ".join(f"{target.cell(target.named(each))} = {other}.{quoted(name_of(each))}" for each in columns)


def _merge_action(when: exp.Expr, group: str, target: _Target, other: str) -> tuple[str, str] | None:
    """What a clause of MERGE does, and the change of its rows; None if nothing."""
    then, source = when.args["then"], target.source
    every = {name: f"{quoted(other)}.{quoted(name)}" for name in target.settable}
    match then:
        case exp.Update() if group != "by target":
            is_every = not then.expressions or isinstance(then.expressions[0], exp.Star)
            if is_every and group == "by source":
                raise source.error("there is no row that UPDATE could take values from", then)
            return "UPDATE", target.change(every if is_every else _assigned(target, then.expressions, False))
        case exp.Insert() if group == "by target":
            return "INSERT", target.change(_merge_values(then, every, target), is_new=True)
        case exp.Var() if then.name.upper() == "DELETE" and group != "by target":
            return "DELETE", target.change(None)
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return None
        case _:
            raise source.unsupported(f"{sql_of(then)} in this clause of MERGE", when)


def _merge_values(then: exp.Insert, every: dict[str, str], target: _Target) -> dict[str, str]:
    """The values of the row that a clause of MERGE inserts."""
    source, columns, values = target.source, then.this, then.expression
    if columns is not None and not isinstance(columns, exp.Tuple | exp.Star):
        columns = exp.Tuple(expressions=[columns])
    if not isinstance(values, exp.Tuple):
        if isinstance(columns, exp.Tuple) and sql_of(columns).upper().strip("()") != "BY AS NAME":
            raise source.error("INSERT needs VALUES", then)
        return every
    listed = columns.expressions if isinstance(columns, exp.Tuple) else []
    names = [target.named(each) for each in listed] or list(target.settable)
    if len(set(names)) < len(names):
        raise source.error("a column is listed twice", then)
    if len(names) != len(values.expressions):
        raise source.error(f"{len(values.expressions)} values for {len(names)} columns", then)
    for name, value in zip(names, values.expressions, strict=True):
        target.check_settable(name, value)
    return {name: _text(value, source) for name, value in zip(names, values.expressions, strict=True)}


# -- text -----------------------------------------------------------------------------------------------------------


def _returning(node: exp.Expr, target: _Target) -> Returning | None:
    """The query that RETURNING stands for, over the changed rows under the name of the table."""
    clause = node.args.get("returning")
    if clause is None:
        return None
    _refuse(clause, target.source, "into")
    every = ", ".join(map(target.cell, target.table.column_names))  # what MERGE did is no column of the table
    columns = ", ".join(
        every if each.is_star and not _star_options(each) else _text(each, target.source) for each in clause.expressions
    )
    name = target.fresh(CHANGED_ROWS)
    sql = f"SELECT {columns} FROM {quoted(name)} AS {quoted(target.alias)}"
    return Returning(name, sql, clause.find(exp.Query) is not None)


def _star_options(node: exp.Expr) -> bool:
    """Whether `*` or `t.*` is followed by EXCLUDE, REPLACE or RENAME."""
    star = node.this if isinstance(node, exp.Column) else node
    return any(star.args.values())


def _text(node: exp.Expr, source: Source) -> str:
    """A part of the statement as SQL of DuckDB."""
    try:
        return node.sql("duckdb")
    except Exception:  # the generator fails in its own ways on trees it does not expect
        raise source.unsupported(f"{node.key.upper()} here", node) from None


def _cast(sql: str, column: Column) -> str:
    return f"CAST({sql} AS {column.type}) AS {quoted(column.name)}"
