"""COFACTOR views: equal to NumPy over DuckDB's join after every batch, and refused with a reason where that is due."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from tests.api.ring_oracle import Twin, assert_cofactor, multiset
from viewlet.changes import ColumnChange
from viewlet.codegen.instance import ModuleInstance
from viewlet.codegen.rings.generated_tree import GeneratedTree

SHOP = """
CREATE TABLE sales (shop BIGINT, item BIGINT, day DATE, units INTEGER, discount DOUBLE);
CREATE TABLE shops (shop BIGINT, city VARCHAR, size DECIMAL(9,2));
CREATE TABLE items (item BIGINT, price DOUBLE, colour VARCHAR);
"""
JOIN = "sales NATURAL JOIN shops NATURAL JOIN items"
CITIES = ("Rome", "Oslo", "Bern", None)
ROWS = {
    "sales": lambda r: (
        r.choice([None, 1, 2, 3, 4]), r.randrange(5), date(2026, 1, r.randrange(1, 4)), r.randrange(-3, 9), r.random(),
    ),
    "shops": lambda r: (r.randrange(5), r.choice(CITIES), Decimal(r.randrange(1000)) / 100),
    "items": lambda r: (r.randrange(5), r.choice([None, 1.5, 2.25, 1e3]), r.choice("abc")),
}  # fmt: skip


ENGINES = ("interpreter", "compiled")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def churned(engine: str, select: str, seed: int, batches: int = 8, size: int = 12) -> Any:
    twin = Twin(SHOP, engine)
    twin.db.execute(f"CREATE MATERIALIZED VIEW m AS {select}")
    for _ in twin.churn(Random(seed), ROWS, batches, size):
        yield twin


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_numbers_and_categories_stay_those_of_the_join(engine: str, seed: int) -> None:
    for twin in churned(
        engine, f"SELECT COFACTOR(units, price, CATEGORICAL(city), size, CATEGORICAL(day)) FROM {JOIN}", seed
    ):
        rows = twin.ask(
            f"SELECT units, price, size, city, day FROM {JOIN} WHERE price IS NOT NULL AND city IS NOT NULL "
            "AND units IS NOT NULL AND size IS NOT NULL"
        )
        assert_cofactor(twin.db.view("m").cofactor(), rows, ["units", "price", "size"], ["city", "day"])


@pytest.mark.parametrize("seed", range(2))
def test_groups_come_and_go_and_null_is_one_of_them(engine: str, seed: int) -> None:
    for twin in churned(
        engine, f"SELECT city, COFACTOR(units, price) AS c, colour FROM {JOIN} GROUP BY city, colour", seed
    ):
        found = twin.db.view("m").cofactor()
        rows = twin.ask(f"SELECT city, colour, units, price FROM {JOIN} WHERE price IS NOT NULL")
        assert set(found) == {row[:2] for row in rows}
        for group, table in found.items():
            assert_cofactor(table, [row[2:] for row in rows if row[:2] == group], ["units", "price"])
        shown = twin.db.view("m").rows()
        assert {(city, colour): c["count"] for city, c, colour in shown} == {g: t.count for g, t in found.items()}


@pytest.mark.parametrize(
    ("select", "join", "columns"),
    [
        ("COFACTOR(units * 2, discount)", JOIN, "units * 2, discount"),
        ("COFACTOR(units, price)", f"{JOIN} WHERE units > 0 AND colour <> 'a' AND city = 'Rome'", "units, price"),
        ("COFACTOR(s.units, i.price)", "sales s, items i WHERE s.item = i.item", "s.units, i.price"),
        ("COFACTOR(s.units, i.item)", "sales s JOIN items i ON i.item = s.item + 1", "s.units, i.item"),
        ("COFACTOR(units, item)", "sales JOIN items USING (item)", "units, item"),
        ("COFACTOR(a.units, b.units)", "sales a JOIN sales b USING (shop, item)", "a.units, b.units"),
        ("COFACTOR(units, price)", "sales, items", "units, price"),
        ("COFACTOR(units)", "sales, items", "units"),
        ("COFACTOR(units, price)",
         "(SELECT item, units FROM sales WHERE units > 2) s NATURAL JOIN items", "units, price"),
        ("COFACTOR(s.units, s.shop)", "sales s JOIN shops h ON s.shop = h.shop AND s.item = h.shop", "s.units, s.shop"),
    ],
)  # fmt: skip
def test_joins_filters_and_expressions(engine: str, select: str, join: str, columns: str) -> None:
    names = [name.strip().split(".")[-1] for name in columns.split(",")]
    for twin in churned(engine, f"SELECT {select} FROM {join}", seed=7, batches=4, size=8):
        found = twin.db.view("m").cofactor()
        rows = [row for row in twin.ask(f"SELECT {columns} FROM {join}") if None not in row]
        if len(set(names)) < len(names):
            names = ["a.units", "b.units"]
        assert_cofactor(found, rows, names)


def test_variables_may_be_given_names(engine: str) -> None:
    select = "COFACTOR(units * 2 AS double, item AS i, CATEGORICAL(shop) AS s, size AS area)"
    with_cte = "WITH sold AS (SELECT * FROM sales WHERE units > 0) SELECT"
    for twin in churned(
        engine, f"{with_cte} {select} FROM sold NATURAL JOIN shops JOIN items USING (item)", seed=6, batches=3
    ):
        rows = twin.ask(f"{with_cte} units * 2, item, size, shop FROM sold NATURAL JOIN shops JOIN items USING (item)")
        assert_cofactor(twin.db.view("m").cofactor(), rows, ["double", "i", "area"], ["s"])


def test_groups_may_be_all_other_columns_or_be_counted(engine: str) -> None:
    for group in ("ALL", "1", "c"):
        for twin in churned(engine, f"SELECT city AS c, COFACTOR(size) FROM shops GROUP BY {group}", seed=8, batches=2):
            rows = twin.ask("SELECT city, size FROM shops")
            for city, table in twin.db.view("m").cofactor().items():
                assert_cofactor(table, [row[1:] for row in rows if row[0] == city], ["size"])


def test_a_triangle_joins_three_times_the_same_stream(engine: str) -> None:
    twin = Twin("CREATE STREAM edges (a BIGINT, b BIGINT, w DOUBLE)", engine)
    triangle = "edges r JOIN edges s ON r.b = s.a JOIN edges t ON s.b = t.a AND t.b = r.a"
    twin.db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(r.w, s.w, t.w) FROM {triangle}")
    for _ in twin.churn(Random(3), {"edges": lambda r: (r.randrange(6), r.randrange(6), r.random())}, 6, 15):
        rows = twin.ask(f"SELECT r.w, s.w, t.w FROM {triangle}")
        assert_cofactor(twin.db.view("m").cofactor(), rows, ["r.w", "s.w", "t.w"])


def test_a_variable_that_is_also_a_key_is_summed_within_its_group(engine: str) -> None:
    for twin in churned(engine, "SELECT units, COFACTOR(units, discount) FROM sales GROUP BY units", seed=4, batches=3):
        rows = twin.ask("SELECT units, units, discount FROM sales")
        found = twin.db.view("m").cofactor()
        assert set(found) == {row[0] for row in rows}
        for group, table in found.items():
            assert_cofactor(table, [row[1:] for row in rows if row[0] == group], ["units", "discount"])


def test_higher_degrees_have_moments() -> None:
    for twin in churned(
        "interpreter", f"SELECT COFACTOR(units, price, CATEGORICAL(day), degree => 4) FROM {JOIN}", seed=5, batches=3
    ):
        found = twin.db.view("m").cofactor()
        assert found.degree == 4
        (want, dated) = twin.ask(
            "SELECT coalesce(sum(units * units * units * price), 0), "
            f"coalesce(sum(units * price) FILTER (day = '2026-01-02'), 0) FROM {JOIN} WHERE price IS NOT NULL"
        )[0]
        assert found.moment(("units", "units", "price", "units")) == pytest.approx(want, rel=1e-9)
        assert found.moment(("units", "price"), {"day": date(2026, 1, 2)}) == pytest.approx(dated, rel=1e-9)


def test_exact_sums_leave_nothing_of_what_is_deleted() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (x DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, exact => true) FROM t")
    db.insert("t", [(1e17,), (1.0,)])
    db.delete("t", [(1e17,)])
    assert db.view("m").cofactor().matrix.tolist() == [[1.0]]


def test_nothing_is_a_count_of_zero_and_no_groups(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute(SHOP)
    db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(units, CATEGORICAL(city), price) FROM {JOIN}")
    db.execute(f"CREATE MATERIALIZED VIEW g AS SELECT city, COFACTOR(units) AS c FROM {JOIN} GROUP BY city")
    found = db.view("m").cofactor()
    assert (found.variables, found.count, found.sums.tolist()) == (("units", "price"), 0, [0.0, 0.0])
    assert db.view("g").cofactor() == {}
    assert db.view("g").rows() == []
    assert len(db.view("m")) == 1


def test_rows_arrow_and_sql_show_a_struct() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (g VARCHAR, x DOUBLE, c BOOLEAN)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x, CATEGORICAL(c)) AS sums FROM t GROUP BY g")
    db.insert("t", [("a", 2.0, True), ("a", 3.0, False)])
    struct = {"variables": ["x", "c=False", "c=True"], "count": 2, "sums": [5.0, 1.0, 1.0]}
    struct["matrix"] = [[13.0, 3.0, 2.0], [3.0, 1.0, 0.0], [2.0, 0.0, 1.0]]
    assert db.view("m").rows() == [("a", struct)]
    assert db.view("m").to_arrow().to_pylist() == [{"g": "a", "sums": struct}]
    answer = db.execute("SELECT sums.count AS n, sums.matrix[1][2] AS xc FROM m")
    assert answer.to_pylist() == [{"n": 2, "xc": 3.0}]
    assert [str(column.type) for column in db.view("m").schema] == ["VARCHAR", "COFACTOR"]
    assert "count" in repr(db.view("m"))


def test_rows_already_there_count_and_a_failed_batch_does_not(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, x DOUBLE); CREATE TABLE u (k BIGINT, y DOUBLE)")
    db.apply({"t": [(1, 2.0)], "u": [(1, 3.0)]})
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, y) FROM t NATURAL JOIN u")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT SUM(k * 9000000000000000000) AS big FROM t")
    before = db.view("m").rows()
    assert before[0][0]["matrix"] == [[4.0, 6.0], [6.0, 9.0]]
    with pytest.raises(viewlet.DataError):
        db.apply({"t": [(2, 5.0)], "u": [{"k": 7, "y": 1.0, "_multiplicity": -1}]})
    assert db.view("m").rows() == before
    assert db.epoch == 1


def test_changes_are_told_by_group(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (g BIGINT, x DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x) AS c FROM t GROUP BY g")
    db.insert("t", [(1, 2.0), (2, 5.0)])
    heard: list[Any] = []
    db.view("m").subscribe(lambda epoch, changes: heard.append((epoch, changes.to_pylist())))
    db.apply({"t": [{"g": 2, "x": 5.0, "_multiplicity": -1}, {"g": 3, "x": 1.0, "_multiplicity": 1}]})
    ((epoch, rows),) = heard
    assert epoch == 2
    assert [(row["g"], row["c"]["count"], row["_multiplicity"]) for row in rows] == [
        (2, 1, -1),
        (3, 1, 1),
    ]
    db.insert("t", [(1, 1.0)])
    assert [(row["c"]["sums"], row["_multiplicity"]) for row in heard[1][1]] == [([2.0], -1), ([3.0], 1)]


def test_a_batch_that_fails_late_tells_nobody_and_leaves_no_trace(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("TABLE", "STREAM"):
        db = viewlet.connect(engine=engine)
        db.execute(f"CREATE {kind} t (g BIGINT, x DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x) AS c FROM t GROUP BY g")
        heard: list[Any] = []
        db.view("m").subscribe(lambda epoch, changes, heard=heard: heard.append(changes.num_rows))
        db.insert("t", [(1, 2.0)])
        before = db.view("m").rows()
        with db._session.open() as database:
            monkeypatch.setattr(database.journal, "batch", _full_disk, raising=False)
            with pytest.raises(viewlet.StateError):
                db.insert("t", [(1, 0.1), (2, 1.0)])
            monkeypatch.undo()
        assert db.view("m").rows() == before
        assert heard == [1]
        db.insert("t", [(1, 3.0)])
        assert db.view("m").cofactor()[1].sums.tolist() == [5.0]
        assert heard == [1, 2]


def _full_disk(*args: object) -> None:
    raise viewlet.StateError("no space left")


def test_views_are_dropped_replaced_and_not_read_by_others() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (g BIGINT, x DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x) FROM t")
    with pytest.raises(viewlet.UnsupportedError, match="a view over 'm'"):
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT * FROM m")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x) AS c FROM t GROUP BY g")
    with pytest.raises(viewlet.SchemaError, match="reads it"):
        db.execute("DROP TABLE t")
    db.execute("DROP VIEW m; DROP TABLE t")
    assert db.views == ()


def test_a_view_may_be_joined_under_a_cofactor(engine: str) -> None:
    db = viewlet.connect(engine=engine)
    db.execute("CREATE TABLE t (g BIGINT, x DOUBLE); CREATE TABLE u (g BIGINT, y DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT g, SUM(y) AS total FROM u GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, total) FROM t NATURAL JOIN s")
    db.apply({"t": [(1, 2.0)], "u": [(1, 3.0), (1, 4.0)]})
    assert db.view("m").cofactor().sums.tolist() == [2.0, 7.0]
    db.delete("u", [(1, 3.0)])
    assert db.view("m").cofactor().sums.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("select", "error", "message", "fragment"),
    [
        ("COFACTOR(unit) FROM sales", viewlet.SqlError, "column 'unit' does not exist; did you mean 'units'", "unit"),
        ("COFACTOR(units) FROM sale", viewlet.SqlError, "table 'sale' does not exist", "sale"),
        ("COFACTOR(city) FROM shops", viewlet.SqlError, "'city' is a VARCHAR.*write CATEGORICAL", "city"),
        ("COFACTOR(day) FROM sales", viewlet.SqlError, "'day' is a DATE, not a number", "day"),
        ("COFACTOR(CATEGORICAL(price)) FROM items", viewlet.SqlError, "a DOUBLE is no category", "price"),
        ("COFACTOR(CATEGORICAL(city, size)) FROM shops", viewlet.SqlError, "takes 1 argument", None),
        ("COFACTOR(units, units) FROM sales", viewlet.SqlError, "'units' is a variable of COFACTOR twice", "units"),
        ("COFACTOR(size, size) FROM shops", viewlet.SqlError, "'size' is a variable of COFACTOR twice", "size"),
        ("COFACTOR(s.item, i.item) FROM sales s JOIN items i USING (item)", viewlet.SqlError, "twice", "i.item"),
        ("COFACTOR(item, CATEGORICAL(item)) FROM sales", viewlet.SqlError, "twice", "item"),
        ("COFACTOR() FROM sales", viewlet.SqlError, "needs at least one variable", None),
        ("COFACTOR(1) FROM sales", viewlet.SqlError, "is a constant", None),
        ("COFACTOR(units, degree => 9) FROM sales", viewlet.SqlError, "degree is a number from 2 to 4, not 9", None),
        ("COFACTOR(units, grade => 2) FROM sales", viewlet.SqlError, "no option 'grade'", None),
        ("COFACTOR(units, degree => 2, degree => 3) FROM sales", viewlet.SqlError, "given twice", None),
        ("COFACTOR(units AS x, item AS x) FROM sales", viewlet.SqlError, "two variables .* called 'x'", None),
        ("COFACTOR(units, exact => 2) FROM sales", viewlet.SqlError, "exact is true or false", None),
        ("COFACTOR(units), COUNT(*) FROM sales", viewlet.UnsupportedError, "beside COFACTOR.*second view", None),
        ("COFACTOR(units), COFACTOR(item) FROM sales", viewlet.UnsupportedError, "beside COFACTOR", None),
        ("COFACTOR(units).count FROM sales", viewlet.UnsupportedError, "COFACTOR inside an expression", None),
        ("item, COFACTOR(units) FROM sales", viewlet.SqlError, "'item' must appear in GROUP BY", "item"),
        ("COFACTOR(SUM(units)) FROM sales", viewlet.SqlError, "an aggregate is not allowed", None),
        ("COFACTOR(units * price) FROM sales NATURAL JOIN items", viewlet.UnsupportedError, "several tables", None),
        ("COFACTOR(units) FROM sales NATURAL LEFT JOIN items", viewlet.UnsupportedError, "outer join", None),
        ("COFACTOR(units) FROM sales s JOIN items i ON s.item < i.item", viewlet.UnsupportedError, "condition", None),
        ("COFACTOR(units) FROM sales ORDER BY 1", viewlet.UnsupportedError, "ORDER BY with COFACTOR", None),
        ("COFACTOR(units) FROM sales LIMIT 1", viewlet.UnsupportedError, "LIMIT with COFACTOR", None),
        ("COFACTOR(units) FROM sales GROUP BY item HAVING item > 1", viewlet.UnsupportedError, "HAVING with", None),
        ("COFACTOR(item) FROM sales UNION ALL SELECT COFACTOR(item) FROM sales", viewlet.UnsupportedError, "set", None),
        ("COFACTOR(1)", viewlet.SqlError, "needs a FROM clause", None),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    select: str, error: type[Exception], message: str, fragment: str | None
) -> None:
    db = viewlet.connect()
    db.execute(SHOP)
    with pytest.raises(error, match=message) as refusal:
        db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT {select}")
    if fragment is not None:
        assert refusal.value.fragment == fragment  # type: ignore[attr-defined]
    assert db.views == ()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("strategy = 'first-order'", viewlet.UnsupportedError, "strategy 'first-order'.*are view trees"),
        ("variable_order = 'item('", viewlet.SchemaError, "a variable is expected before its end"),
        ("variable_order = 'item(shop'", viewlet.SchemaError, "the parenthesis after 'item' is not closed"),
        ("variable_order = 'item)'", viewlet.SchemaError, r"'\)' is not expected"),
        ("variable_order = 'item;'", viewlet.SchemaError, "';' cannot be read"),
        ("variable_order = ''", viewlet.SchemaError, "a variable is expected"),
        ("variable_order = 'itm(units, price)'", viewlet.SchemaError, "no relation.* has 'itm'; did you mean"),
        ("variable_order = 'item(units)'", viewlet.SchemaError, "the variable order lacks 'price'"),
        ("variable_order = 'item(units, price, units)'", viewlet.SchemaError, "'units' more than once"),
        ("variable_order = 'item, units, price'", viewlet.SchemaError, "must lie on one path"),
        ("ordering = 'item'", viewlet.SqlError, "unknown option 'ordering'"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(options: str, error: type[Exception], message: str) -> None:
    db = viewlet.connect()
    db.execute(SHOP)
    with pytest.raises(error, match=message):
        db.execute(
            f"CREATE MATERIALIZED VIEW m WITH ({options}) AS "
            "SELECT COFACTOR(units, price) FROM sales JOIN items USING (item)"
        )
    assert db.views == ()


@pytest.mark.parametrize("order", ["item(units, price)", "units(item(price))", 'PRICE("item"(units))'])
def test_any_valid_order_gives_the_same_sums(engine: str, order: str) -> None:
    twin = Twin(SHOP, engine)
    twin.db.execute(
        f"CREATE MATERIALIZED VIEW m WITH (strategy = 'view-tree', variable_order = '{order}') AS "
        "SELECT COFACTOR(units, price) FROM sales JOIN items USING (item)"
    )
    for _ in twin.churn(Random(1), {name: ROWS[name] for name in ("sales", "items")}, 4, 10):
        rows = twin.ask("SELECT units, price FROM sales JOIN items USING (item) WHERE price IS NOT NULL")
        assert_cofactor(twin.db.view("m").cofactor(), rows, ["units", "price"])


def test_other_views_have_no_cofactor_and_no_variable_order() -> None:
    db = viewlet.connect()
    db.execute(SHOP)
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM sales")
    with pytest.raises(viewlet.SchemaError, match="'n' is not a COFACTOR view"):
        db.view("n").cofactor()
    with pytest.raises(viewlet.UnsupportedError, match="variable_order for this view"):
        db.execute("CREATE MATERIALIZED VIEW o WITH (variable_order = 'a') AS SELECT COUNT(*) AS n FROM sales")
    with pytest.raises(viewlet.UnsupportedError, match="COFACTOR outside a view"):
        db.execute("SELECT COFACTOR(units) FROM sales")


def test_large_tables_decide_the_order() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE big (a BIGINT, b BIGINT); CREATE TABLE small (b BIGINT, c BIGINT)")
    db.insert("big", [(i, i % 7) for i in range(3000)])
    db.insert("small", [(i, i) for i in range(7)])
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(a, c) FROM big NATURAL JOIN small")
    assert db.view("m").cofactor().count == 3000
    np.testing.assert_allclose(db.view("m").cofactor().sums, [sum(range(3000)), sum(i % 7 for i in range(3000))])


def test_auto_compiles_a_busy_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 20)
    twin = Twin(SHOP, "auto")
    twin.db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT city, COFACTOR(units, price) AS c FROM {JOIN} GROUP BY city")
    twin.db.execute(f"CREATE MATERIALIZED VIEW e AS SELECT COFACTOR(units, exact => true) FROM {JOIN}")
    assert "it runs on the interpreter" in twin.db.explain("m", stage="code")
    for _ in twin.churn(Random(2), ROWS, 5, 10):
        rows = twin.ask(f"SELECT city, units, price FROM {JOIN} WHERE price IS NOT NULL")
        for city, table in twin.db.view("m").cofactor().items():
            assert_cofactor(table, [row[1:] for row in rows if row[0] == city], ["units", "price"])
        twin.db.settle()
    assert twin.db.view("m").stats()["engine"] == "compiled"
    assert "def " in twin.db.explain("m", stage="code")
    assert twin.db.view("e").stats()["engine"] == "interpreter"
    assert "in the compiled engine is not supported" in twin.db.explain("e", stage="engine")


def test_a_watched_view_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 5)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (x DOUBLE); CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x) FROM t")
    heard: list[Any] = []
    db.view("m").subscribe(lambda epoch, changes: heard.append(changes.to_pylist()))
    db.insert("t", [(float(i),) for i in range(10)])
    db.settle()
    db.insert("t", [(10.0,)])
    assert (db.view("m").stats()["engine"], db.view("m").cofactor().count) == ("compiled", 11)
    assert [[(row["c"]["count"], row["_multiplicity"]) for row in each] for each in map(_named, heard)] == [
        [(0, -1), (10, 1)],
        [(10, -1), (11, 1)],
    ]


def _named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes with `c` for the column of the payload, what goes before what comes."""
    named = [{"c" if isinstance(value, dict) else name: value for name, value in row.items()} for row in rows]
    return sorted(named, key=lambda row: int(row["_multiplicity"]))


@pytest.mark.parametrize("payload", ["COFACTOR(x, y)", "COFACTOR(x, CATEGORICAL(c))"])
@pytest.mark.parametrize("group", ["g", "g, c", ""])
def test_changes_of_groups_are_the_same_on_both_engines(payload: str, group: str) -> None:
    """Only the groups that a batch touches are read; refused batches tell nothing."""
    random, heard = Random(5), dict[str, list[list[str]]]()
    rows = [
        [(random.choice([None, 1, 2, 3]), random.choice(["a", "b", None]), float(random.randint(0, 3))) for _ in "12"]
        for _ in range(12)
    ]
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (g BIGINT, c VARCHAR, x DOUBLE); CREATE TABLE u (g BIGINT, y DOUBLE)")
        keys = f"{group}, " if group else ""
        by = f" GROUP BY {group}" if group else ""
        where = " WHERE c IS NOT NULL" if "CATEGORICAL" in payload else ""
        join = "t JOIN u USING (g)" if "y" in payload else "t"
        db.execute(f"CREATE MATERIALIZED VIEW m AS SELECT {keys}{payload} AS p FROM {join}{where}{by}")
        heard[engine] = []
        db.insert("u", [(1, 2.0), (2, 5.0), (2, 1.0)])
        db.view("m").subscribe(partial(_note, heard[engine]))
        for i, batch in enumerate(rows):
            db.insert("t", batch)
            with pytest.raises(viewlet.DataError):
                db.delete("t", [(7, "z", 1.0)])
            if i % 3 == 2:
                db.delete("t", rows[i - 1])
        db.delete("u", [(2, 5.0)])
    assert heard["compiled"] == heard["interpreter"]
    assert len(heard["compiled"]) > 5


def _note(heard: list[list[str]], epoch: int, changes: pa.Table) -> None:
    heard.append(sorted(map(str, changes.to_pylist())))


def test_a_compiled_view_is_compiled_when_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """All functions that changes need have been called, on no rows."""
    called: list[Any] = []
    run = ModuleInstance.run
    monkeypatch.setattr("viewlet.codegen.rings.compiled_tree.ENABLED", True)

    def noted(self: ModuleInstance, function: Any, *given: Any) -> Any:
        called.append(function)
        return run(self, function, *given)

    monkeypatch.setattr(ModuleInstance, "run", noted)
    db = viewlet.connect(engine="compiled")
    db.execute(
        "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT, a BIGINT)"
    )
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(a, b, c) FROM r NATURAL JOIN s NATURAL JOIN t")
    declared = set(called)
    db.apply({name: [(1, 1), (1, 2)] for name in "rst"})
    assert declared == set(called)
    assert len(declared) > 3
    assert db.view("m").cofactor().count == 1


def test_what_has_no_compiled_form_says_so() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (x DOUBLE)")
    with pytest.raises(viewlet.UnsupportedError, match=r"'m' in the compiled engine.*engine='interpreter'"):
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(x, exact => true) FROM t")
    assert db.views == ()


def test_values_that_stand_for_null_are_refused_by_the_compiled_engine() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (g BIGINT, b BOOLEAN, x DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, b, COFACTOR(x) AS c FROM t GROUP BY g, b")
    db.insert("t", [(None, None, 1.0), (1, True, 2.0), (1, False, 2.5), (None, None, 4.0)])
    found = {group: table.sums.tolist() for group, table in db.view("m").cofactor().items()}
    assert found == {(None, None): [5.0], (1, True): [2.0], (1, False): [2.5]}
    with pytest.raises(viewlet.DataError, match="stands for NULL"):
        db.insert("t", [(-(2**63), True, 1.0)])
    assert db.view("m").cofactor()[1, True].count == 1


def test_columns_go_to_a_compiled_tree_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = """
    CREATE STREAM t (k BIGINT, g VARCHAR, b BOOLEAN, day DATE, x DOUBLE, y DECIMAL(9,2), r REAL, n INTEGER);
    CREATE TABLE u (k BIGINT, z DOUBLE);
    CREATE MATERIALIZED VIEW m AS
        SELECT g, b, r, COFACTOR(x, y, z, CATEGORICAL(day)) AS c FROM t NATURAL JOIN u GROUP BY g, b, r;
    CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM t NATURAL JOIN u;
    CREATE MATERIALIZED VIEW s AS SELECT a.g, COFACTOR(a.x, b.n) AS c FROM t a JOIN t b USING (k) GROUP BY a.g;
    """
    random = Random(9)
    dbs = [viewlet.connect(engine=engine) for engine in ENGINES]
    taken: list[int] = []
    original = GeneratedTree.add_columns

    def noted(self: GeneratedTree, projection: Any, change: ColumnChange) -> None:
        taken.append(len(change))
        original(self, projection, change)

    monkeypatch.setattr(GeneratedTree, "add_columns", noted)
    for db in dbs:
        db.execute(schema)
        db.insert("u", [(1, 2.0), (2, 0.5), (None, 9.0)])
    for _ in range(4):
        rows = [
            {
                "k": random.choice([None, 1, 2, 3]),
                "g": random.choice([None, "a", "b"]),
                "b": random.choice([None, True, False]),
                "day": random.choice([None, date(2026, 1, 2), date(2026, 1, 3)]),
                "x": random.choice([None, 1.5, 2.0]),
                "y": random.choice([None, Decimal("1.25"), Decimal("3.00")]),
                "r": random.choice([None, 0.5]),
                "n": random.choice([None, 7]),
                "_multiplicity": 1,
            }
            for _ in range(12)
        ]
        table = pa.Table.from_pylist(rows, schema=COLUMNS)
        for db in dbs:
            db.apply({"t": table})
        first, second = ([db.view(name).rows() for name in ("m", "s")] for db in dbs)
        assert first == second
        assert multiset(dbs[0].view("j").rows()) == multiset(dbs[1].view("j").rows())
    assert sum(taken) == 4 * 12 * 4  # one of the three views reads the table twice
    for db in dbs:
        db.delete("t", table.drop_columns(["_multiplicity"]))
    assert dbs[0].view("m").rows() == dbs[1].view("m").rows()


COLUMNS = pa.schema(
    {
        "k": pa.int64(),
        "g": pa.string(),
        "b": pa.bool_(),
        "day": pa.date32(),
        "x": pa.float64(),
        "y": pa.decimal128(9, 2),
        "r": pa.float32(),
        "n": pa.int32(),
        "_multiplicity": pa.int64(),
    }
)
