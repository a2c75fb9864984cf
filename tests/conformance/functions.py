"""Every scalar function of the interpreter in SQL, over columns of every type, and rows of values at the edges.

What the SQL front end refuses for its types is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

from viewlet.algebra.calendar import DIFFERENCE_UNITS, PARTS, TRUNCATIONS
from viewlet.algebra.nodes import Call, Cond, Expr, Scalar, Value
from viewlet.algebra.traverse import walk
from viewlet.errors import SqlError
from viewlet.sql import CreateView, bind_statement, split_statements
from viewlet.triggers.compiler import compile_query
from viewlet.triggers.program import Program
from viewlet.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    REAL,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Column,
    Row,
    SqlType,
    Table,
    decimal,
)

TINY = 5e-324
HUGE = 1.7976931348623157e308
DAYS = (0, -1, 11016, 19782, -25509, -719162, 2932896, None)  # 2000-02-29 and 2024-02-29 among them; 1900-02-28
MOMENT = 86_400_000_000

DOMAINS: dict[str, tuple[SqlType, tuple[object, ...]]] = {
    "b": (BOOLEAN, (True, False, None)),
    "h": (SMALLINT, (0, 1, -7, 32767, -32768, None)),
    "i": (INTEGER, (0, 3, -7, 2**31 - 1, -(2**31), None)),
    "k": (BIGINT, (0, 2, -5, 10**13, -(2**42), None)),
    "l": (BIGINT, (1, 2**63 - 1, -(2**63) + 2)),  # beside a DECIMAL it needs more than a word
    "d": (decimal(6, 2), (0, 250, -250, 999999, -999999, 1, None)),
    "e": (decimal(18, 5), (0, 150000, -50, 10**18 - 1, -(10**18) + 1, None)),
    "f": (REAL, (0.0, 1.5, -0.25, 3.4028234663852886e38, None)),
    "x": (DOUBLE, (0.0, 2.5, -0.5, -1.5, HUGE, TINY, 1e17, -1e-3, None)),
    "s": (VARCHAR, ("", "a", "Straße", "12.5", "-7", "2024-02-29", "true", "a%b", None)),
    "t": (VARCHAR, ("a", "é", "", "SS", "%", None)),
    "p": (DATE, DAYS),
    "q": (TIMESTAMP, tuple(None if day is None else day * MOMENT + MOMENT - 1 for day in DAYS)),
}
TABLES = {"z": Table("z", tuple(Column(name, type) for name, (type, _) in DOMAINS.items()))}

UNARY = (
    "-{0}", "abs({0})", "floor({0})", "ceil({0})", "round({0})", "round({0}, 1)", "round({0}, -1)", "sign({0})",
    "sqrt({0})", "ln({0})", "log10({0})", "exp({0})", "upper({0})", "lower({0})", "trim({0})", "ltrim({0})",
    "rtrim({0})", "reverse({0})", "length({0})", "left({0}, 2)", "right({0}, -1)", "substring({0}, 2)",
    "substring({0}, -2, 1)", "replace({0}, 'a', 'aa')", "{0} LIKE 'a%'", "{0} ILIKE '%S'", "{0} LIKE 'a!%%' ESCAPE '!'",
    "contains({0}, 'a')", "starts_with({0}, 'a')", "ends_with({0}, 'b')", "position({0}, 'a')", "{0} || 'x'",
    "{0} IS NULL", "{0} IS NOT NULL", "NOT {0}", "{0} IN (0, 3)", "{0} IN ('a', '')", "coalesce({0}, {0})",
    "CASE WHEN {0} > 0 THEN {0} END", "nullif({0}, 0)", "greatest({0}, {0})", "power({0}, 2)",
    *(f"extract({part} FROM {{0}})" for part in PARTS),
    *(f"date_trunc('{unit}', {{0}})" for unit in TRUNCATIONS),
    "{0} + INTERVAL 1 MONTH", "{0} - INTERVAL 13 MONTH", "{0} + INTERVAL 25 HOUR", "{0} + 40", "{0} % 3", "{0} // 2",
    *(f"CAST({{0}} AS {type})" for type in (
        "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL(5,1)", "DECIMAL(18,6)", "REAL", "DOUBLE", "VARCHAR",
        "DATE", "TIMESTAMP",
    )),
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "{0} = {1}", "{0} <> {1}",
    "{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}", "{0} IS NOT DISTINCT FROM {1}", "{0} AND {1}", "{0} OR {1}",
    "least({0}, {1})", "greatest({0}, {1})", "coalesce({0}, {1})", "nullif({0}, {1})", "power({0}, {1})",
    "round({0}, {1})", "{0} || {1}", "concat({0}, {1})", "{0} LIKE {1}", "contains({0}, {1})", "position({0}, {1})",
    "starts_with({0}, {1})", "ends_with({0}, {1})", "trim({0}, {1})", "left({0}, {1})", "substring({0}, {1})",
    "substring({0}, 1, {1})", "replace({0}, {1}, 'z')", "CASE WHEN {0} < {1} THEN {0} ELSE {1} END",
    *(f"date_diff('{unit}', {{0}}, {{1}})" for unit in DIFFERENCE_UNITS),
    "{0} + INTERVAL ({1}) MONTH", "{0} + INTERVAL ({1}) DAY",
)  # fmt: skip
AGGREGATES = tuple(
    f"(SELECT {name}(o.{column}) FROM z AS o WHERE o.s = z.s)"
    for name in ("avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")
    for column in "hdf"
)
OTHERS = (
    *AGGREGATES,
    "(SELECT o.t FROM z AS o WHERE o.s = z.s)",
    "log10(x)",
    "k // i",
    "p + 40",
    "s IN ('a', 'b', 'SS')",
    "k IN (2, 3)",
)
PAIRS = (
    *product("hikdefx", "hikdefx"), *product("st", "st"), *product("st", "ik"), *product("pq", "pq"),
    *product("pq", "hkl"), ("b", "b"), ("s", "d"), ("x", "t"),
)  # fmt: skip


def expressions(share: int = 1) -> list[str]:
    """Expressions over the columns of `z`, among them some that the SQL front end refuses.

    All of them, or of each function a share: one in so many, others for others.
    """
    found = list(OTHERS)
    for number, template in enumerate((*UNARY, *BINARY)):
        own = [template.format(name) for name in DOMAINS] if "{1}" not in template else []
        own = own or [template.format(*pair) for pair in PAIRS]
        accepted = [text for text in own if is_accepted(text)]
        found += accepted[number % min(share, len(accepted)) :: share] if accepted else []
    return found


@cache
def is_accepted(text: str) -> bool:
    try:
        bind_statement(next(split_statements(f"CREATE MATERIALIZED VIEW v AS SELECT {text} AS y FROM z")), TABLES)
    except SqlError:
        return False
    return True


def program_of(*columns: str) -> Program:
    """A view whose keys are some expressions, so that its trigger computes them."""
    keys = ", ".join(f"{column} AS y{i}" for i, column in enumerate(columns))
    names = ", ".join(f"y{i}" for i in range(len(columns)))
    sql = f"CREATE MATERIALIZED VIEW v AS SELECT {names}, COUNT(*) AS n FROM (SELECT {keys} FROM z) GROUP BY {names}"
    view = bind_statement(next(split_statements(sql)), TABLES)
    assert isinstance(view, CreateView)
    return compile_query("v", view.query, TABLES, "higher-order")


def functions_of(program: Program) -> set[str]:
    """The functions that the statements of a program call."""
    exprs = [u.expr for trigger in program.triggers for s in trigger.statements for u in s.updates]
    return {name for expr in (*exprs, program.result) for name in _called(expr)}


def _called(expr: Expr) -> Iterator[str]:
    for node in walk(expr):
        if isinstance(node, Cond | Value):
            yield from _calls(node.scalar)


def _calls(scalar: Scalar) -> Iterator[str]:
    if isinstance(scalar, Call):
        yield scalar.op
        for arg in scalar.args:
            yield from _calls(arg)


def rows(text: str) -> list[Row]:
    """Rows with every combination of edge values in the columns of an expression; one value in the others."""
    used = columns_of(text)
    domains = [DOMAINS[name][1] if name in used else (DOMAINS[name][1][1],) for name in DOMAINS]
    return [tuple(row) for row in product(*domains)]  # type: ignore[misc]


def columns_of(text: str) -> str:
    return "".join(name for name in DOMAINS if re.search(rf"\b{name}\b", text))
