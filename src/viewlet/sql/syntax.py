"""What the front end reads of the parser's tree: every class of node it knows, and the arguments of each that it uses.

    SELECT a FROM r FOR SYSTEM_TIME AS OF ...      Table(this=r, version=...)     `version` is not in the table: refused

The parser knows the syntax of many databases and hands all of it over. Whatever is not listed here would be ignored by
the binder, and is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.helper import ensure_list

from viewlet.errors import UnsupportedError, ViewletError
from viewlet.sql.aggregates import AGGREGATES
from viewlet.sql.function_names import FUNCTION_NODES, UNSUPPORTED_NODES
from viewlet.sql.scalars import HANDLERS
from viewlet.sql.source import Source, sql_of

Arguments = frozenset[str]
_QUERY = ("with_", "order", "limit", "offset")


def _reads(*names: str) -> Arguments:
    return frozenset(names)


_CLAUSES: dict[type[exp.Expr], Arguments] = {
    exp.Select: _reads("expressions", "distinct", "from_", "joins", "where", "group", "having", *_QUERY),
    exp.Subquery: _reads("this", "alias", "joins", *_QUERY),
    exp.Values: _reads("expressions", "alias", "order", "limit", "offset"),
    exp.Union: _reads("this", "expression", "distinct", *_QUERY),
    exp.Except: _reads("this", "expression", "distinct", *_QUERY),
    exp.Intersect: _reads("this", "expression", "distinct", *_QUERY),
    exp.With: _reads("expressions"),
    exp.CTE: _reads("this", "alias", "materialized"),  # a hint about speed, which views have their own ways to
    exp.From: _reads("this"),
    exp.Join: _reads("this", "on", "side", "kind", "using", "method"),
    exp.Where: _reads("this"),
    exp.Having: _reads("this"),
    exp.Group: _reads("expressions", "all"),
    exp.Order: _reads("expressions"),
    exp.Ordered: _reads("this", "desc", "nulls_first"),
    exp.Limit: _reads("expression"),
    exp.Fetch: _reads("count", "limit_options", "direction"),  # FIRST and NEXT mean the same
    exp.LimitOptions: _reads("rows"),
    exp.Offset: _reads("expression"),
    exp.Table: _reads("this", "alias", "joins"),
    exp.TableAlias: _reads("this", "columns"),
    exp.Alias: _reads("this", "alias"),
    exp.Identifier: _reads("this", "quoted"),
    exp.Star: _reads(),
    exp.Tuple: _reads("expressions"),
    exp.Distinct: _reads("expressions"),
    exp.Any: _reads("this"),
    exp.All: _reads("this"),
    exp.Var: _reads("this"),
    exp.DataType: _reads("this", "expressions", "kind"),
    exp.DataTypeParam: _reads("this"),
    exp.Anonymous: _reads("this", "expressions"),
    exp.AnonymousAggFunc: _reads("this", "expressions"),
    exp.Kwarg: _reads("this", "expression"),
    exp.PropertyEQ: _reads("this", "expression"),
}
_SCALARS: dict[type[exp.Expr], Arguments] = {
    exp.Literal: _reads("this", "is_string"),
    exp.Column: _reads("this", "table"),
    exp.Null: _reads(),
    exp.Not: _reads("this"),
    exp.Paren: _reads("this"),
    exp.Boolean: _reads("this"),
    exp.Between: _reads("this", "low", "high"),
    exp.In: _reads("this", "expressions", "query"),
    exp.Like: _reads("this", "expression", "negate"),
    exp.ILike: _reads("this", "expression", "negate"),
    exp.Interval: _reads("this", "unit"),
    exp.Case: _reads("this", "ifs", "default"),
    exp.Cast: _reads("this", "to"),
    exp.TimestampTrunc: _reads("this", "unit"),
    exp.DateTrunc: _reads("this", "unit"),
    exp.DateDiff: _reads("this", "expression", "unit"),
    exp.Trim: _reads("this", "expression", "position"),
    exp.Exists: _reads("this"),
    exp.Filter: _reads("this", "expression"),
}
_STATEMENTS: dict[type[exp.Expr], Arguments] = {
    exp.Create: _reads("this", "kind", "expression", "exists", "properties", "replace"),
    exp.Drop: _reads("this", "kind", "tables", "exists", "materialized", "restrict", "cascade"),
    exp.Insert: _reads("this", "expression", "with_", "conflict", "alternative", "returning", "by_name", "default"),
    exp.Delete: _reads("this", "where", "using", "with_", "returning"),
    exp.Update: _reads("this", "expressions", "where", "from_", "with_", "returning"),
    exp.Merge: _reads("this", "using", "on", "using_cond", "whens", "with_", "returning"),
    exp.TruncateTable: _reads("expressions"),
    exp.Schema: _reads("this", "expressions"),
    exp.ColumnDef: _reads("this", "kind", "constraints"),
    exp.ColumnConstraint: _reads("this", "kind"),
    exp.DefaultColumnConstraint: _reads("this"),
    exp.GeneratedAsIdentityColumnConstraint: _reads(
        "this", "on_null", "start", "increment", "minvalue", "maxvalue", "cycle", "expression"
    ),
    exp.ComputedColumnConstraint: _reads("this", "persisted", "not_null"),
    exp.UniqueColumnConstraint: _reads("this", "nulls"),
    exp.Reference: _reads("this", "options"),
    exp.ForeignKey: _reads("expressions", "reference"),
    exp.NotNullColumnConstraint: _reads("allow_null"),
    exp.PrimaryKeyColumnConstraint: _reads(),
    exp.CheckColumnConstraint: _reads("this"),
    exp.PrimaryKey: _reads("expressions"),
    exp.Constraint: _reads("this", "expressions"),
    exp.Properties: _reads("expressions"),
    exp.Property: _reads("this", "value"),
    exp.MaterializedProperty: _reads(),
    exp.TemporaryProperty: _reads(),
    exp.PartitionedByProperty: _reads("this"),
}
FLAGS: Mapping[type[exp.Expr], Arguments] = {
    exp.Div: _reads("safe"),
    exp.DPipe: _reads("safe"),
    exp.Concat: _reads("safe", "coalesce"),
    exp.Least: _reads("ignore_nulls"),
    exp.Greatest: _reads("ignore_nulls"),
    exp.Count: _reads("big_int"),
    exp.DateDiff: _reads("date_part_boundary"),
}
"""Arguments by which the parser notes how DuckDB means an operator or function, which is how we mean it."""


def _table() -> dict[type[exp.Expr], Arguments]:
    known: dict[type[exp.Expr], Arguments] = {}
    for handled in HANDLERS:
        if issubclass(handled, exp.Binary | exp.Func) and handled is not exp.TryCast:
            known[handled] = _reads("this", "expression")
    known.update({cls: frozenset(keys) for cls, (_, keys) in FUNCTION_NODES.items()})
    known.update(dict.fromkeys(AGGREGATES, _reads("this")))
    for part in (_SCALARS, _CLAUSES, _STATEMENTS):
        known.update(part)
    return {cls: names | FLAGS.get(cls, frozenset()) for cls, names in known.items()}


_READ_BY_DUCKDB = (
    *(exp.Insert, exp.Delete, exp.Update, exp.Merge, exp.TruncateTable),
    *(exp.DefaultColumnConstraint, exp.GeneratedAsIdentityColumnConstraint, exp.ComputedColumnConstraint),
)
"""What is inside is text of a query for DuckDB."""
UNDERSTOOD: Mapping[type[exp.Expr], Arguments] = _table()
_TITLES: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Table, "version"): "FOR SYSTEM_TIME and VERSION AS OF",
    (exp.Table, "when"): "AT (...) behind a table",
    (exp.Table, "system_time"): "FOR SYSTEM_TIME",
    (exp.Table, "only"): "ONLY",
    (exp.Table, "hints"): "a table hint",
    (exp.Select, "hint"): "a hint",
    (exp.With, "recursive"): "WITH RECURSIVE",
}


@contextmanager
def everything_read(node: exp.Expr, source: Source) -> Iterator[None]:
    """Refuses a tree that has more in it than the binder reads; an error of the binder's own comes first."""
    unread = find_unread(node, source)
    try:
        yield
    except ViewletError:
        raise
    except Exception:
        if unread is not None:
            raise unread from None
        raise
    if unread is not None:
        raise unread


def find_unread(node: exp.Expr, source: Source) -> UnsupportedError | None:
    """The first node or argument of a tree that nothing would read."""
    pending = [node]
    while pending:
        part = pending.pop()
        names = UNDERSTOOD.get(type(part))
        if names is None:
            if type(part) in HANDLERS or type(part) in UNSUPPORTED_NODES:
                continue  # the binder refuses it by name
            return source.unsupported(_written(part), part)
        for name, value in part.args.items():
            if _is_empty(value):
                continue
            if name not in names:
                return _refusal(part, name, value, source)
            if not isinstance(part, _READ_BY_DUCKDB):
                pending += [child for child in ensure_list(value) if isinstance(child, exp.Expr)]
    return None


def check_target(node: exp.Expr, source: Source, alias: bool = False) -> None:
    """Refuses anything beside the name of a table that a statement creates, drops or changes."""
    for name, value in node.args.items():
        if name != "this" and not (alias and name == "alias") and not _is_empty(value):
            raise _refusal(node, name, value, source)


def _is_empty(value: object) -> bool:
    if isinstance(value, exp.IndexParameters):  # the parser makes one for every key
        return all(map(_is_empty, value.args.values()))
    return value is None or value is False or value == [] or value == ""


def _refusal(node: exp.Expr, name: str, value: object, source: Source) -> UnsupportedError:
    first = value[0] if isinstance(value, list) else value
    at = first if isinstance(first, exp.Expr) else None
    title = _TITLES.get((type(node), name))
    if title is None:
        title = f"{name.strip('_').replace('_', ' ').upper()} of {node.key.upper()}"
        title = f"'{_written(at)}' ({title})" if at is not None else title
    return source.unsupported(title, at if at is not None and source.span(at) is not None else node)


def _written(node: exp.Expr) -> str:
    text = " ".join(sql_of(node).split()) or node.key.upper()
    return text if len(text) <= 60 else text[:57] + "..."
