"""Small random tables with NULLs, a query over them, and its answer by DuckDB and by the calculus."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Iterable

import duckdb

from viewlet.algebra.evaluate import State, evaluate
from viewlet.sql import CreateTable, bind_query, parse_statements
from viewlet.types import Datum, Kind, Row, SqlType, Table

SCHEMA = """
CREATE TABLE r (a INTEGER, b INTEGER NOT NULL, d DECIMAL(10,2), t VARCHAR, dt DATE);
CREATE TABLE s (a INTEGER, c BIGINT, x DOUBLE, ts TIMESTAMP);
CREATE TABLE u (a INTEGER NOT NULL, b INTEGER, e DECIMAL(8,3) NOT NULL, ok BOOLEAN, w SMALLINT);
"""


def tables() -> dict[str, Table]:
    return {each.table.name: each.table for each in parse_statements(SCHEMA, {}) if isinstance(each, CreateTable)}


def random_rows(table: Table, count: int, rng: random.Random) -> list[Row]:
    return [tuple(random_value(column.type, rng) for column in table.columns) for _ in range(count)]


def random_value(type: SqlType, rng: random.Random) -> Datum:
    if type.nullable and rng.random() < 0.2:
        return None
    if type.is_integer:
        return rng.randint(-2, 4)
    if type.kind is Kind.DECIMAL:
        return rng.choice([0, 50, 100, 125, -350, 999])
    if type.kind is Kind.DOUBLE:
        return rng.choice([0.0, 0.5, -1.25, 2.0, 3.5])
    if type.kind is Kind.VARCHAR:
        return rng.choice(["", "a", "ab", "b%c", "Abc"])
    if type.kind is Kind.BOOLEAN:
        return rng.random() < 0.5
    if type.kind is Kind.DATE:
        return rng.choice([0, 31, 59, 9000, 9161, 9190])
    return rng.choice([0, 86_400_000_000, 1_234_567_890_123_456, 801_500_000_000_000])


def to_python(value: Datum, type: SqlType) -> object:
    """A value as DuckDB's client takes and gives it."""
    if value is None:
        return None
    if type.kind is Kind.DECIMAL:
        assert isinstance(value, int)
        return decimal.Decimal(value).scaleb(-type.scale)
    if type.kind is Kind.DATE:
        assert isinstance(value, int)
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    if type.kind is Kind.TIMESTAMP:
        assert isinstance(value, int)
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
    return value


class StoredTable:
    """The least a relation has to offer to be evaluated over."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.counts = Counter(rows)

    def get(self, key: Row) -> tuple[int] | None:
        return (self.counts[key],) if key in self.counts else None

    def keys(self) -> list[Row]:
        return list(self.counts)

    def slice(self, positions: tuple[int, ...], part: Row) -> list[Row]:
        return [key for key in self.counts if tuple(key[i] for i in positions) == part]

    def field_index(self, name: str) -> int:
        return 0


class Database:
    """The same random rows in DuckDB and in memory."""

    def __init__(self, seed: int, size: int = 9) -> None:
        rng = random.Random(seed)
        self.catalog = tables()
        self.duck = duckdb.connect()
        self.duck.execute("SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false")
        self.duck.execute(SCHEMA)
        self.state = State({})
        relations = {}
        for table in self.catalog.values():
            rows = random_rows(table, size, rng)
            relations[table.name] = StoredTable(rows)
            for row in rows:
                cells = [to_python(v, c.type) for v, c in zip(row, table.columns, strict=True)]
                marks = ", ".join("?" for _ in cells)
                self.duck.execute(f"INSERT INTO {table.name} VALUES ({marks})", cells)
        self.state = State(relations)

    def expected(self, sql: str) -> Counter[tuple[object, ...]]:
        return Counter(tuple(comparable(v) for v in row) for row in self.duck.execute(sql).fetchall())

    def actual(self, sql: str) -> Counter[tuple[object, ...]]:
        query = bind_query(sql, self.catalog).query
        result: Counter[tuple[object, ...]] = Counter()
        positions = [query.output.index(column.var) for column in query.columns]
        for row, count in evaluate(query.expr, query.output, self.state).items():
            cells = (to_python(row[i], query.output[i].type) for i in positions)
            result[tuple(comparable(cell) for cell in cells)] += int(count)  # type: ignore[call-overload]
        return result


def comparable(value: object) -> object:
    """Numbers compare by value; doubles to nine digits."""
    if isinstance(value, float):
        return float(f"{value:.9g}") + 0.0
    if isinstance(value, decimal.Decimal):
        return float(f"{value:.12g}") + 0.0
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return float(value)
