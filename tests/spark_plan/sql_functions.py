"""Expressions that use every scalar function, and rows on which they are not trivial."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from workloads.streams import Batch, Row

TABLES = {
    "v": """CREATE TABLE v (i INTEGER, j BIGINT, d DECIMAL(6,2), w DECIMAL(30,4), x DOUBLE, q REAL, s VARCHAR,
            p VARCHAR, e DATE, m TIMESTAMP, g TIMESTAMP, b BOOLEAN)"""
}

_INTEGERS = (0, 7, -7, 3, None, 1, 12)
_BIG = (-2, 5, 4_000_000_000, None, 0, -4_000_000_000, 3)
_DECIMALS = (*map(Decimal, ("1.25", "-1.25", "0.50", "-0.50", "2.00", "-0.07")), None)
_WIDE = (*map(Decimal, ("12345678901234567890.1250", "-2.5000", "0.0001", "-7.0000", "0.4950")), None)
_DOUBLES = (0.0, 2.5, -2.5, 1e18, None, 0.125, -1234.567)
_SINGLES = (0.5, -1.5, 0.25, None, 2.0)
_STRINGS = ("", "abc", "  a b ", "a%b_c\\d'e", None, "Grün", "ABCabc", "17.5", "x\ny")
_PARTS = ("a", "", "b", "abcd", None, " ", "Gr")
_DATES = (date(2020, 2, 29), date(1969, 12, 31), date(2021, 1, 3), None, date(2020, 12, 31), date(1900, 3, 1))
_MOMENTS = (
    datetime(2020, 3, 8, 2, 30, 15, 250_000), datetime(1969, 12, 31, 23, 59, 59, 999_999), None,
    datetime(2021, 11, 7, 1, 30), datetime(2020, 1, 31, 10, 0, 59, 1),
)  # fmt: skip
_OTHER_MOMENTS = (datetime(2020, 3, 9), datetime(1970, 1, 1), datetime(2020, 3, 8, 2, 30, 15), None)
_BOOLEANS = (True, False, None)
_COLUMNS = (
    _INTEGERS, _BIG, _DECIMALS, _WIDE, _DOUBLES, _SINGLES, _STRINGS, _PARTS, _DATES, _MOMENTS, _OTHER_MOMENTS,
    _BOOLEANS,
)  # fmt: skip


def _row(number: int) -> Row:
    return tuple(
        column[(number * (1 + i % 3) + number // len(column)) % len(column)] for i, column in enumerate(_COLUMNS)
    )


BATCH: Batch = {"v": [(_row(number), 1) for number in range(40)]}

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "arithmetic": (
        "i + j", "i - 2", "i * i", "-i", "abs(d)", "d + w", "d - i", "d * d", "w * d", "d * 0.5", "x + i", "x * d",
        "x / i", "i / 2", "j // i", "i // 3", "i % 3", "i % 0", "j % i", "q + q", "q * q", "x - q", "sign(d)",
        "sign(x)",
    ),
    "rounding": (
        "floor(d)", "ceil(d)", "floor(w)", "ceil(w)", "floor(x)", "ceil(x)", "round(d, 1)", "round(d, 0)", "round(d)",
        "round(w, 2)", "round(x, 1)", "round(x)", "round(i, -1)", "round(d, 3)",
    ),
    "doubles": (
        "sqrt(abs(x))", "round(ln(abs(x) + 1), 6)", "round(log(abs(x) + 1), 6)", "round(exp(d), 6)", "power(d, 2)",
    ),
    "casts": (
        "CAST(d AS INTEGER)", "CAST(x AS BIGINT)", "CAST(w AS DOUBLE)", "CAST(d AS DECIMAL(8,1))",
        "CAST(w AS DECIMAL(32,2))",
        "CAST(w AS DECIMAL(34,6))", "CAST(i AS DECIMAL(12,3))", "CAST(q AS DECIMAL(12,3))", "CAST(i AS SMALLINT)",
        "CAST(i AS VARCHAR)", "CAST(d AS VARCHAR)", "CAST(w AS VARCHAR)", "CAST(b AS VARCHAR)", "CAST(e AS VARCHAR)",
        "CAST(m AS VARCHAR)", "CAST(b AS INTEGER)", "CAST(b AS DECIMAL(4,1))", "CAST(i AS BOOLEAN)",
        "CAST(d AS BOOLEAN)",
        "CAST(m AS DATE)", "CAST(e AS TIMESTAMP)", "CAST(CAST(d AS VARCHAR) AS DECIMAL(8,1))",
        "CAST(CAST(d AS VARCHAR) AS INTEGER)", "CAST(CAST(d AS VARCHAR) AS DOUBLE)", "CAST(CAST(e AS VARCHAR) AS DATE)",
        "CAST(CAST(m AS VARCHAR) AS TIMESTAMP)", "CAST(CAST(b AS VARCHAR) AS BOOLEAN)", "CAST(x AS REAL)",
        "CAST(d AS REAL)",
    ),
    "text": (
        "upper(p)", "lower(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "trim(s, 'a ')", "ltrim(s, 'a ')", "rtrim(s, 'c')",
        "length(s)", "position(p IN s)", "contains(s, p)", "starts_with(s, p)", "ends_with(s, p)", "replace(s, p, 'z')",
        "left(s, 2)", "right(s, 2)", "left(s, -2)", "right(s, -2)", "left(s, i)", "right(s, i)", "reverse(s)",
        "concat(s, p, 'x')", "s || p", "substring(s, 2, 2)", "substring(s, 2)", "substring(s, 0, 2)",
        "substring(s, -2)",
        "substring(s, -2, 1)", "substring(s, i, i)", "substring(s, i)", "s LIKE 'a%'", "s LIKE '%b%'", "s LIKE '_b_'",
        "s LIKE '%!%b!_%' ESCAPE '!'", "s LIKE '%\\\\d%'", "s ILIKE '%B%'", "s NOT LIKE ''", "s LIKE '%''%'",
    ),
    "moments": (
        "e + INTERVAL '3' DAY", "e - INTERVAL '1' MONTH", "e + INTERVAL '1' YEAR", "m + INTERVAL '1' MONTH",
        "m + INTERVAL '90' MINUTE", "m - INTERVAL '1' DAY", "date_diff('day', e, m)", "e - DATE '2020-01-01'",
        *(f"EXTRACT({part} FROM e)" for part in (
            "year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear")),
        *(f"EXTRACT({part} FROM m)" for part in (
            "year", "week", "hour", "minute", "second", "millisecond", "microsecond")),
        *(f"date_trunc('{unit}', m)" for unit in (
            "year", "quarter", "month", "week", "day", "hour", "minute", "second")),
        "date_trunc('month', e)",
        *(f"date_diff('{unit}', m, g)" for unit in (
            "year", "quarter", "month", "week", "hour", "minute", "second")),
    ),
    "logic": (
        "i < j", "d >= 0.50", "d = w", "e < m", "b AND i > 0", "b OR i IS NULL", "NOT b", "i IS NOT NULL", "b IS TRUE",
        "d IS DISTINCT FROM 1.25", "i IS NOT DISTINCT FROM j", "d IN (1.25, 2.00, -0.07)", "s IN ('abc', 'it''s')",
        "CASE WHEN i > 0 THEN d WHEN b THEN w END", "COALESCE(d, w, 0)", "NULLIF(d, 2)", "LEAST(i, j, 4)",
        "GREATEST(d, w)", "LEAST(s, p)", "CASE WHEN b THEN e ELSE m END", "x > 0.125", "m = g", "b < TRUE",
    ),
}  # fmt: skip

AGGREGATES: tuple[str, ...] = (
    "SELECT i, AVG(d), VAR_SAMP(d), COUNT(*) FROM v GROUP BY i HAVING STDDEV_SAMP(d) > 0.25",
    "SELECT COUNT(*) FROM v AS a WHERE a.d < (SELECT AVG(z.d) FROM v AS z WHERE z.i = a.i)",
    "SELECT COUNT(*) FROM v AS a WHERE a.d < (SELECT VAR_POP(z.d) FROM v AS z WHERE z.j < a.j)",
    "SELECT a.s, SUM(a.w) FROM v AS a WHERE a.d = (SELECT MAX(z.d) FROM v AS z WHERE z.s = a.s) GROUP BY a.s",
    "SELECT COUNT(*) FROM v AS a WHERE a.i NOT IN (SELECT z.j FROM v AS z WHERE z.b = a.b)",
    "SELECT a.e, MIN(a.m), SUM(a.x), SUM(a.q) FROM v AS a LEFT JOIN v AS z ON a.i = z.j GROUP BY a.e",
)
