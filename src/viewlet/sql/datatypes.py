"""SQL type names and their synonyms.

FLOAT is the single-precision REAL, as in DuckDB and Spark. CHAR(n) is VARCHAR(n): it limits a column and does not pad.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.sql.source import Source, sql_of, whole_number
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_DECIMAL_DIGITS,
    REAL,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    decimal,
)

_T = exp.DType
_PLAIN: dict[exp.DType, SqlType] = {
    _T.BOOLEAN: BOOLEAN,
    _T.SMALLINT: SMALLINT,
    _T.INT: INTEGER,
    _T.BIGINT: BIGINT,
    _T.FLOAT: REAL,
    _T.DOUBLE: DOUBLE,
    _T.TEXT: VARCHAR,
    _T.VARCHAR: VARCHAR,
    _T.CHAR: VARCHAR,
    _T.NCHAR: VARCHAR,
    _T.NVARCHAR: VARCHAR,
    _T.DATE: DATE,
    _T.DATETIME: TIMESTAMP,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
}
_WORDS: dict[str, SqlType] = {"long": BIGINT, "int8": BIGINT, "short": SMALLINT, "real": REAL, "string": VARCHAR}
DEFAULT_DECIMAL = (18, 3)


def to_column_type(node: exp.DataType, source: Source, around: exp.Expr) -> tuple[SqlType, int | None]:
    """The type of a column, and the most characters it takes where that is said."""
    if not node.expressions or _PLAIN.get(node.this) is not VARCHAR:
        return to_sql_type(node, source, around), None
    sizes = _sizes(node, source, around)
    if len(sizes) != 1 or sizes[0] < 1:
        raise source.error("the length of a VARCHAR(n) is one number, from 1 on", around)
    return VARCHAR, sizes[0]


def to_sql_type(node: exp.DataType, source: Source, around: exp.Expr) -> SqlType:
    """The scalar type a type name stands for; `around` is the node an error points at."""
    kind = node.this
    if kind is _T.DECIMAL:
        return _decimal(node, source, around)
    written = str(node.args.get("kind") or "").lower()
    known = _PLAIN.get(kind) or _WORDS.get(written)
    if known is not None and not node.expressions:
        return known
    if known is VARCHAR and len(_sizes(node, source, around)) == 1:  # other databases cut, pad, refuse or ignore it
        raise source.unsupported("a VARCHAR of limited length in a CAST", around, "use VARCHAR, and LEFT(x, n) to cut")
    raise source.unsupported(
        f"type {sql_of(node)}",
        around,
        "use BOOLEAN, SMALLINT, INTEGER, BIGINT, REAL, DOUBLE, DECIMAL(p,s), VARCHAR, DATE or TIMESTAMP",
    )


def _sizes(node: exp.DataType, source: Source, around: exp.Expr) -> list[int]:
    """The numbers in parentheses behind a type name."""
    sizes: list[int] = []
    for parameter in node.expressions:
        size = whole_number(str(parameter.this.this)) if isinstance(parameter, exp.DataTypeParam) else None
        if size is None or parameter.args.get("expression") or not isinstance(parameter.this, exp.Literal):
            raise source.error(f"the size of a type is a number, not {sql_of(parameter)}", around)
        sizes.append(size)
    return sizes


def _decimal(node: exp.DataType, source: Source, around: exp.Expr) -> SqlType:
    sizes = _sizes(node, source, around)
    if len(sizes) > 2:
        raise source.error("DECIMAL takes a precision and a scale", around)
    precision, scale = DEFAULT_DECIMAL if not sizes else (sizes[0], sizes[1] if len(sizes) > 1 else 0)
    if not (1 <= precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision):
        raise source.error(
            f"DECIMAL({precision},{scale}) does not exist: 1 <= p <= {MAX_DECIMAL_DIGITS}, 0 <= s <= p", around
        )
    return decimal(precision, scale)
