"""Five small tables of all types, and rows with so few values that joins meet, groups merge and duplicates abound.

A column name means the same type in every table, so that NATURAL and USING joins are always typed. Doubles and decimals
are multiples of a quarter: their sums and products are exact, and two engines cannot differ by rounding.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from tests.oracle.grammar.choices import Choices, chance, pick
from workloads.streams import Batch, Database, Row, Value

COLUMN_TYPES: dict[str, str] = {
    "a": "INTEGER",
    "b": "INTEGER",
    "c": "BIGINT",
    "h": "SMALLINT",
    "d": "DECIMAL(6,2)",
    "w": "DECIMAL(20,4)",
    "x": "DOUBLE",
    "y": "REAL",
    "v": "VARCHAR",
    "e": "DATE",
    "o": "TIMESTAMP",
    "f": "BOOLEAN",
    "k": "INTEGER NOT NULL",
    "m": "DECIMAL(8,3) NOT NULL",
    "z": "DOUBLE NOT NULL",
    "j": "REAL NOT NULL",
    "g": "VARCHAR NOT NULL",
    "p": "TIMESTAMP NOT NULL",
    "n": "BOOLEAN NOT NULL",
    "i": "BIGINT NOT NULL",
}
FAMILIES: dict[str, str] = {
    "a": "int", "b": "int", "c": "int", "h": "int", "k": "int", "d": "dec", "w": "dec", "m": "dec", "x": "dbl",
    "z": "dbl", "y": "real", "j": "real", "v": "str", "g": "str", "e": "date", "o": "ts", "p": "ts", "f": "bool",
    "n": "bool", "i": "int",
}  # fmt: skip
TABLE_COLUMNS: dict[str, str] = {"r": "abdxvy", "s": "acdveo", "t": "bcxfh", "u": "kamezgi", "l": "hwjpn"}
TABLES: dict[str, str] = {
    table: f"CREATE TABLE {table} ({', '.join(f'{name} {COLUMN_TYPES[name]}' for name in columns)})"
    for table, columns in TABLE_COLUMNS.items()
}

DOMAINS: dict[str, tuple[Value, ...]] = {
    "int": (0, 1, 2, 3, -1),
    "dec": tuple(map(Decimal, ("0.00", "1.00", "0.25", "2.50", "-1.50"))),
    "dbl": (0.0, 1.0, 0.25, 1.5, -0.5, -0.0),
    "real": (0.0, 1.0, 0.25, 2.5, -1.5, -0.0),
    "str": ("a", "", "ab", "b", "Ba", "a_b", "é"),
    "date": (date(2020, 1, 1), date(2020, 1, 31), date(2020, 2, 29), date(2021, 12, 31)),
    "ts": (
        datetime(2020, 1, 1),
        datetime(2020, 1, 31, 12, 30, 15),
        datetime(2020, 2, 29, 23, 59, 59, 500_000),
        datetime(2021, 12, 31),
        datetime(1969, 7, 20, 20, 17, 40),
    ),
    "bool": (True, False),
}
HUGE: dict[str, tuple[Value, ...]] = {
    "c": (3_000_000_000, 2**53 + 1),
    "i": (3_000_000_000, -(2**53) - 1),
    "d": (Decimal("9999.75"), Decimal("-9999.75")),
    "w": (Decimal("99999.2500"),),
    "x": (1_048_576.25,),
    "z": (-1_048_576.25,),
}
"""Rare values of some columns, far from the others: DuckDB's sums and variances of doubles stay exact with them."""
MOST_ROWS = 5
"""Rows of a table in one batch."""


def tables_of(sql: str) -> tuple[str, ...]:
    """The tables a query of the grammar reads; nothing else in it is called like one."""
    words = set(re.findall(r"\b[a-z]\b", sql))
    return tuple(table for table in TABLES if table in words)


def random_row(choices: Choices, table: str) -> Row:
    return tuple(_value(choices, name) for name in TABLE_COLUMNS[table])


def _value(choices: Choices, column: str) -> Value:
    if column in HUGE and chance(choices, 3):
        return pick(choices, HUGE[column])
    domain = DOMAINS[FAMILIES[column]]
    nullable = "NOT NULL" not in COLUMN_TYPES[column]
    number = choices.integer(0, len(domain) - (0 if nullable else 1))
    return domain[number] if number < len(domain) else None


def random_load(choices: Choices, tables: tuple[str, ...]) -> Database:
    """The rows the tables start with; a table may be empty."""
    return {table: [random_row(choices, table) for _ in range(choices.integer(0, MOST_ROWS))] for table in tables}


def random_batch(choices: Choices, present: Database) -> Batch:
    """Inserts, deletes and updates of several tables; `present` is changed along with them."""
    batch: Batch = {}
    for table, rows in present.items():
        changes = batch.setdefault(table, [])
        deleted = len(rows) if chance(choices, 8) else choices.integer(0, MOST_ROWS // 2)
        for _ in range(min(len(rows), deleted)):
            row = pick(choices, rows)
            rows.remove(row)
            changes.append((row, -1))
            if chance(choices, 40):
                _insert(_updated(choices, table, row), rows, changes)
        for _ in range(choices.integer(0, MOST_ROWS // 2)):
            _insert(random_row(choices, table), rows, changes)
    return {table: changes for table, changes in batch.items() if changes}


def _insert(row: Row, rows: list[Row], changes: list[tuple[Row, int]]) -> None:
    rows.append(row)
    changes.append((row, 1))


def _updated(choices: Choices, table: str, row: Row) -> Row:
    """The row with another value in one column: most of its groups and joins stay the same."""
    columns = TABLE_COLUMNS[table]
    at = choices.integer(0, len(columns) - 1)
    return (*row[:at], _value(choices, columns[at]), *row[at + 1 :])
