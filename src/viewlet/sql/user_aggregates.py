"""What SQL says of an aggregate that a user wants to define: whether its name is free, and the types it names."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from viewlet.errors import SchemaError
from viewlet.sql.aggregates import AGGREGATES
from viewlet.sql.builtins import FUNCTIONS
from viewlet.sql.datatypes import to_sql_type
from viewlet.sql.function_names import FUNCTION_NODES
from viewlet.sql.parser import parse_text
from viewlet.sql.ring_views import CATEGORICAL_NAME, COFACTOR_NAME
from viewlet.sql.scalars import HANDLERS
from viewlet.sql.source import Source
from viewlet.types import SqlType

_OURS = (COFACTOR_NAME, CATEGORICAL_NAME)


def check_free_name(name: str) -> None:
    """Raises a `SchemaError` for a name that SQL gives a meaning already."""
    known = exp.FUNCTION_BY_NAME.get(name.upper())
    if name in FUNCTIONS or name in _OURS or known in AGGREGATES or known in FUNCTION_NODES or known in HANDLERS:
        raise SchemaError(f"{name}() is a function of SQL here: choose another name for the aggregate")
    try:
        tree, _ = parse_text(f"SELECT {name}(x) FROM t", {name})
    except (ParseError, TokenError):
        tree = None
    if tree is None or not isinstance(tree, exp.Select) or not isinstance(tree.expressions[0], exp.AnonymousAggFunc):
        raise SchemaError(f"{name!r} is a keyword of SQL: choose another name for the aggregate")


def type_named(text: str) -> SqlType:
    """The type that a text such as 'DECIMAL(15,2)' names."""
    source = Source(text, 0, text)
    try:
        node = exp.DataType.build(text, dialect="duckdb")
    except (ParseError, TokenError, ValueError):
        raise source.unsupported(f"type {text}", None, "use the name of an SQL type such as BIGINT or DOUBLE") from None
    return to_sql_type(node, source, node)
