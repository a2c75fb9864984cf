"""Aggregates of expressions over nullable columns of several tables: right, and as cheap as over columns NOT NULL.

`python -m tests.oracle.test_nullable 2000` plays that many random queries with every strategy.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from typing import Any

import duckdb
import pytest

import viewlet

COLUMNS = {"r": ("a", "b", "x"), "s": ("a", "c", "e"), "t": ("c", "d", "y")}
DOUBLES = ("x", "y")
STRATEGIES = ("auto", "first-order", "higher-order", "view-tree", "recompute")
JOINS = (
    "r JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "r JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "s LEFT JOIN r ON r.a = s.a LEFT JOIN t ON s.c = t.c",
    "r FULL JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "r JOIN s ON r.a = s.a CROSS JOIN t",
    "s JOIN t ON s.c = t.c AND s.e < t.d JOIN r ON r.a = s.a",
)
PRODUCTS = (
    "SUM(r.b * t.d * s.e)",
    "AVG(r.b * s.e)",
    "SUM(r.b + s.e)",
    "SUM((r.b - s.e) * t.d)",
    "VAR_POP(r.b * s.e)",
    "COUNT(r.b * t.d)",
    "COUNT(r.b < t.d)",
    "SUM(CASE WHEN s.e > 3 THEN r.b * t.d END)",
    "SUM(CASE WHEN s.e > 3 THEN r.b * t.d ELSE 0 END)",
    "SUM(CASE WHEN s.e > 3 THEN r.b ELSE t.d END)",
    "SUM(COALESCE(r.b * t.d, 0))",
    "SUM(COALESCE(r.b, t.d))",
    "SUM(NULLIF(r.b, 3) * t.d)",
    "SUM(r.x * t.y)",
    "SUM(r.b * t.y - s.e * r.x)",
    "SUM(CASE WHEN s.e > 3 THEN r.x * t.y ELSE 0 END)",
    "SUM(r.b / 2 * t.d)",
    "SUM(CAST(r.b AS BIGINT) * 1.5 * t.d)",
    "SUM(r.b * t.d) FILTER (WHERE s.e > 2)",
    "SUM(r.b * t.d) / COUNT(r.b * t.d) - AVG(r.b) * AVG(t.d)",
)


def tables(condition: str) -> str:
    def typed(column: str) -> str:
        return f"{column} {'DOUBLE' if column in DOUBLES else 'INTEGER'}{condition}"

    return "; ".join(f"CREATE TABLE {name} ({', '.join(map(typed, columns))})" for name, columns in COLUMNS.items())


def stored(aggregate: str, condition: str, strategy: str) -> Counter[int]:
    """How many rows each view stores, when every row has values of its own."""
    db = viewlet.connect(engine="interpreter")
    db.execute(tables(condition))
    db.execute(
        f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS"
        f" SELECT s.a, s.c, {aggregate} AS v FROM {JOINS[0]} GROUP BY s.a, s.c"
    )
    for name in COLUMNS:
        db.insert(name, [(i % 2, 10 + i, float(20 + i)) if name != "s" else (i % 2, i % 2, 30 + i) for i in range(20)])
        if name == "t":
            db.insert(name, [(i % 2, 50 + i, float(i)) for i in range(20)])
    rows: Any = db.view("q").stats()["stored"]
    return Counter(rows.values())


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree"])
@pytest.mark.parametrize("aggregate", PRODUCTS)
def test_a_nullable_column_adds_fields_to_views_and_no_view(aggregate: str, strategy: str) -> None:
    assert stored(aggregate, "", strategy) == stored(aggregate, " NOT NULL", strategy)


@pytest.mark.parametrize("strategy", ["higher-order", "view-tree"])
@pytest.mark.parametrize(
    "joined",
    [
        "r JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND t.a = r.a",
        "r JOIN s ON r.b = s.b JOIN t ON s.c = t.c JOIN u ON t.a = u.a",
        "r JOIN s ON r.b = s.b JOIN t ON s.b = t.a JOIN u ON r.a = u.a",
        "r AS x JOIN r ON x.b = r.a JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
    ],
)
def test_joins_on_nullable_columns_store_no_table_twice(joined: str, strategy: str) -> None:
    """Whichever of its columns a change has bound, the rows of a table that are kept are those that can be joined."""

    def views(condition: str) -> Counter[int]:
        db = viewlet.connect(engine="interpreter")
        for name, columns in {"r": "ab", "s": "bc", "t": "ca", "u": "ad"}.items():
            db.execute(f"CREATE STREAM {name} ({', '.join(f'{c} INTEGER{condition}' for c in (*columns, 'w'))})")
        sums = "SUM(r.w * s.w * t.w) AS v, COUNT(*) AS n"
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS SELECT {sums} FROM {joined}")
        for number, name in enumerate("rstu"):
            db.insert(name, [(i % 7, i % 5, i) for i in range(20 + number)])
        rows: Any = db.view("q").stats()["stored"]
        return Counter(rows.values())

    assert views("") == views(" NOT NULL")


class Play:
    """One random query and its batches, with DuckDB's answers beside."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.share = self.random.choice([0.0, 0.2, 0.6])
        aggregates = [self.aggregate() for _ in range(self.random.randint(1, 3))]
        keys = self.random.choice([("s.a", "s.c"), ("r.a",), ("t.d",), ()])
        columns = [
            *(f"{key} AS k{i}" for i, key in enumerate(keys)),
            *(f"{a} AS v{i}" for i, a in enumerate(aggregates)),
        ]
        where = f" WHERE {self.condition(1)}" if self.random.random() < 0.3 else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        self.sql = f"SELECT {', '.join(columns)} FROM {self.random.choice(JOINS)}{where}{group}"
        self.batches = self.changes()

    def number(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.25:
            return self.random.choice(["r.b", "s.e", "t.d", "r.x", "t.y", "2", "r.a"])
        inner = [self.number(depth - 1) for _ in range(2)]
        if pick < 0.7:
            return f"({inner[0]} {self.random.choice('**+-')} {inner[1]})"
        return self.random.choice(
            [
                f"COALESCE({inner[0]}, {inner[1]})",
                f"COALESCE({inner[0]}, 0)",
                f"CASE WHEN {self.condition(depth - 1)} THEN {inner[0]} ELSE {inner[1]} END",
                f"CASE WHEN {self.condition(depth - 1)} THEN {inner[0]} END",
                f"CASE WHEN {self.condition(depth - 1)} THEN {inner[0]} ELSE 0 END",
                f"NULLIF({inner[0]}, {inner[1]})",
                f"abs({inner[0]})",
                f"(- {inner[0]})",
            ]
        )

    def condition(self, depth: int) -> str:
        left, right = self.number(depth), self.number(depth)
        compare = f"{left} {self.random.choice(['<', '>=', '=', '<>'])} {right}"
        return self.random.choice([compare, compare, f"{left} IS NULL", f"({left} * {right}) IS NOT NULL"])

    def aggregate(self) -> str:
        name = self.random.choice(["SUM", "SUM", "SUM", "AVG", "COUNT", "MIN", "MAX", "VAR_POP"])
        condition = f" FILTER (WHERE {self.condition(1)})" if self.random.random() < 0.15 else ""
        return f"{name}({self.number(2)}){condition}"

    def value(self, column: str) -> Any:
        if self.random.random() < self.share:
            return None
        small = self.random.randint(-2, 3)
        return small / 2 if column in DOUBLES else small if column not in "ac" else abs(small) % 3

    def changes(self) -> list[dict[str, list[tuple[Any, ...]]]]:
        """Rows to insert, and in every second batch rows to delete."""
        batches: list[dict[str, list[tuple[Any, ...]]]] = []
        rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}
        for number in range(5):
            batch: dict[str, list[tuple[Any, ...]]] = {}
            for name, columns in COLUMNS.items():
                if number % 2:
                    batch[name] = [rows[name].pop(self.random.randrange(len(rows[name]))) for _ in range(2)]
                else:
                    batch[name] = [tuple(map(self.value, columns)) for _ in range(self.random.choice([3, 6]))]
                    rows[name] += batch[name]
            batches.append(batch)
        return batches

    def expected(self) -> list[Counter[tuple[Any, ...]]]:
        answers = []
        with duckdb.connect() as con:
            con.execute(tables(""))
            for number, batch in enumerate(self.batches):
                for name, rows in batch.items():
                    for row in rows:
                        where = " AND ".join(f"{c} IS NOT DISTINCT FROM ?" for c in COLUMNS[name])
                        delete = f"DELETE FROM {name} WHERE rowid = (SELECT min(rowid) FROM {name} WHERE {where})"
                        con.execute(delete if number % 2 else f"INSERT INTO {name} VALUES (?, ?, ?)", row)
                answers.append(_bag(con.execute(self.sql).fetchall()))
        return answers

    def objection(self, engine: str, strategy: str, expected: list[Counter[tuple[Any, ...]]]) -> str | None:
        db = viewlet.connect(engine=engine)
        db.execute(tables(""))
        db.execute(f"CREATE MATERIALIZED VIEW q WITH (strategy = '{strategy}') AS {self.sql}")
        for number, (batch, answer) in enumerate(zip(self.batches, expected, strict=True)):
            for name, rows in batch.items():
                (db.delete if number % 2 else db.insert)(name, rows)
            found = _bag(db.view("q").rows())
            if found != answer:
                return f"{engine} {strategy} batch {number}: {found - answer} instead of {answer - found}\n{self.sql}"
        return None


def _bag(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_rounded(value) for value in row) for row in rows)


def _rounded(value: Any) -> Any:
    if value is None:
        return None
    number = round(float(value), 6)
    return 0.0 if math.isclose(number, 0.0) else number


@pytest.mark.parametrize("seed", range(15))
def test_random_expressions_over_nullable_columns_equal_duckdb(seed: int) -> None:
    play = Play(seed)
    expected = play.expected()
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    for engine, own in (("interpreter", strategy), ("interpreter", "view-tree"), ("compiled", "higher-order")):
        assert play.objection(engine, own, expected) is None


if __name__ == "__main__":
    for number in range(1000, 1000 + int(sys.argv[1])):
        asked = Play(number)
        right = asked.expected()
        for engine in ("interpreter", "compiled"):
            for strategy in STRATEGIES:
                try:
                    found = asked.objection(engine, strategy, right)
                except viewlet.errors.ViewletError as error:
                    found = f"{type(error).__name__}: {error}\n{asked.sql}"
                if found is not None:
                    print(number, found, flush=True)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_view_that_triggers_assign_in_different_ways(strategy: str, engine: str) -> None:
    """One trigger reads a view that another one assigns later: each has its own code."""
    query = (
        "SELECT q1.w FROM l AS q1 RIGHT JOIN u AS q2 ON q1.h = q2.k LEFT JOIN l AS q3 ON q2.a = q3.h "
        "WHERE NOT EXISTS (SELECT 1 FROM u AS q4 WHERE q1.w = q4.m AND q3.j IS NULL)"
    )
    chance, oracle, db = random.Random(3), duckdb.connect(), viewlet.connect(engine=engine)
    for each in (oracle, db):
        each.execute("CREATE TABLE l (h SMALLINT, w DECIMAL(20,4), j INTEGER NOT NULL)")
        each.execute("CREATE TABLE u (k INTEGER NOT NULL, a INTEGER, m DECIMAL(8,3) NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {query}")
    for _ in range(25):
        table = chance.choice("lu")
        if chance.random() < 0.3:
            sql = f"DELETE FROM {table} WHERE {'h' if table == 'l' else 'a'} = {chance.randrange(2)}"
        else:
            cells = [chance.choice(("0", "1", "NULL")) for _ in range(2)]
            row = [*cells, "1"] if table == "l" else [str(chance.randrange(2)), cells[0], str(chance.randrange(2))]
            sql = f"INSERT INTO {table} VALUES ({', '.join(row)})"
        for each in (oracle, db):
            each.execute(sql)
        assert Counter(db.view("v").rows()) == Counter(oracle.execute(query).fetchall()), sql
