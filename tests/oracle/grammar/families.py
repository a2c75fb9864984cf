"""Types come in families, and an expression is asked for by its family.

Columns of SMALLINT, INTEGER and BIGINT are all `int`, decimals of any precision are `dec`. A double that may differ in
its last digit between two correct engines (an average, a logarithm) is of the family `approx`: it is shown, but never
compared, grouped or joined on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NUMERIC = ("int", "dec", "dbl", "real")
COMPARABLE = (*NUMERIC, "str", "date", "ts")
FAMILIES = (*COMPARABLE, "bool")

LITERALS: dict[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "-1", "3"),
    "dec": ("0.25", "1.5", "0.00", "2.50", "-1.50"),
    "dbl": ("CAST(0.5 AS DOUBLE)", "1e0", "CAST(0 AS DOUBLE)", "2.5e-1", "-0e0"),
    "real": ("CAST(0.5 AS REAL)", "CAST(1 AS FLOAT)", "CAST(-0.25 AS REAL)"),
    "str": ("'a'", "''", "'ab'", "'b'", "'a_b'", "'é'"),
    "date": ("DATE '2020-01-31'", "DATE '2020-02-29'", "CAST('2021-12-31' AS DATE)"),
    "ts": ("TIMESTAMP '2020-01-31 12:30:15'", "TIMESTAMP '2020-02-29 00:00:00'", "CAST('2020-01-01' AS TIMESTAMP)"),
    "bool": ("TRUE", "FALSE"),
}
TYPE_NAMES: dict[str, tuple[str, ...]] = {
    "int": ("INTEGER", "BIGINT", "SMALLINT", "LONG", "INT8", "SHORT", "INT"),
    "dec": ("DECIMAL(10,2)", "DECIMAL(12,4)", "DECIMAL(9,1)", "DECIMAL(5)", "NUMERIC(16,6)", "DECIMAL"),
    "dbl": ("DOUBLE", "FLOAT8"),
    "real": ("REAL", "FLOAT", "FLOAT4"),
    "str": ("VARCHAR", "TEXT", "STRING", "CHAR"),
    "date": ("DATE",),
    "ts": ("TIMESTAMP", "DATETIME"),
    "bool": ("BOOLEAN", "BOOL"),
}
TEXTS: dict[str, tuple[str, ...]] = {
    "int": ("'1'", "'-1'"),
    "dec": ("'0.25'", "'2.5'"),
    "dbl": ("'0.25'", "'1'"),
    "real": ("'0.25'",),
    "str": ("'a'",),
    "date": ("'2020-01-31'", "'2020-02-29'"),
    "ts": ("'2020-01-31'", "'2020-02-29 23:59:59.5'"),
    "bool": ("'true'", "'f'"),
}
"""String literals that read as values of a family."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column in scope: how to write it, and its family."""

    text: str
    family: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns an expression may read: its own query's, and those of the queries around it.

    `depth` is how many more levels of subqueries are allowed.
    """

    fields: tuple[Field, ...]
    outer: tuple[Field, ...] = ()
    depth: int = 0

    def of(self, family: str) -> list[str]:
        return [field.text for field in self.fields if field.family == family]

    def outer_of(self, family: str) -> list[str]:
        return [field.text for field in self.outer if field.family == family]

    def without_subqueries(self) -> Scope:
        return replace(self, depth=0)

    def without_outer(self) -> Scope:
        return replace(self, outer=())
