"""CREATE TABLE, CREATE STREAM and CREATE STATIC TABLE: columns, types, keys and the checks that are understood."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from viewlet.sql.constraints import Constraints
from viewlet.sql.datatypes import to_column_type
from viewlet.sql.scope import unknown
from viewlet.sql.source import Source, name_of, sql_of
from viewlet.sql.streams.determinism import unstable_word
from viewlet.types import NULL, Column, Constraint, SqlType, Table, TableKind


def bind_create_table(
    node: exp.Create, kind: TableKind, source: Source, catalog: Mapping[str, Table]
) -> tuple[Table, tuple[Constraint, ...], dict[str, str]]:
    """A table, what its rows must be like, and its columns GENERATED AS IDENTITY with options of sequences."""
    schema = node.this
    if not isinstance(schema, exp.Schema):
        raise source.unsupported("CREATE TABLE AS", node.this, "declare the columns, then INSERT ... SELECT")
    partition_by, others = partitioning(node)
    if others:
        raise source.unsupported(f"table property {sql_of(others[0])}", node.this)
    name = table_name(schema.this, source)
    columns: list[Column] = []
    keys: list[exp.Expr] = []
    constraints, identities = Constraints(name, source), dict[str, str]()
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            column = column_of(part, source, keys, constraints, identities)
            if column.name in [other.name for other in columns]:
                raise source.error(f"column '{column.name}' is declared twice", part.this)
            columns.append(column)
        else:
            _table_constraint(part, source, keys, constraints)
    primary_key = tuple(name_of(key) for key in keys)
    if kind is TableKind.STREAM and any(column.generated is not None for column in columns):
        raise source.unsupported("a generated column of a stream", node.this, "compute it in the views over the stream")
    known = {column.name for column in columns}
    for key in keys:
        if name_of(key) not in known:
            raise source.error(unknown("column", name_of(key), known), key)
    fitted = tuple(
        replace(each, type=each.type.with_nullable(each.type.nullable and each.name not in primary_key))
        for each in columns
    )
    made = Table(name, fitted, kind, primary_key, frozenset(), known_columns(partition_by, known, source))
    made = replace(made, non_negative=constraints.non_negative(known))
    found = constraints.bound(made, catalog)
    return replace(made, unique=tuple(constraints.unique)), found, identities


def partitioning(node: exp.Create) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """What stands in PARTITION BY, and the other properties of a CREATE but TEMPORARY."""
    columns: list[exp.Expr] = []
    others: list[exp.Expr] = []
    properties = node.args.get("properties")
    for option in properties.expressions if properties is not None else []:
        if isinstance(option, exp.PartitionedByProperty):
            columns += option.this.expressions if isinstance(option.this, exp.Schema | exp.Tuple) else [option.this]
        elif not isinstance(option, exp.TemporaryProperty):
            others.append(option)
    return columns, others


def is_temporary(node: exp.Create) -> bool:
    """Whether a CREATE says TEMPORARY."""
    properties = node.args.get("properties")
    return properties is not None and any(isinstance(each, exp.TemporaryProperty) for each in properties.expressions)


def known_columns(nodes: Sequence[exp.Expr], known: Collection[str], source: Source) -> tuple[str, ...]:
    """Names of columns as written; each must exist."""
    for node in nodes:
        if not isinstance(node, exp.Identifier | exp.Column):
            raise source.error("PARTITION BY takes names of columns", node)
        if name_of(node) not in known:
            raise source.error(unknown("column", name_of(node), set(known)), node)
    return tuple(dict.fromkeys(map(name_of, nodes)))


def table_name(node: exp.Expr, source: Source) -> str:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise source.error("a table name is expected", node)
    if node.args.get("db"):
        raise source.unsupported("a schema name", node, "all tables live in one schema")
    return name_of(node.this)


def column_of(
    node: exp.ColumnDef,
    source: Source,
    keys: list[exp.Expr],
    constraints: Constraints,
    identities: dict[str, str] | None = None,
) -> Column:
    name = name_of(node.this)
    generated = _generated(node, source)
    if node.args.get("kind") is not None:
        type, length = to_column_type(node.args["kind"], source, node)
    elif generated is not None:
        type, length = NULL, None  # DuckDB says which type the expression has
    else:
        raise source.error(f"column '{name}' has no type", node)
    default: str | None = None
    always = generated is not None
    for constraint in node.args.get("constraints") or []:
        kind = constraint.kind
        if isinstance(kind, exp.NotNullColumnConstraint):
            type = type.with_nullable(bool(kind.args.get("allow_null")))
        elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
            if keys:
                raise source.error("a table has one PRIMARY KEY", node)
            keys.append(node.this)
        elif isinstance(kind, exp.DefaultColumnConstraint):
            default = default_of(kind.this, type, source)
        elif isinstance(kind, exp.GeneratedAsIdentityColumnConstraint) and kind.args.get("expression") is None:
            if identities is None:
                raise source.unsupported("a new column GENERATED AS IDENTITY", node, "declare it in CREATE TABLE")
            if not type.is_integer:
                raise source.error(f"column '{name}' is a {type}: IDENTITY is for integers", node)
            identities[name], always = _identity(kind), bool(kind.this)
            type = type.with_nullable(False)
        elif isinstance(kind, _GENERATED):
            continue
        elif not constraints.add(kind, node.this, _name_of(constraint)):
            raise source.unsupported(f"constraint {sql_of(constraint)}", node)
    if default is not None and (generated is not None or name in (identities or ())):
        raise source.error(f"column '{name}' has a DEFAULT and is GENERATED", node)
    return Column(name, type, length, default, always, generated)


_GENERATED = (exp.GeneratedAsIdentityColumnConstraint, exp.ComputedColumnConstraint)


def _generated(node: exp.ColumnDef, source: Source) -> str | None:
    """The expression of a column GENERATED ALWAYS AS (expression) or AS (expression)."""
    for constraint in node.args.get("constraints") or []:
        if not isinstance(constraint, exp.ColumnConstraint):
            raise source.error("a constraint is expected after its name", constraint)
        kind = constraint.kind
        found = kind.this if isinstance(kind, exp.ComputedColumnConstraint) else kind.args.get("expression")
        if isinstance(kind, _GENERATED) and found is not None:
            text = str(found.sql(dialect="duckdb"))
            if found.find(exp.Query, exp.AggFunc) is not None:
                raise source.error("a generated column is about one row: it takes no query and no aggregate", found)
            if isinstance(kind, exp.GeneratedAsIdentityColumnConstraint) and not kind.this:
                raise source.error("a column is GENERATED ALWAYS AS an expression", node)
            if (word := unstable_word(text)) is not None:
                raise source.error(f"{word} is another one each time: a generated column depends on its row", found)
            return text
    return None


def _identity(kind: exp.Expr) -> str:
    """The options of an identity column, as those of CREATE SEQUENCE."""
    words = {"start": "START WITH", "increment": "INCREMENT BY", "minvalue": "MINVALUE", "maxvalue": "MAXVALUE"}
    options = [f"{words[name]} {sql_of(value)}" for name, value in kind.args.items() if name in words and value]
    return " ".join([*options, *(["CYCLE"] if kind.args.get("cycle") else [])])


def default_of(node: exp.Expr, type: SqlType, source: Source) -> str | None:
    """What DEFAULT says, as SQL of the type of its column."""
    if node.find(exp.Column, exp.Query):
        raise source.error("DEFAULT is an expression without columns", node)
    if node.find(exp.AggFunc, exp.Window):
        raise source.error("DEFAULT is one value: it takes no aggregate and no window", node)
    return None if isinstance(node, exp.Null) else f"CAST({node.sql(dialect='duckdb')} AS {type})"


def _name_of(constraint: exp.Expr) -> str | None:
    """The name that a constraint is given."""
    return name_of(constraint.this) if isinstance(constraint.this, exp.Identifier) else None


def _table_constraint(node: exp.Expr, source: Source, keys: list[exp.Expr], constraints: Constraints) -> None:
    name: str | None = None
    if isinstance(node, exp.Constraint) and len(node.expressions) == 1:
        name, node = _name_of(node), node.expressions[0]
    if isinstance(node, exp.PrimaryKey):
        if keys:
            raise source.error("a table has one PRIMARY KEY", node)
        keys += [_key_column(key, source) for key in node.expressions]
    elif not constraints.add(node, None, name):
        raise source.unsupported(f"constraint {sql_of(node)}", node)


def _key_column(key: exp.Expr, source: Source) -> exp.Expr:
    if isinstance(key, exp.Ordered) and key.args.get("desc"):
        raise source.unsupported("DESC in a PRIMARY KEY", key, "a key has no order")
    return key.this if isinstance(key, exp.Ordered | exp.Column) else key
