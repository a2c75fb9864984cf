"""Four small tables, and rows with so few values that joins meet, groups merge and duplicates abound.

A column name means the same type in every table, so that NATURAL and USING joins are always typed. Doubles and decimals
are multiples of a quarter: their sums and products are exact, and two engines cannot differ by rounding.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from tests.oracle.grammar.choices import Choices, pick
from workloads.streams import Batch, Database, Row, Value

COLUMN_TYPES: dict[str, str] = {
    "a": "INTEGER",
    "b": "INTEGER",
    "c": "BIGINT",
    "d": "DECIMAL(6,2)",
    "x": "DOUBLE",
    "v": "VARCHAR",
    "e": "DATE",
    "f": "BOOLEAN",
    "k": "INTEGER NOT NULL",
    "m": "DECIMAL(8,3) NOT NULL",
}
FAMILIES: dict[str, str] = {
    "a": "int", "b": "int", "c": "int", "d": "dec", "x": "dbl", "v": "str", "e": "date", "f": "bool",
    "k": "int", "m": "dec",
}  # fmt: skip
TABLE_COLUMNS: dict[str, str] = {"r": "abdxv", "s": "acdve", "t": "bcxf", "u": "kame"}
TABLES: dict[str, str] = {
    table: f"CREATE TABLE {table} ({', '.join(f'{name} {COLUMN_TYPES[name]}' for name in columns)})"
    for table, columns in TABLE_COLUMNS.items()
}

DOMAINS: dict[str, tuple[Value, ...]] = {
    "int": (0, 1, 2, 3, -1),
    "dec": tuple(map(Decimal, ("0.00", "1.00", "0.25", "2.50", "-1.50"))),
    "dbl": (0.0, 1.0, 0.25, 1.5, -0.5),
    "str": ("a", "", "ab", "b", "Ba", "a_b"),
    "date": (date(2020, 1, 1), date(2020, 1, 31), date(2020, 2, 29), date(2021, 12, 31)),
    "bool": (True, False),
}
MOST_ROWS = 5
"""Rows of a table in one batch."""


def random_row(choices: Choices, table: str) -> Row:
    return tuple(_value(choices, name) for name in TABLE_COLUMNS[table])


def _value(choices: Choices, column: str) -> Value:
    domain = DOMAINS[FAMILIES[column]]
    nullable = "NOT NULL" not in COLUMN_TYPES[column]
    number = choices.integer(0, len(domain) - (0 if nullable else 1))
    return domain[number] if number < len(domain) else None


def random_load(choices: Choices, tables: tuple[str, ...]) -> Database:
    """The rows the tables start with."""
    return {table: [random_row(choices, table) for _ in range(choices.integer(1, MOST_ROWS))] for table in tables}


def random_batch(choices: Choices, present: Database) -> Batch:
    """Inserts and deletes of several tables; `present` is changed along with them."""
    batch: Batch = {}
    for table, rows in present.items():
        changes = batch.setdefault(table, [])
        for _ in range(min(len(rows), choices.integer(0, MOST_ROWS // 2))):
            row = pick(choices, rows)
            rows.remove(row)
            changes.append((row, -1))
        for _ in range(choices.integer(0, MOST_ROWS // 2)):
            row = random_row(choices, table)
            rows.append(row)
            changes.append((row, 1))
    return {table: changes for table, changes in batch.items() if changes}
