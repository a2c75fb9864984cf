"""Functions that mean something else on other hosts, written so that they mean what DuckDB means by them.

                                    DuckDB          PostgreSQL     Spark
    ROUND(2.5)                      3.0             2              3.0
    CAST(123456789.0 AS VARCHAR)    123456789.0     123456789      1.23456789E8
    CAST(2.7 AS BIGINT)             3               3              2
    CAST(1.005 AS DECIMAL(9, 2))    1.00            1.01           1.01
    EXTRACT(DOW FROM sunday)        0               0              1
    1 / 0                           NULL            an error       an error
    LOG(100)                        2               2              4.6
    LN(0)                           an error        an error       NULL
    CAST('n' || 'ow' AS DATE)       an error        today          today
    SUBSTR('hello', -3, 2)          'll'            ''             'll'
    SUBSTR('hello', 4, -2)          'el'            an error       ''
    LEFT('hello', -2)               'hel'           'hel'          ''

What the expression under them is, DuckDB says (`type_of`); 2.5 and 2.7 are doubles here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from viewlet.errors import UnsupportedError
from viewlet.streams.schema import QueryError, outline
from viewlet.streams.star_columns import in_scope
from viewlet.types import Column

Tables = Mapping[str, Sequence[Column]]
_FLOATING = ("DOUBLE", "FLOAT")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_TEXTS = (exp.Concat, exp.ConcatWs, exp.DPipe, exp.GroupConcat)

POSTGRES_FUNCTIONS = {
    "refuse(message text) RETURNS boolean LANGUAGE plpgsql": "BEGIN RAISE EXCEPTION ''%'', message; END",
    "half_away(x double precision) RETURNS double precision IMMUTABLE STRICT LANGUAGE sql": (
        "SELECT CASE WHEN abs(x - trunc(x)) >= 0.5 THEN trunc(x) + sign(x) ELSE trunc(x) END"
    ),
    "double_text(x double precision) RETURNS text IMMUTABLE STRICT LANGUAGE sql": (
        "SELECT CASE WHEN x::text LIKE ''%e+15'' AND position(''.'' in x::text::numeric::text) > 0 "
        "THEN x::text::numeric::text WHEN x::text LIKE ''%e+15'' THEN x::text::numeric::text || ''.0'' "
        "WHEN x::text ~ ''[.eN]|Inf'' THEN x::text ELSE x::text || ''.0'' END"
    ),
}
"""Functions that the host has in its own schema, with their bodies; quotes are doubled."""


def with_meanings(query: exp.Expr, dialect: str, tables: Tables) -> exp.Expr:
    """A query of DuckDB, to be written in another dialect with the same meaning; `tables` are those that it reads."""
    rewrite = _Rewrite(dialect, tables)
    nodes = [node for node in query.walk() if isinstance(node, _REWRITTEN)]
    types = {id(node): rewrite.types(node) for node in nodes}
    for node in reversed(nodes):  # what is inside comes first
        new = rewrite(node, types[id(node)])
        if new is not node:
            node.replace(new)
    return query


def type_of(node: exp.Expr, tables: Tables) -> str:
    """What DuckDB calls the type of an expression of a query."""
    select = node.find_ancestor(exp.Select)
    sources: list[str] = []
    outer = select
    while outer is not None:
        start = outer.args.get("from_")
        here = (
            ""
            if start is None
            else start.sql("duckdb")
            + "".join(f" {each.sql('duckdb')}" for key in ("joins", "laterals") for each in outer.args.get(key) or ())
        )
        group = outer.args.get("group") if outer is select else None
        rows = here if not sources else f"{sources[0]}, {here.removeprefix('FROM ')}" if here else sources[0]
        sources = [rows, *sources]
        for ending in ([f" {group.sql('duckdb').strip()}"] if group is not None else []) + [""]:
            try:
                sql = f"SELECT {node.sql('duckdb')} AS t {rows}{ending}"
                return outline(in_scope(select or node, sql), tables)[0][1]
            except QueryError:
                continue
        outer = outer.find_ancestor(exp.Select)
    raise UnsupportedError(f"'{node.sql('duckdb')}' on another host", "its type is not known there: CAST it")


class _Rewrite:
    """Writes one function for a dialect."""

    def __init__(self, dialect: str, tables: Tables) -> None:
        self._is_spark, self._dialect, self._tables = dialect == "spark", dialect, tables

    def types(self, node: exp.Expr) -> list[str]:
        """The types of what a function is applied to; nothing where they do not matter."""
        if isinstance(node, exp.IntDiv | exp.Median | exp.PercentileCont):
            return [type_of(node.this, self._tables)]
        if isinstance(node, _OPERATORS):
            return []
        if isinstance(node, exp.Cast):
            wanted = (
                *(*exp.DataType.TEXT_TYPES, *exp.DataType.INTEGER_TYPES, exp.DataType.Type.DECIMAL),
                *_TIMES,
            )
            is_literal = isinstance(node.this, exp.Literal) and node.this.is_string
            return [type_of(node.this, self._tables) if node.to.this in wanted and not is_literal else ""]
        if isinstance(node, exp.Round):
            return [type_of(node.this, self._tables)]
        known = (exp.Literal, exp.Null)
        return ["" if isinstance(each, known) else type_of(each, self._tables) for each in _pieces(node)]

    def __call__(self, node: exp.Expr, types: list[str]) -> exp.Expr:
        match node:
            case exp.Round():
                return self._round(node, types[0])
            case exp.Cast():
                return self._cast(node, types[0])
            case exp.Extract():
                return self._part(node.this.name.upper(), node.expression) or node
            case exp.Concat() | exp.ConcatWs() | exp.DPipe() | exp.GroupConcat():
                for each, found in zip(_pieces(node), types, strict=True):
                    if found in _FLOATING:
                        each.replace(self._text(each.copy(), found))
                    elif found == "BOOLEAN":
                        each.replace(exp.cast(each.copy(), "text", dialect="duckdb"))
                return node
            case exp.DayOfWeek() | exp.DayOfWeekIso() | exp.Second():
                return self._part(_PARTS[type(node)], node.this) or node
            case exp.Div() | exp.Mod() | exp.IntDiv():
                return self._divided(node, types)
            case exp.Ln() | exp.Log() | exp.Sqrt():
                return self._in_domain(node) if self._is_spark else node
            case exp.Median() | exp.PercentileCont():
                if types[0].startswith("DECIMAL"):
                    raise _other(node, "CAST the decimal to DOUBLE")
            case exp.Substring():
                return self._substring(node)
            case exp.Left() | exp.Right():
                return self._end_of(node)
            case exp.RegexpReplace():
                if self._is_spark and "g" not in node.text("modifiers"):
                    raise _other(node, "write REGEXP_REPLACE(s, pattern, new, 'g'), which replaces all")
            case exp.DateDiff():
                if node.unit is not None and node.unit.name.upper() in ("WEEK", "WEEKS", "W"):
                    raise _other(node, "take the days between the DATE_TRUNC('week', ...) of both")
            case exp.SimilarTo() | exp.Format() | exp.Unicode():
                raise _other(node, _INSTEAD[type(node)])
        return node

    def _divided(self, node: exp.Expr, types: list[str]) -> exp.Expr:
        """What is divided by zero is NULL."""
        if types and types[0] not in _WHOLE:
            raise _other(node, "write FLOOR(x / y)")
        by = node.expression
        if not (isinstance(by, exp.Literal) and by.name.strip("0.")):
            node.set("expression", exp.Nullif(this=by.copy(), expression=exp.Literal.number(0)))
        if self._is_spark and isinstance(node, exp.Div):
            node.set("this", _double(node.this))  # it has decimals of few digits for decimals
        return node

    def _in_domain(self, node: exp.Expr) -> exp.Expr:
        """A logarithm or root that refuses what it is not defined for: Spark has NULL and NaN for that."""
        value = node.expression if isinstance(node, exp.Log) and node.expression is not None else node.this
        lowest, name = ("0", "square root") if isinstance(node, exp.Sqrt) else ("4.9E-324D", "logarithm")
        computed: exp.Expr = exp.Anonymous(this="LOG10", expressions=[node.this]) if _is_decadic(node) else node.copy()
        return sqlglot.parse_one(
            f"CASE WHEN {value.sql('spark')} < {lowest} THEN CAST(raise_error("
            f"'cannot take {name} of a number that is too small') AS DOUBLE) ELSE {computed.sql('spark')} END",
            read="spark",
        )

    def _substring(self, node: exp.Substring) -> exp.Expr:
        """A start before the text counts from its end, and a negative length goes back; hosts agree on others alone."""
        start, length = node.args.get("start"), node.args.get("length")
        if all(each is None or _is_positive(each) for each in (start, length)):
            return node
        text = f"({node.this.sql(self._dialect)})"
        size = f"LENGTH({text})"
        first = "1" if start is None else f"CAST({start.sql(self._dialect)} AS INT)"
        if start is not None:
            first = f"(CASE WHEN {first} < 0 THEN {size} + {first} + 1 ELSE {first} END)"
        begin, end = first, f"({size} + 1)"
        if length is not None:
            many = f"CAST({length.sql(self._dialect)} AS INT)"
            begin, end = f"LEAST({first}, {first} + {many})", f"GREATEST({first}, {first} + {many})"
        shown = f"SUBSTRING({text}, GREATEST({begin}, 1), GREATEST({end} - GREATEST({begin}, 1), 0))"
        known = " AND ".join(f"({each.sql(self._dialect)}) IS NOT NULL" for each in (start, length) if each is not None)
        return sqlglot.parse_one(f"CASE WHEN {known} THEN {shown} END", read=self._dialect)

    def _end_of(self, node: exp.Left | exp.Right) -> exp.Expr:
        """A negative length is what is left out at the other end, which Spark does not know."""
        if _is_positive(node.expression):
            return node
        if not self._is_spark:
            node.set("expression", exp.cast(node.expression, "int", dialect="duckdb"))
            return node
        text, many = f"({node.this.sql('spark')})", f"CAST({node.expression.sql('spark')} AS INT)"
        rest = f"GREATEST(LENGTH({text}) + {many}, 0)"
        other = f"SUBSTRING({text}, 1, {rest})" if isinstance(node, exp.Left) else f"SUBSTRING({text}, 1 - {many})"
        side = f"{'LEFT' if isinstance(node, exp.Left) else 'RIGHT'}({text}, {many})"
        return sqlglot.parse_one(f"CASE WHEN {many} < 0 THEN {other} ELSE {side} END", read="spark")

    def _round(self, node: exp.Round, type: str) -> exp.Expr:
        digits = node.args.get("decimals")
        if type in _WHOLE:
            if digits is None or isinstance(digits, exp.Literal):
                return exp.paren(node.this)
            if not self._is_spark:
                node.set("this", exp.cast(node.this, "decimal(38, 0)", dialect="duckdb"))
            return node
        return node if type not in _FLOATING else self._rounded(node.this, digits)

    def _rounded(self, value: exp.Expr, digits: exp.Expr | None) -> exp.Expr:
        """A double with some digits after the point; half is rounded away from zero."""

        def half_away(scaled: exp.Expr) -> exp.Expr:
            if not self._is_spark:
                return exp.Anonymous(this="half_away", expressions=[scaled])
            size = exp.Anonymous(this="ROUND", expressions=[exp.Abs(this=scaled)])
            return exp.paren(exp.Mul(this=exp.Anonymous(this="SIGNUM", expressions=[scaled.copy()]), expression=size))

        value = _double(value)
        if digits is None:
            return half_away(value)
        if isinstance(digits, exp.Neg):
            return exp.paren(
                exp.Mul(
                    this=half_away(exp.Div(this=exp.paren(value), expression=_power(digits.this), typed=True)),
                    expression=_power(digits.this),
                )
            )
        power = _power(digits)
        product = half_away(exp.Mul(this=exp.paren(value), expression=power))
        return exp.paren(exp.Div(this=product, expression=power.copy(), typed=True))

    def _cast(self, node: exp.Cast, type: str) -> exp.Expr:
        to = node.to.this
        if isinstance(node, exp.TryCast) and not self._is_spark:
            raise _other(node, "PostgreSQL has no such cast; test the text with CASE first")
        if to in exp.DataType.TEXT_TYPES:
            return self._text(node.this, type) if type in _FLOATING else node
        if to in _TIMES:
            if isinstance(node.this, exp.Literal) and node.this.is_string and not re.match(_TIME_TEXT, node.this.name):
                raise _other(node, "write a text like 2020-01-31 or 2020-01-31 23:59:59")
            return self._time(node) if type == "VARCHAR" else node
        if to in exp.DataType.INTEGER_TYPES:
            if self._is_spark and type in _FLOATING:
                node.set("this", exp.Anonymous(this="RINT", expressions=[node.this]))
            elif self._is_spark and type.startswith("DECIMAL"):
                node.set("this", exp.Anonymous(this="ROUND", expressions=[node.this]))
            return node
        if type not in _FLOATING:
            return node
        scale = (
            node.to.expressions[1].this
            if len(node.to.expressions) > 1
            else exp.Literal.number(3 if not node.to.expressions else 0)
        )
        scaled = self._rounded(exp.Mul(this=exp.paren(_double(node.this)), expression=_power(scale)), None)
        whole: exp.Expr = exp.cast(scaled, "text", dialect="duckdb") if not self._is_spark else scaled
        whole = exp.cast(whole, "decimal(38, 0)", dialect="duckdb")
        share = exp.cast(exp.Literal.string(f"1e-{scale.name}"), f"decimal(38, {scale.name})", dialect="duckdb")
        node.set("this", exp.Mul(this=whole, expression=share))
        return node

    def _time(self, node: exp.Cast) -> exp.Expr:
        """A text as a date or time: other hosts read more, such as 'now', Spark where the text is a constant."""
        message = "'a text of a DATE or TIMESTAMP is not like 2020-01-31 or 2020-01-31 23:59:59'"
        if self._is_spark:
            text = node.this.sql("spark")
            other = "NULL" if isinstance(node, exp.TryCast) else f"raise_error({message})"
            checked = f"CASE WHEN NOT ({text}) RLIKE '{_TIME_TEXT}' THEN {other} ELSE {text} END"
            node.set("this", sqlglot.parse_one(checked, read="spark"))
            return node
        text = node.this.sql("postgres")
        checked = (
            f"CASE WHEN ({text})::text !~ '{_TIME_TEXT}' THEN CASE WHEN refuse({message}) THEN '' END ELSE {text} END"
        )
        node.set("this", sqlglot.parse_one(checked, read="postgres"))
        return node

    def _text(self, value: exp.Expr, type: str) -> exp.Expr:
        """A number as DuckDB writes it: the shortest digits that are read back as the same."""
        if type == "FLOAT":
            raise UnsupportedError("REAL as text on another host", "write CAST(CAST(x AS DOUBLE) AS VARCHAR)")
        if not self._is_spark:
            return exp.Anonymous(this="double_text", expressions=[_double(value)])
        return sqlglot.parse_one(_SPARK_TEXT.replace("$x", f"({value.sql('spark')})"), read="spark")

    def _part(self, name: str, time: exp.Expr) -> exp.Expr | None:
        """A part of a time that hosts count in other ways."""
        name = {"DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFWEEK_ISO": "ISODOW", "S": "SECOND"}.get(name, name)
        if name in ("DOW", "ISODOW"):
            if not self._is_spark:
                return exp.Extract(this=exp.var(name), expression=time)
            function, more = ("DAYOFWEEK", -1) if name == "DOW" else ("WEEKDAY", 1)
            return exp.paren(
                exp.Add(
                    this=exp.Anonymous(this=function, expressions=[time]),
                    expression=exp.Literal.number(more) if more > 0 else exp.Neg(this=exp.Literal.number(1)),
                )
            )
        if name == "SECOND":
            return exp.Anonymous(this="FLOOR", expressions=[exp.Extract(this=exp.var(name), expression=time)])
        return None


def _is_positive(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and int(node.name) > 0


def _is_decadic(node: exp.Expr) -> bool:
    return isinstance(node, exp.Log) and node.expression is None


def _other(node: exp.Expr, hint: str) -> UnsupportedError:
    return UnsupportedError(f"'{node.sql('duckdb')}' on another host, where it means something else,", hint)


_CLOCK = "[ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}([.][0-9]{1,6})?)?( ?(Z|[+-][0-9]{1,2}(:?[0-9]{2})?))?"
_TIME_TEXT = f"^ *[0-9]{{4,}}-[0-9]{{1,2}}-[0-9]{{1,2}}({_CLOCK})? *$"
_TIMES = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.SimilarTo: "write REGEXP_MATCHES",
    exp.Format: "write CONCAT",
    exp.Unicode: "write ASCII",
}
_OPERATORS: tuple[type[exp.Expr], ...] = (
    exp.Div,
    exp.Mod,
    exp.Ln,
    exp.Log,
    exp.Sqrt,
    exp.Substring,
    exp.DateDiff,
    exp.Left,
    exp.Right,
    exp.RegexpReplace,
    *_INSTEAD,
)
_PARTS: dict[type[exp.Expr], str] = {exp.DayOfWeek: "DOW", exp.DayOfWeekIso: "ISODOW", exp.Second: "SECOND"}

_REWRITTEN: tuple[type[exp.Expr], ...] = (
    *(exp.Round, exp.Cast, exp.TryCast, exp.Extract, exp.IntDiv, exp.Median, exp.PercentileCont),
    *(*_OPERATORS, *_TEXTS, *_PARTS),
)

_PLAIN = "RTRIM('0', CAST(CAST(CAST($x AS STRING) AS DECIMAL(38, 21)) AS STRING))"
_EXPONENT = "CAST(SUBSTRING_INDEX(CAST($x AS STRING), 'E', -1) AS INT)"
_SPARK_TEXT = (
    f"CASE WHEN $x = 0 THEN CAST($x AS STRING) WHEN ABS($x) >= 1E-4 AND ABS($x) < 1E16 "
    f"THEN CASE WHEN {_PLAIN} LIKE '%.' THEN CONCAT({_PLAIN}, '0') ELSE {_PLAIN} END "
    f"ELSE CONCAT(REPLACE(CONCAT(SUBSTRING_INDEX(CAST($x AS STRING), 'E', 1), 'e'), '.0e', 'e'), "
    f"CASE WHEN {_EXPONENT} < 0 THEN '-' ELSE '+' END, "
    f"CASE WHEN ABS({_EXPONENT}) < 10 THEN '0' ELSE '' END, CAST(ABS({_EXPONENT}) AS STRING)) END"
)


def _pieces(node: exp.Expr) -> list[exp.Expr]:
    """What is put together to a text."""
    if isinstance(node, exp.DPipe):
        return [node.this, node.expression]
    if isinstance(node, exp.GroupConcat):
        value = node.this.this if isinstance(node.this, exp.Order) else node.this
        return [value]
    return list(node.expressions) if isinstance(node, _TEXTS) else []


def _double(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "double", dialect="duckdb")


def _power(digits: exp.Expr) -> exp.Expr:
    """Ten to a power, as a double."""
    if isinstance(digits, exp.Literal):
        return exp.cast(exp.Literal.string(f"1e{digits.name}"), "double", dialect="duckdb")
    return exp.Anonymous(this="POWER", expressions=[_double(exp.Literal.number(10)), _double(digits.copy())])
