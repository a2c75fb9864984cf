"""Statements that change rows, as one query for the changes.

    UPDATE t SET a = a + 1 WHERE b   ->   SELECT a AS "old 0", b AS "old 1", CAST(a + 1 AS ...) AS "new 0", ... WHERE b

The query answers with a row for every changed row: what it was, what it becomes, and where a statement can do several
things, which (`action`). DuckDB evaluates it, and the answer is applied as one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.helper import ensure_list

from viewlet.sql.key_condition import keys_of
from viewlet.sql.parser import BY_NAME, OVERRIDING
from viewlet.sql.result_columns import result_columns
from viewlet.sql.source import Source, name_of, quoted, sql_of
from viewlet.sql.statements import Modify, NewRows, Returning
from viewlet.sql.target import Target, find_target, is_default, refuse, text_of
from viewlet.types import Table

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


# -- INSERT ---------------------------------------------------------------------------------------------------------


def _insert(node: exp.Insert, source: Source, catalog: Mapping[str, Table]) -> Modify:
    refuse(node, source, "overwrite", "partition", "ignore")
    is_listed = isinstance(node.this, exp.Schema)
    target = find_target(node.this.this if is_listed else node.this, source, catalog)
    if node.this.meta.get(OVERRIDING) and len(target.settable) < len(target.table.columns):
        raise source.unsupported("OVERRIDING of columns that are GENERATED ALWAYS", node.this)
    names = _listed(target, node.this.expressions) if is_listed else _unlisted(node.expression, target)
    if node.args.get("by_name"):
        names = _names_of(node, target, catalog)
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


def _unlisted(rows: exp.Expr | None, target: Target) -> Sequence[str]:
    """The columns that an INSERT without a list is for: all, or all that can be set where it has no more values."""
    first = rows.expressions[0] if isinstance(rows, exp.Values) else rows
    values = first.expressions if isinstance(first, exp.Tuple | exp.Select) else [first]
    return target.table.column_names if len(values) == len(target.table.columns) else target.settable


def _listed(target: Target, columns: Iterable[exp.Expr]) -> Sequence[str]:
    names: list[str] = []
    for column in columns:
        if not isinstance(column, exp.Identifier):
            raise target.source.error("INSERT takes names of columns", column)
        name = target.named(column)
        if name in names:
            raise target.source.error(f"column '{name}' is listed twice", column)
        names.append(name)
    return names


def _new_rows(node: exp.Insert, target: Target, names: Sequence[str]) -> str:
    """The rows that an INSERT brings for the named columns, in the columns of the table."""
    if node.args.get("default"):
        if isinstance(node.this, exp.Schema):
            raise target.source.error("DEFAULT VALUES are for all columns: leave their list out", node.this)
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
    text = text_of(rows, target.source)
    if not _has_known_width(rows):  # a list of names may be shorter than the rows, and a UNION may not
        text = f"SELECT {', '.join(['NULL'] * len(names))} WHERE FALSE UNION ALL ({text})"
    return f"SELECT {cells} FROM ({text}) AS new_rows({given})"


def _fill_in_defaults(rows: exp.Values, names: Sequence[str], target: Target) -> None:
    """VALUES (1, DEFAULT)"""
    for row in rows.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        for name, cell in zip(names, cells, strict=True):
            target.check_settable(name, cell)
            if is_default(cell):
                cell.replace(parse_one(target.default(name), read="duckdb"))


def _names_of(node: exp.Insert, target: Target, catalog: Mapping[str, Table]) -> Sequence[str]:
    """The columns that the query of INSERT BY NAME is for."""
    rows = node.expression
    names = result_columns(rows, catalog, node.args.get("with_")) if isinstance(rows, exp.Query) else None
    if names is None or isinstance(rows, exp.Values):
        raise target.source.unsupported("INSERT BY NAME of this query", rows, "name its columns")
    return _listed(target, (exp.to_identifier(name, quoted=True) for name in names))


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


def _on_conflict(target: Target, conflict: exp.Expr | None, alternative: str) -> str:
    """What an INSERT does with rows that conflict with others: REPLACE, DO NOTHING or DO UPDATE."""
    if conflict is None:
        if alternative not in ("REPLACE", "IGNORE"):
            raise target.source.unsupported(f"INSERT OR {alternative}", None)
        return "REPLACE" if alternative == "REPLACE" else "DO NOTHING"
    if alternative:
        raise target.source.error(f"OR {alternative} and ON CONFLICT exclude each other: leave one out", conflict)
    refuse(conflict, target.source, "duplicate", "constraint", "index_predicate")
    action = str(conflict.args["action"].name).upper()
    if action not in ("DO NOTHING", "DO UPDATE"):
        raise target.source.error("ON CONFLICT takes DO NOTHING or DO UPDATE", conflict)
    return action


def _conflict_keys(target: Target, conflict: exp.Expr | None, action: str) -> list[tuple[str, ...]]:
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
    target: Target, conflict: exp.Expr | None, action: str, given: Sequence[str], keys: Sequence[tuple[str, ...]]
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
        condition = "" if where is None else f" WHERE {text_of(_qualified(where.this, target), target.source)}"
    joined = f"{target.read} JOIN {chosen_rows} AS excluded ON {same}"
    replaced = f"SELECT 'UPDATE', {target.change(values)} FROM {joined}{condition}"
    return f"{incoming} {added} UNION ALL {replaced}"


# -- DELETE, UPDATE and TRUNCATE ------------------------------------------------------------------------------------


def _delete(node: exp.Delete, source: Source, catalog: Mapping[str, Table]) -> Modify:
    refuse(node, source, "limit", "order", "tables")
    target = find_target(node.this, source, catalog)
    where, using = _where(node, source), node.args.get("using")
    if using:
        others = ", ".join(text_of(each, source) for each in using)
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
    refuse(node, source, "is_database", "exists", "only", "cluster", "identity", "option", "partition")
    if len(node.expressions) != 1:
        raise source.unsupported("TRUNCATE of several tables", node.expressions[1])
    target = find_target(node.expressions[0], source, catalog, alias=False)
    return Modify("delete", target.table.name, f"SELECT {target.row()} FROM {target.read}", source.text)


def _update(node: exp.Update, source: Source, catalog: Mapping[str, Table]) -> Modify:
    refuse(node, source, "limit", "order")
    target = find_target(node.this, source, catalog)
    change = target.change(_assigned(target, node.expressions, False))
    where, others = _where(node, source), node.args.get("from_")
    if others is None:
        changes, keys = (
            f"{_common_tables(node, source)}SELECT {change} FROM {target.read}{where}",
            keys_of(target.table, node),
        )
    else:
        once = f"QUALIFY row_number() OVER (PARTITION BY {target.number}) = 1"
        joined = f"{target.read_numbered}, {text_of(others.this, source)}"
        ctes = _common_tables(node, source, target.numbered)
        changes, keys = f"{ctes}SELECT {change} FROM {joined}{where} {once}", None
    return Modify("update", target.table.name, changes, source.text, keys, returning=_returning(node, target))


def _where(node: exp.Expr, source: Source) -> str:
    where = node.args.get("where")
    return "" if where is None else f" WHERE {text_of(where.this, source)}"


def _common_tables(node: exp.Expr, source: Source, *others: str) -> str:
    """The WITH clause of a statement, with some more common table expressions."""
    clause = node.args.get("with_")
    written = [] if clause is None else [text_of(each, source) for each in clause.expressions]
    if not written and not others:
        return ""
    recursive = "RECURSIVE " if clause is not None and clause.args.get("recursive") else ""
    return f"WITH {recursive}{', '.join([*others, *written])} "


def _assigned(target: Target, assignments: Iterable[exp.Expr], qualified: bool) -> dict[str, str]:
    """The values of SET; names without a table mean the target where they are to be `qualified`."""
    source, values = target.source, dict[str, str]()
    for assignment in assignments:
        for column, value in _pairs(assignment, source):
            name = target.named(column)
            if name in values:
                raise source.error(f"column '{name}' is set twice", column)
            target.check_settable(name, value)
            if is_default(value):
                values[name] = target.default(name)
            else:
                values[name] = text_of(_qualified(value, target) if qualified else value, source)
    return values


def _pairs(assignment: exp.Expr, source: Source) -> Iterator[tuple[exp.Column, exp.Expr]]:
    """The columns that one assignment of SET names, with their values."""
    left, right = assignment.this, assignment.expression
    lefts, rights = [left.this if isinstance(left, exp.Paren) else left], [right]
    if isinstance(left, exp.Tuple):
        lefts = left.expressions
        is_row = isinstance(right, exp.Tuple) or (isinstance(right, exp.Anonymous) and right.name.upper() == "ROW")
        rights = right.expressions if is_row else [right] * len(lefts)  # one value is for all of them
    is_understood = isinstance(assignment, exp.EQ) and all(isinstance(each, exp.Column) for each in lefts)
    if not is_understood or len(lefts) != len(rights) or (len(lefts) > 1 and isinstance(right, exp.Query)):
        raise source.unsupported(f"SET {sql_of(assignment)}", assignment)
    for column in lefts:
        if column.table:
            raise source.error("SET names columns without their table", column)
    yield from zip(lefts, rights, strict=True)


def _qualified(node: exp.Expr, target: Target) -> exp.Expr:
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
    target = find_target(node.this, source, catalog)
    using, on = node.args["using"], _merge_condition(node, target)
    read, others = target.read_numbered, text_of(using, source)
    incoming = _Incoming(using.alias_or_name, result_columns(using, catalog, node.args.get("with_")), target)
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
        holds = "TRUE" if condition is None else f"({text_of(condition, source)}) IS TRUE"
        found = " AND ".join([holds, *(f"NOT ({each})" for each in before[group])])
        before[group].append(holds)
        done = _merge_action(when, group, target, incoming)
        if done is not None:
            action, change = done
            number = "NULL" if group == "by target" else target.number
            what = f"{action} AS {ACTION}, {change}, {number} AS {_CHANGED}"
            selects.append(f"SELECT {what} {groups[group]} WHERE {found}")
    if not selects:
        nothing = target.change(None, is_new=True)
        selects.append(f"SELECT 'INSERT' AS {ACTION}, {nothing}, NULL AS {_CHANGED} WHERE FALSE")
    twice = f"{_CHANGED} IS NOT NULL AND count(*) OVER (PARTITION BY {_CHANGED}) > 1"
    action = f"CASE WHEN {twice} THEN {_TWICE} ELSE {ACTION} END AS {ACTION}"
    sql = f"SELECT * EXCLUDE ({_CHANGED}) REPLACE ({action}) FROM ({' UNION ALL '.join(selects)})"
    ctes = _common_tables(node, source, target.numbered)
    return Modify("merge", target.table.name, ctes + sql, source.text, returning=_returning(node, target))


def _merge_condition(node: exp.Merge, target: Target) -> str:
    columns = node.args.get("using_cond")
    if not columns:
        return f"({text_of(node.args['on'], target.source)})"
    other = quoted(node.args["using"].alias_or_name)
    return " AND ".join(f"{target.cell(target.named(each))} = {other}.{quoted(name_of(each))}" for each in columns)


@dataclass(frozen=True, slots=True)
class _Incoming:
    """The rows that MERGE reads beside the target."""

    alias: str
    columns: Sequence[str] | None
    target: Target

    def values(self, clause: exp.Expr, star: exp.Expr | None) -> dict[str, str]:
        """What `*` gives the columns of the target: the columns of the source in their order, or those BY NAME."""
        source, settable = self.target.source, self.target.settable
        if self.columns is None:
            raise source.unsupported(f"{sql_of(clause)} of this source", clause, "name its columns")
        every = self.target.table.column_names
        if star is not None and star.meta.get(BY_NAME):
            names = [self.target.named(exp.to_identifier(name, quoted=True)) for name in self.columns]
        elif len(self.columns) in (len(every), len(settable)):
            names = list(every if len(self.columns) == len(every) else settable)
        else:
            raise source.error(f"the source has {len(self.columns)} columns for {len(every)}: say BY NAME", clause)
        return {
            name: f"{quoted(self.alias)}.{quoted(column)}"
            for name, column in zip(names, self.columns, strict=True)
            if name in settable
        }


def _merge_action(when: exp.Expr, group: str, target: Target, incoming: _Incoming) -> tuple[str, str] | None:
    """What a clause of MERGE does, as SQL, and the change of its rows; None if nothing."""
    then, source = when.args["then"], target.source
    match then:
        case exp.Update() if group != "by target":
            return "'UPDATE'", target.change(_merge_assignments(then, group, target, incoming))
        case exp.Insert() if group == "by target":
            return "'INSERT'", target.change(_merge_values(then, target, incoming), is_new=True)
        case exp.Var() if then.name.upper() == "DELETE" and group != "by target":
            return "'DELETE'", target.change(None)
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return None
        case exp.Var() if then.name.upper() == "ERROR":
            message = exp.Literal.string(f"a row of MERGE is an error: {sql_of(when)}")
            return f"error({message.sql('duckdb')})", target.change(None, is_new=group == "by target")
        case _:
            raise source.unsupported(f"{sql_of(then)} in this clause of MERGE", when)


def _merge_assignments(then: exp.Update, group: str, target: Target, incoming: _Incoming) -> dict[str, str]:
    """The values that a clause of MERGE sets."""
    first = next(iter(ensure_list(then.args.get("expressions") or [])), None)
    if first is not None and not isinstance(first, exp.Star):
        return _assigned(target, then.expressions, False)
    if group == "by source":
        raise target.source.error("there is no row that UPDATE could take values from", then)
    return incoming.values(then, first)


def _merge_values(then: exp.Insert, target: Target, incoming: _Incoming) -> dict[str, str]:
    """The values of the row that a clause of MERGE inserts; the other columns have their defaults."""
    source, columns, values = target.source, then.this, then.expression
    if columns is None or isinstance(columns, exp.Star):
        if not isinstance(values, exp.Tuple):
            return incoming.values(then, columns)
        columns = exp.Tuple()
    listed = columns.expressions if isinstance(columns, exp.Tuple) else [columns]
    if not isinstance(values, exp.Tuple):
        if len(listed) == 1 and is_default(listed[0]):  # DEFAULT VALUES
            return {}
        raise source.error("INSERT needs VALUES", then)
    names = [target.named(each) for each in listed] or list(target.settable)
    if len(set(names)) < len(names):
        raise source.error("a column is listed twice", then)
    if len(names) != len(values.expressions):
        raise source.error(f"{len(values.expressions)} values for {len(names)} columns", then)
    given = dict(zip(names, values.expressions, strict=True))
    for name, value in given.items():
        target.check_settable(name, value)
    return {name: text_of(value, source) for name, value in given.items() if not is_default(value)}


# -- RETURNING ---------------------------------------------------------------------------------------------------------


def _returning(node: exp.Expr, target: Target) -> Returning | None:
    """The query that RETURNING stands for, over the changed rows under the name of the table."""
    clause = node.args.get("returning")
    if clause is None:
        return None
    refuse(clause, target.source, "into")
    for part in clause.find_all(exp.AggFunc, exp.Window):
        if part.find_ancestor(exp.Query) is None:
            raise target.source.error("RETURNING is about one row: it takes no aggregate and no window", part)
    every = ", ".join(map(target.cell, target.table.column_names))  # what MERGE did is no column of the table
    columns = ", ".join(
        every if each.is_star and not _star_options(each) else text_of(each, target.source)
        for each in clause.expressions
    )
    name = target.fresh(CHANGED_ROWS)
    sql = f"SELECT {columns} FROM {quoted(name)} AS {quoted(target.alias)}"
    return Returning(name, sql, clause.find(exp.Query) is not None)


def _star_options(node: exp.Expr) -> bool:
    """Whether `*` or `t.*` is followed by EXCLUDE, REPLACE or RENAME."""
    star = node.this if isinstance(node, exp.Column) else node
    return any(star.args.values())
