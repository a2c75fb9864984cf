"""The table of scalar functions in SQL, and the translation of a scalar to a term.

    term(a + 1, {"a": t1.a}) = (CAST(t1.a AS BIGINT) + CAST(1 AS BIGINT))

Integers are added and multiplied in the type of the result, so that overflows fail where they would in the calculus;
only the declared precision of decimals below 18 digits is not checked. Functions of doubles are those of the host: the
last digit of a logarithm or of the quotient of two numbers beyond 2**53 is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.sqlgen.casts import (
    WHOLE_DOUBLES,
    cast,
    divide_half_away,
    floor_quotient,
)
from viewlet.sqlgen.dialects import Dialect, unsupported
from viewlet.sqlgen.function import Terms, Writer
from viewlet.sqlgen.moments import TEMPORAL
from viewlet.sqlgen.terms import Term, alike, constant_term, in_units
from viewlet.sqlgen.text import TEXTUAL
from viewlet.types import Kind


def term_of(scalar: Scalar, bound: Mapping[str, Term], dialect: Dialect) -> Term:
    """The SQL of a scalar whose variables are `bound`."""
    match scalar:
        case Var(name, _):
            return bound[name]
        case Const():
            return constant_term(scalar, dialect)
        case Call(op, args, type):
            terms = tuple(term_of(arg, bound, dialect) for arg in args)
            if op not in FUNCTIONS:
                raise unsupported(f"the function {op}")
            nullable = op not in _TOTAL or any(term.nullable for term in terms)
            return Term(FUNCTIONS[op](scalar, terms, dialect), type, nullable)
        case _:
            assert_never(scalar)


def _units(args: Terms, dialect: Dialect) -> list[str]:
    return [in_units(term, dialect) for term in args]


def _arithmetic(operator: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        left, right = (dialect.cast(sql, node.type) for sql in _units(args, dialect))
        result = f"({left} {operator} {right})"
        return dialect.single(result) if node.type.kind is Kind.REAL else result

    return write


def _of_one(function: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        return f"{function}({dialect.cast(in_units(args[0], dialect), node.type)})"

    return write


def _quotient(node: Call, args: Terms, dialect: Dialect) -> str:
    dividend, divisor = (f"CAST({sql} AS DOUBLE)" for sql in _units(args, dialect))
    return f"({dividend} / NULLIF({divisor}, 0))"


def _integer_quotient(node: Call, args: Terms, dialect: Dialect) -> str:
    dividend, divisor = (dialect.cast(sql, node.type) for sql in _units(args, dialect))
    return dialect.cast(dialect.divide(dividend, f"NULLIF({divisor}, 0)", node.type.is_wide), node.type)


def _remainder(node: Call, args: Terms, dialect: Dialect) -> str:
    dividend, divisor = (dialect.cast(sql, node.type) for sql in _units(args, dialect))
    return f"({dividend} % NULLIF({divisor}, 0))"


def _toward(function: str, up: bool) -> Writer:
    """floor and ceil; the ceiling of an integral number of units is minus the floor of its opposite."""

    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        (term,) = args
        sql = in_units(term, dialect)
        if term.type.kind is not Kind.DECIMAL:
            whole = f"CAST({function}({sql}) AS DOUBLE)"
            return f"(CASE WHEN ABS({sql}) < {WHOLE_DOUBLES} THEN {whole} ELSE {sql} END)"
        unit, wide = 10**term.type.scale, term.type.is_wide
        quotient = floor_quotient(f"(-{sql})" if up else sql, unit, wide, dialect)
        return dialect.cast(f"(-{quotient})" if up else quotient, node.type)

    return write


def _round(node: Call, args: Terms, dialect: Dialect) -> str:
    term, constant = args[0], args[1].constant
    if constant is None or not isinstance(constant.value, int):
        raise unsupported("ROUND to a number of digits that is not a constant")
    digits, sql = constant.value, in_units(term, dialect)
    if term.type.is_float:
        return _round_double(sql, digits)
    scale = term.type.scale if term.type.kind is Kind.DECIMAL else 0
    if digits >= scale:
        return dialect.cast(sql, node.type)
    rounded = divide_half_away(sql, 10 ** (scale - digits), term.type.is_wide, dialect)
    kept = node.type.scale if node.type.kind is Kind.DECIMAL else 0
    return dialect.cast(f"({rounded} * {10 ** max(kept - digits, 0)})", node.type)


def _round_double(sql: str, digits: int) -> str:
    factor = f"CAST('{10.0**digits!r}' AS DOUBLE)"
    scaled = f"({sql} * {factor})"
    rounded = f"(CAST(FLOOR(ABS({scaled}) + 0.5) AS DOUBLE) / {factor})"
    signed = f"CASE WHEN {sql} < 0 THEN -{rounded} ELSE {rounded} END"
    return f"(CASE WHEN ABS({scaled}) < {WHOLE_DOUBLES} THEN {signed} ELSE {sql} END)"


def _sign(node: Call, args: Terms, dialect: Dialect) -> str:
    return dialect.cast(f"SIGN({in_units(args[0], dialect)})", node.type)


def _double_function(function: str, refused: str = "") -> Writer:
    """A function of doubles; where `refused` holds of its argument {0} it fails."""

    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        doubles = [f"CAST({term.sql} AS DOUBLE)" for term in args]
        result = f"{function}({', '.join(doubles)})"
        if not refused:
            return result
        failure = dialect.failure(f"{function} of a number it is not defined for")
        return f"(CASE WHEN {refused.format(*doubles)} THEN {failure} ELSE {result} END)"

    return write


def _average(node: Call, args: Terms, dialect: Dialect) -> str:
    total, count = (f"CAST({sql} AS DOUBLE)" for sql in _units(args, dialect))
    unit = f" * {10 ** args[0].type.scale}" if args[0].type.scale else ""
    return f"({total} / NULLIF({count}{unit}, 0))"


def _variance(freedom: int, root: bool) -> Writer:
    """From n, sum x and sum x*x of exact numbers: the numerator is exact."""

    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        if args[1].type.is_float:
            raise unsupported("the variance of doubles")
        n, total, squares = (f"CAST({sql} AS {dialect.wide})" for sql in _units(args, dialect))
        unit = f" * CAST('{float(10 ** (2 * args[1].type.scale))!r}' AS DOUBLE)"
        divisor = f"(CAST({n} * ({n} - {freedom}) AS DOUBLE){unit})"
        result = f"CAST({n} * {squares} - {total} * {total} AS DOUBLE) / {divisor}"
        known = " AND ".join(f"{term.sql} IS NOT NULL" for term in args)
        return f"(CASE WHEN {known} AND {n} > {freedom} THEN {f'SQRT({result})' if root else result} END)"

    return write


def _comparison(operator: str) -> Writer:
    def write(node: Call, args: Terms, dialect: Dialect) -> str:
        left, right = alike(args, dialect)
        return f"({left} {operator} {right})"

    return write


def _connective(operator: str) -> Writer:
    return lambda node, args, dialect: "(" + f" {operator} ".join(term.sql for term in args) + ")"


def _after(suffix: str) -> Writer:
    return lambda node, args, dialect: f"({args[0].sql} {suffix})"


def _case(node: Call, args: Terms, dialect: Dialect) -> str:
    *branches, otherwise = _units(args, dialect)
    whens = " ".join(f"WHEN {branches[i]} THEN {branches[i + 1]}" for i in range(0, len(branches), 2))
    return dialect.cast(f"CASE {whens} ELSE {otherwise} END", node.type)


def _in(node: Call, args: Terms, dialect: Dialect) -> str:
    needle, *members = alike(args, dialect)
    return f"({needle} IN ({', '.join(members)}))"


def _in_units(function: str) -> Writer:
    return lambda node, args, dialect: f"{function}({', '.join(_units(args, dialect))})"


def _only_row(node: Call, args: Terms, dialect: Dialect) -> str:
    failure = dialect.failure("scalar subquery returned more than one row")
    return dialect.cast(f"CASE WHEN {args[0].sql} > 1 THEN {failure} ELSE {in_units(args[1], dialect)} END", node.type)


_TOTAL = frozenset(
    ("+", "-", "*", "neg", "abs", "cast", "=", "<>", "<", "<=", ">", ">=", "and", "or", "not", "like", "substring")
)
"""Functions that are never NULL unless an argument is."""

FUNCTIONS: dict[str, Writer] = {
    **TEXTUAL,
    **TEMPORAL,
    **{op: _arithmetic(op) for op in ("+", "-", "*")},
    "neg": _of_one("-"),
    "abs": _of_one("ABS"),
    "/": _quotient,
    "//": _integer_quotient,
    "%": _remainder,
    "floor": _toward("FLOOR", up=False),
    "ceil": _toward("CEIL", up=True),
    "round": _round,
    "sign": _sign,
    "sqrt": _double_function("SQRT", "{0} < 0"),
    "power": _double_function("POWER", "({0} < 0 AND {1} <> FLOOR({1})) OR ({0} = 0 AND {1} < 0)"),
    "ln": _double_function("LN", "{0} <= 0"),
    "log10": _double_function("LOG10", "{0} <= 0"),
    "exp": _double_function("EXP"),
    "avg": _average,
    "var_samp": _variance(1, root=False),
    "var_pop": _variance(0, root=False),
    "stddev_samp": _variance(1, root=True),
    "stddev_pop": _variance(0, root=True),
    **{op: _comparison(op) for op in ("=", "<>", "<", "<=", ">", ">=")},
    "is_not_distinct": _comparison("IS NOT DISTINCT FROM"),
    "and": _connective("AND"),
    "or": _connective("OR"),
    "not": lambda node, args, dialect: f"(NOT {args[0].sql})",
    "is_null": _after("IS NULL"),
    "is_not_null": _after("IS NOT NULL"),
    "is_true": _after("IS TRUE"),
    "case": _case,
    "coalesce": _in_units("COALESCE"),
    "nullif": _in_units("NULLIF"),
    "least": _in_units("LEAST"),
    "greatest": _in_units("GREATEST"),
    "in": _in,
    "cast": lambda node, args, dialect: cast(args[0], node.type, dialect),
    "only_row": _only_row,
}
