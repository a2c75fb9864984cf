"""ALTER TABLE: another schema, and the query that makes its rows of those that are there.

ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7      t (a, c)      SELECT a, CAST(7 AS INTEGER) AS c FROM t
ALTER TABLE t ALTER a TYPE BIGINT                 t (a)         SELECT CAST(a AS BIGINT) AS a FROM t
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp, parse_one

from viewlet.sql.constraints import Constraints
from viewlet.sql.datatypes import to_column_type
from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, quoted, sql_of
from viewlet.sql.split import RawStatement, parse, split_statements
from viewlet.sql.statements import AlterTable
from viewlet.sql.tables import column_of, default_of, table_name
from viewlet.types import Column, SqlType, Table, TableKind


def bind_alter_table(raw: RawStatement, catalog: Mapping[str, Table]) -> AlterTable | None:
    """What ALTER TABLE asks for; None with IF EXISTS, of no table."""
    raw = _with_column_words(raw)
    node, source = parse(raw), raw.source
    if not isinstance(node, exp.Alter) or len(node.args.get("actions") or ()) != 1 or node.args.get("options"):
        raise source.unsupported("this form of ALTER TABLE", None, "change one thing at a time")
    name = table_name(node.this, source)
    if name not in catalog:
        if node.args.get("exists"):
            return None
        raise source.error(unknown("table", name, catalog), node.this)
    table = catalog[name]
    if table.kind is not TableKind.TABLE:
        raise source.error(f"'{name}' is a {table.kind.value}: only tables are altered", node.this)
    change = _Change(table, source, catalog)
    change.read(node.args["actions"][0])
    if change.is_done:
        return None
    cells = ", ".join(
        f"{cell} AS {quoted(column.name)}"
        for column, cell in zip(change.columns, change.cells, strict=True)
        if column.generated is None
    )
    made = replace(
        table,
        name=change.name,
        columns=tuple(change.columns),
        primary_key=tuple(change.renamed.get(key, key) for key in change.key),
        non_negative=frozenset(change.renamed.get(key, key) for key in change.non_negative),
        partition_by=tuple(change.renamed.get(key, key) for key in table.partition_by),
    )
    rows = f"SELECT {cells} FROM {quoted(name)}"
    constraints = change.constraints.bound(made, catalog)
    kept = [each for each in table.unique if each[0] not in change.dropped]
    made = replace(made, unique=(*kept, *change.constraints.unique))
    return AlterTable(name, made, rows, constraints, change.dropped)


def unique_index(raw: RawStatement, catalog: Mapping[str, Table]) -> RawStatement | None:
    """CREATE UNIQUE INDEX i ON t (columns), and DROP INDEX i, as ALTER TABLE t ADD and DROP CONSTRAINT i.

    None of other statements, and where there is nothing to add or drop.
    """
    words = raw.words
    exists = 3 if words[3:6] == ("IF", "NOT", "EXISTS") else 2 if words[2:4] == ("IF", "EXISTS") else 0
    match words:
        case ("CREATE", "UNIQUE", "INDEX", *_) if words[4 + exists : 7 + exists : 2] == ("ON", "("):
            name, table, columns = raw.name_at(3 + exists), raw.name_at(5 + exists), words[7 + exists : -1]
            if words[-1] != ")" or columns[1::2] != (",",) * (len(columns) // 2):
                raise raw.source.unsupported("this form of UNIQUE INDEX", None, "name the columns alone")
            if exists and table in catalog and name in dict(catalog[table].unique):
                return None
            change = f"ADD CONSTRAINT {quoted(name)} UNIQUE {raw.text_from(6 + exists)}"
        case ("DROP", "INDEX", *_) if len(words) == 3 + exists:
            name = raw.name_at(2 + exists)
            table = next((each.name for each in catalog.values() if name in dict(each.unique)), "")
            if not table:
                return None
            change = f"DROP CONSTRAINT {quoted(name)}"
        case _:
            return None
    return next(split_statements(f"ALTER TABLE {quoted(table)} {change}"))


def _with_column_words(raw: RawStatement) -> RawStatement:
    """ALTER TABLE t DROP c and RENAME a TO b with the word COLUMN, which the parser needs."""
    at = 5 if raw.words[2:4] == ("IF", "EXISTS") else 3
    action, following = raw.words[at : at + 1], raw.words[at + 1 : at + 2]
    if action not in (("DROP",), ("RENAME",)) or following in ((), ("COLUMN",), ("CONSTRAINT",), ("TO",)):
        return raw
    end = raw.positions[at][1]
    return next(split_statements(f"{raw.text[:end]} COLUMN{raw.text[end:]}"))


class _Change:
    """A table on its way to another schema."""

    def __init__(self, table: Table, source: Source, catalog: Mapping[str, Table]) -> None:
        self.table = table
        self.name = table.name
        self.columns = list(table.columns)
        self.cells = [quoted(column.name) for column in table.columns]
        """What the columns are made of."""
        self.key = table.primary_key
        self.non_negative = table.non_negative
        self.renamed: dict[str, str] = {}
        self.constraints = Constraints(table.name, source)
        self.dropped: tuple[str, ...] = ()
        self.is_done = False
        """There is nothing to do."""
        self._source = source
        self._catalog = catalog

    def read(self, action: exp.Expr) -> None:
        match action:
            case exp.ColumnDef():
                self._add(action)
            case exp.Drop() if action.args.get("kind") == "COLUMN":
                self._drop(action)
            case exp.Drop() if action.args.get("kind") == "CONSTRAINT":
                self.dropped = (name_of(action.args["tables"][0].this),)
            case exp.RenameColumn():
                self._rename(action)
            case exp.AlterRename():
                self.name = table_name(action.this, self._source)
            case exp.AlterColumn():
                self._alter(action)
            case exp.AddConstraint():
                self._constrain(action)
            case _:
                raise self._source.unsupported(f"ALTER TABLE with {sql_of(action)}", action)

    def _add(self, node: exp.ColumnDef) -> None:
        if name_of(node.this) in self.table.column_names:
            if node.args.get("exists"):
                self.is_done = True
                return
            raise self._source.error(f"there is a column '{name_of(node.this)}' already", node.this)
        keys: list[exp.Expr] = []
        column = column_of(node, self._source, keys, self.constraints)
        if keys:
            raise self._source.unsupported("ADD COLUMN with PRIMARY KEY", node)
        self.non_negative |= self.constraints.non_negative({column.name})
        self.columns.append(column)
        self.cells.append(f"CAST(NULL AS {column.type})" if column.default is None else column.default)

    def _drop(self, node: exp.Drop) -> None:
        target = node.args["tables"][0]
        if node.args.get("exists") and name_of(target.this) not in self.table.column_names:
            self.is_done = True
            return
        at = self._position(target.this)
        name = self.columns[at].name
        if name in self.key or name in self.table.partition_by:
            what = "PRIMARY KEY" if name in self.key else "PARTITION BY"
            raise self._source.error(f"column '{name}' is part of the {what}", target)
        if len(self.columns) == 1:
            raise self._source.error("a table has at least one column", target)
        reader = next((each.name for each in self.columns if name in _read_columns(each)), None)
        if reader is not None:
            raise self._source.error(f"generated column '{reader}' reads '{name}': drop that first", target)
        del self.columns[at], self.cells[at]
        self.non_negative -= {name}

    def _rename(self, node: exp.RenameColumn) -> None:
        at, new = self._position(node.this.this), name_of(node.args["to"].this)
        if new in self.table.column_names:
            raise self._source.error(f"there is a column '{new}' already", node.args["to"])
        old = self.columns[at].name
        self.renamed[old] = new
        self.columns[at] = replace(self.columns[at], name=new)
        for i, column in enumerate(self.columns):
            if column.generated is not None and old in _read_columns(column):
                self.columns[i] = replace(column, generated=_renamed(column.generated, old, new))

    def _alter(self, node: exp.AlterColumn) -> None:
        at = self._position(node.this)
        column, cell = self.columns[at], self.cells[at]
        if column.always and column.generated is None and (node.args.get("default") or node.args.get("drop")):
            raise self._source.unsupported("DEFAULT of an identity column", node, "drop it, and add another")
        if column.generated is not None and "allow_null" not in node.args:
            raise self._source.unsupported("ALTER of a generated column", node, "drop it, and add another")
        if node.args.get("dtype") is not None:
            type, length = _new_type(node.args["dtype"], column, self._source)
            using = node.args.get("using")
            cell = f"CAST({using.sql(dialect='duckdb') if using else cell} AS {type})"
            column = replace(column, type=type, length=length)
            if column.default is not None:
                column = replace(column, default=f"CAST({column.default} AS {type})")
        elif node.args.get("default") is not None:
            column = replace(column, default=default_of(node.args["default"], column.type, self._source))
        elif "allow_null" in node.args:
            column = replace(column, type=column.type.with_nullable(self._may_be_null(node, column)))
        elif node.args.get("drop"):
            column = replace(column, default=None)
        else:
            raise self._source.unsupported(f"ALTER TABLE with {sql_of(node)}", node)
        self.columns[at], self.cells[at] = column, cell

    def _may_be_null(self, node: exp.AlterColumn, column: Column) -> bool:
        if node.args["allow_null"] and column.name in self.key:
            raise self._source.error(f"column '{column.name}' is part of the PRIMARY KEY", node)
        return bool(node.args["allow_null"])

    def _constrain(self, node: exp.AddConstraint) -> None:
        for each in node.expressions:
            name, inner = None, each
            if isinstance(each, exp.Constraint) and len(each.expressions) == 1:
                name, inner = name_of(each.this), each.expressions[0]
            if isinstance(inner, exp.PrimaryKey):
                self._set_key(inner)
            elif not self.constraints.add(inner, None, name):
                raise self._source.unsupported(f"constraint {sql_of(inner)}", inner)

    def _set_key(self, node: exp.PrimaryKey) -> None:
        if self.key:
            raise self._source.error("a table has one PRIMARY KEY", node)
        at = [
            self._position(key.this if isinstance(key, exp.Ordered | exp.Column) else key) for key in node.expressions
        ]
        self.key = tuple(self.columns[i].name for i in at)
        for i in at:
            self.columns[i] = replace(self.columns[i], type=self.columns[i].type.with_nullable(False))

    def _position(self, node: exp.Expr) -> int:
        name = name_of(node)
        if name not in self.table.column_names:
            raise self._source.error(unknown("column", name, self.table.column_names), node)
        return self.table.column_names.index(name)


def _read_columns(column: Column) -> set[str]:
    """The columns that a generated column is computed from."""
    if column.generated is None:
        return set()
    return {name_of(each.this) for each in parse_one(column.generated, read="duckdb").find_all(exp.Column)}


def _renamed(expression: str, old: str, new: str) -> str:
    """An expression with another name of a column."""

    def rename(node: exp.Expr) -> exp.Expr:
        is_old = isinstance(node, exp.Column) and name_of(node.this) == old
        return exp.column(exp.to_identifier(new, quoted=True)) if is_old else node

    return str(parse_one(expression, read="duckdb").transform(rename).sql(dialect="duckdb"))


def _new_type(node: exp.DataType, column: Column, source: Source) -> tuple[SqlType, int | None]:
    """A new type of a column, which may be NULL if the column may."""
    type, length = to_column_type(node, source, node)
    return type.with_nullable(column.type.nullable), length
