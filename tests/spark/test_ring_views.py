"""COFACTOR and FACTORIZED views on Spark: what partitions know together is what one process knows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewlet
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.execution.cluster import InlineCluster
from viewlet.spark.run.execution.tasks import RunStage
from viewlet.spark.run.state import partition
from viewlet.spark.run.state.partition import forget
from viewlet.viewtree.ring_plan import Projection

SCHEMA = """
CREATE {kind} sales (shop BIGINT, item BIGINT, units INTEGER, day DATE);
CREATE {kind} shops (shop BIGINT, city VARCHAR);
CREATE {kind} items (item BIGINT, price DOUBLE);
CREATE {kind} edges (source BIGINT, target BIGINT, weight DOUBLE);
"""
VIEWS = {
    "plain": "SELECT COFACTOR(units, price) FROM sales NATURAL JOIN items",
    "categories": "SELECT COFACTOR(units, price * 2 AS gross, CATEGORICAL(city), CATEGORICAL(day)) "
    "FROM sales NATURAL JOIN shops NATURAL JOIN items WHERE units > 1",
    "groups": "SELECT city, shop, COFACTOR(units, price) AS sums FROM sales NATURAL JOIN shops NATURAL JOIN items "
    "GROUP BY city, shop",
    "cubes": "SELECT COFACTOR(units, price, degree => 3) FROM sales NATURAL JOIN items",
    "single": "SELECT day, COFACTOR(units) AS sums FROM sales GROUP BY day",
    "paths": "SELECT COFACTOR(a.weight AS x, b.weight AS y) FROM edges a JOIN edges b ON a.target = b.source",
    "triangles": "SELECT COFACTOR(a.weight AS x, b.weight AS y, c.weight AS z) FROM edges a "
    "JOIN edges b ON a.target = b.source JOIN edges c ON b.target = c.source AND c.target = a.source",
    "rows": "SELECT FACTORIZED * FROM sales NATURAL JOIN shops NATURAL JOIN items",
    "few": "SELECT FACTORIZED city, units FROM sales NATURAL JOIN shops",
}
FACTORISED = ("rows", "few")
Changes = dict[str, list[dict[str, Any]]]


def schema(kind: str = "TABLE", views: dict[str, str] = VIEWS) -> str:
    declared = (f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in views.items())
    return SCHEMA.format(kind=kind) + "\n".join(declared)


def batches(seed: int, count: int) -> Iterator[Changes]:
    """Random rows, some of which are deleted again later."""
    chance = random.Random(seed)
    there: dict[str, list[dict[str, Any]]] = {name: [] for name in ("sales", "shops", "items", "edges")}

    def some(values: int) -> int | None:
        return chance.choice([None, *range(values)]) if chance.random() < 0.2 else chance.randrange(values)

    def row(table: str) -> dict[str, Any]:
        if table == "sales":
            day = chance.choice(["2026-01-01", "2026-02-03", None])
            return {"shop": some(5), "item": some(6), "units": some(4), "day": day}
        if table == "shops":
            return {"shop": some(5), "city": chance.choice(["Rome", "Oslo", None])}
        if table == "items":
            return {"item": some(6), "price": chance.choice([0.5, 2.25, 1e6, None])}
        return {"source": some(6), "target": some(6), "weight": chance.choice([1.0, 2.5])}

    for _ in range(count):
        batch: Changes = {}
        for table in chance.sample(list(there), chance.randint(1, 4)):
            known = there[table]
            gone = [known.pop(chance.randrange(len(known))) for _ in range(chance.randint(0, len(known) // 3))]
            come = [row(table) for _ in range(chance.randint(1, 8))]
            known += come
            batch[table] = [each | {"_multiplicity": -1} for each in gone]
            batch[table] += [each | {"_multiplicity": 1} for each in come]
        yield batch


def same_table(found: Any, expected: Any) -> None:
    assert (found.variables, found.count) == (expected.variables, expected.count)
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-9, atol=1e-9)


def same(db: viewlet.Connection, reference: viewlet.Connection) -> None:
    for name in db.views:
        found, expected = db.view(name), reference.view(name)
        if name in FACTORISED:
            assert Counter(found.rows()) == Counter(expected.rows())
            assert len(found) == len(expected)
        elif isinstance(expected.cofactor(), dict):
            assert list(found.cofactor()) == list(expected.cofactor())
            for key, table in found.cofactor().items():
                same_table(table, expected.cofactor()[key])
        else:
            same_table(found.cofactor(), expected.cofactor())


def in_process(views: dict[str, str] = VIEWS) -> viewlet.Connection:
    reference = viewlet.connect(engine="interpreter")
    reference.execute(schema(views=views))
    return reference


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_handles_read_what_partitions_know_together(engine: str, tmp_path: Path) -> None:
    """The conformance suite compares the contents of the views."""
    reference = in_process()
    with connect_inline(tmp_path / "db", 2, sync=False, engine=engine) as db:
        db.execute(schema())
        for batch in batches(2, 6):
            db.apply(batch)
            reference.apply(batch)
        same(db, reference)
        assert db.view("rows").aggregate("sum", "price") == pytest.approx(
            reference.view("rows").aggregate("sum", "price")
        )
        assert db.view("rows").aggregate("avg", "units", "shop") == reference.view("rows").aggregate(
            "avg", "units", "shop"
        )
        assert db.view("groups").rows() == reference.view("groups").rows()
        assert db.execute("SELECT COUNT(*) AS n FROM rows").to_pylist() == [{"n": len(reference.view("rows"))}]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_database_goes_on_where_it_was(engine: str, kind: str, tmp_path: Path) -> None:
    """From the log alone, from a snapshot alone, and from both, in processes that know nothing."""
    reference = in_process()
    changes = list(batches(5, 9))
    for i, batch in enumerate(changes):
        with connect_inline(tmp_path / "db", 3, sync=False, engine=engine if i != 6 else "auto") as db:
            if not i:
                db.execute(schema(kind))
            db.apply(batch)
            reference.apply(batch)
            if i in (2, 4):
                db.checkpoint()
            if i % 2:
                forget()
            same(db, reference)
        forget()


def test_views_over_tables_are_filled_and_dropped_and_replaced(tmp_path: Path) -> None:
    reference, changes = in_process(), list(batches(8, 6))
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        db.execute(schema(views={}))
        for batch in changes[:4]:
            db.apply(batch)
            reference.apply(batch)
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        same(db, reference)
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW groups AS {VIEWS['groups']}; DROP VIEW plain")
        db.apply(changes[4])
        reference.apply(changes[4])
        db.execute(f"CREATE MATERIALIZED VIEW plain AS {VIEWS['plain']}")
        same(db, reference)
    forget()
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        db.apply(changes[5])
        reference.apply(changes[5])
        same(db, reference)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_refused_batch_leaves_everything_as_it_was(engine: str, tmp_path: Path) -> None:
    reference = in_process()
    with connect_inline(tmp_path / "db", 3, sync=False, engine=engine) as db:
        db.execute(schema())
        for batch in batches(3, 4):
            db.apply(batch)
            reference.apply(batch)
            absent = {"shop": 1, "item": 77, "units": 1, "day": None, "_multiplicity": -1}
            with pytest.raises(viewlet.DataError, match="cannot delete"):
                db.apply({**batch, "sales": [{**absent, "item": 1, "_multiplicity": 1}, absent]})
            same(db, reference)


def test_subscribers_are_told_the_changes_of_groups(tmp_path: Path) -> None:
    told: list[Any] = []
    with connect_inline(tmp_path / "db", 3, sync=False) as db:
        db.execute(schema(views={"single": VIEWS["single"]}))
        db.view("single").subscribe(lambda epoch, changes: told.append(changes.to_pylist()))
        db.insert("sales", [(1, 1, 2, "2026-01-01"), (2, 1, 3, "2026-01-01")])
        db.delete("sales", [(1, 1, 2, "2026-01-01")])
        db.insert("items", [(1, 1.0)])
    counts = [[(row["sums"]["count"], row["_multiplicity"]) for row in changes] for changes in told]
    assert counts == [[(2, 1)], [(1, 1), (2, -1)]]


def split_of(db: SparkConnection, name: str) -> dict[str, str]:
    return db.view(name).stats()["homes"]  # type: ignore[return-value]


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_partitions_have_their_own_origins(engine: str, tmp_path: Path) -> None:
    """Sums of values far from zero lose nothing, though each partition chooses about what number they are."""
    chance, rows = random.Random(5), list[tuple[int, int, float]]()
    for part in range(3):
        with connect_inline(tmp_path / "db", 2, sync=False, engine=engine) as db:
            if not part:
                db.execute("CREATE STREAM s (k BIGINT, at BIGINT, x DOUBLE); CREATE TABLE d (k BIGINT)")
                db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(at, x) FROM s NATURAL JOIN d")
                db.insert("d", [(k,) for k in range(6)])
            for _ in range(2):
                come = [(k, 7 * 10**12 + 100 * k + chance.randrange(9), -1e8 + chance.gauss(0, 1)) for k in range(6)]
                db.insert("s", come)
                rows += come
            if part == 1:
                db.checkpoint()
            found = db.view("m").cofactor()
            near = np.array([(at - 7 * 10**12, x + 1e8) for _, at, x in rows])
            assert found.sums.tolist() == pytest.approx(
                [sum(at for _, at, _ in rows), sum(x for *_, x in rows)], rel=1e-15
            )
            np.testing.assert_allclose(found.centred, np.cov(near.T, ddof=0) * len(rows), rtol=1e-10)


def test_trees_are_split_by_what_saves_most_copies(tmp_path: Path) -> None:
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        db.execute(SCHEMA.format(kind="STREAM"))
        join = "SELECT city, COFACTOR(units, price) AS c FROM sales NATURAL JOIN shops NATURAL JOIN items GROUP BY city"
        db.expect_rows({"sales": 1e6, "shops": 10, "items": 1e5})
        db.execute(f"CREATE MATERIALIZED VIEW by_item AS {join}")
        assert split_of(db, "by_item") == {"sales": "[item]", "shops": "replicated", "items": "[item]"}
        db.execute(f"CREATE MATERIALIZED VIEW by_city PARTITION BY (city) AS {join}")
        assert split_of(db, "by_city") == {"sales": "replicated", "shops": "[city]", "items": "replicated"}
        db.partition_by("sales", "shop")
        db.execute(f"CREATE MATERIALIZED VIEW by_shop AS {join}")
        assert split_of(db, "by_shop") == {"sales": "[shop]", "shops": "[shop]", "items": "replicated"}
        text = db.explain("by_item", stage="view-tree")
        assert text.startswith("view tree split by item: sales, items; shops at every partition\nvariable order ")
        assert "one stage of all partitions" in db.explain("by_item", stage="spark")
        assert db.view("by_item").draw().startswith("<svg")
        db.apply({"sales": [(1, 2, 3, None)], "shops": [(1, "Rome")], "items": [(2, 0.5)]})
        assert {name: db.view(name).cofactor()["Rome"].count for name in db.views} == dict.fromkeys(db.views, 1)
        assert db.stats()["batches"][-1]["stages"] == 1  # type: ignore[index]


def test_what_trees_cannot_do_is_said(tmp_path: Path) -> None:
    with connect_inline(tmp_path / "db", 2, sync=False) as db:
        db.execute(
            schema(views={"single": VIEWS["single"], "total": "SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop"})
        )
        with pytest.raises(viewlet.UnsupportedError, match="view over view 'total' on Spark"):
            db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(n) FROM total")
        with pytest.raises(viewlet.UnsupportedError, match="a view over 'single'"):
            db.execute("CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS n FROM single")
        with pytest.raises(viewlet.SchemaError, match="PARTITION BY c"):
            db.execute("CREATE MATERIALIZED VIEW m PARTITION BY (c) AS SELECT COFACTOR(units) AS c FROM sales")
        db.execute(f"CREATE MATERIALIZED VIEW few AS {VIEWS['few']}")
        with pytest.raises(viewlet.UnsupportedError, match="FACTORIZED"):
            db.view("few").subscribe(lambda epoch, changes: None)
        assert db.views == ("single", "total", "few")


def test_a_model_reads_a_spread_view(tmp_path: Path) -> None:
    from viewlet.ml import RidgeRegression

    rng = random.Random(4)
    rows = {
        "sales": [(rng.randrange(9), rng.randrange(9), rng.randrange(50), None) for _ in range(200)],
        "items": [(i, rng.random()) for i in range(9)],
    }
    models = []
    with connect_inline(tmp_path / "db", 4, sync=False) as db:
        for each in (db, viewlet.connect()):
            each.execute(schema(views={"plain": VIEWS["plain"]}))
            each.apply(rows)
            models.append(RidgeRegression("units").fit(each.view("plain")))
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9)


def test_trees_on_spark_itself(spark: Any, tmp_path: Path) -> None:
    """Rows come in data frames and otherwise; the second connection finds the state of the first."""
    views = {name: VIEWS[name] for name in ("groups", "triangles", "rows")}
    reference = in_process(views)
    edges = [(i, (i * 3 + j) % 7, float(j)) for i in range(7) for j in range(3)]
    sales = [(i % 4, i % 5, i % 6, "2026-01-01" if i % 2 else None) for i in range(60)]
    sold = spark.createDataFrame(sales, "shop long, item long, units int, day string")
    sold = sold.selectExpr("shop", "item", "units", "CAST(day AS DATE) AS day")
    others = {"shops": [(i, "Rome" if i % 2 else "Oslo") for i in range(4)], "items": [(i, i / 4) for i in range(5)]}
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db", partitions=2) as db:
        db.execute(schema(views=views))
        db.apply({"sales": sold})
        db.apply({**others, "edges": edges})
        reference.apply({**others, "edges": edges, "sales": sales})
        same(db, reference)
        db.checkpoint()
        for each in (db, reference):
            each.delete("sales", sales[:20])
    with viewlet.connect(spark=spark, checkpoint=tmp_path / "db") as db:
        for each in (db, reference):
            each.delete("edges", edges[:5])
        same(db, reference)
        sums = [each.view("rows").aggregate("sum", "units", "price") for each in (db, reference)]
        assert sums[0] == pytest.approx(sums[1])
        frame = db.view("rows").to_spark()
        assert frame.count() == len(reference.view("rows"))
        assert Counter(map(tuple, frame.collect())) == Counter(reference.view("rows").rows())
        rome = db.view("rows").to_spark(["units", "city"], where="city = 'Rome'")
        expected = Counter((row[2], row[4]) for row in reference.view("rows").rows() if row[4] == "Rome")
        assert Counter(map(tuple, rome.collect())) == expected
        assert rome.count() == expected.total() > 0


class Halfway(InlineCluster):
    """A cluster that is lost, when asked to, after half of the partitions have done their part of a stage."""

    is_lost = False

    def run(self, task: Any, payloads: Any, what: str, partitions: Any = None) -> list[Any]:
        if self.is_lost and isinstance(task, RunStage):
            for number in range(len(payloads) // 2):
                task(number, payloads[number])
            raise ConnectionError(what)
        return super().run(task, payloads, what, partitions)


@pytest.mark.parametrize("forgetful", [False, True])
def test_trees_in_files_are_rolled_back_by_whoever_has_them_next(
    forgetful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that nor what follows reads the log of batches: the files have all that it takes."""
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    reference = in_process()
    with connect_inline(tmp_path / "db", 4, sync=False, engine="compiled") as db:
        db.execute(schema("STREAM"))
        db._host.cluster.cluster = cluster = Halfway()
        for number, batch in enumerate(batches(11, 6)):
            if number:
                monkeypatch.setattr(partition, "read_delivery", None)
            cluster.is_lost = True
            with pytest.raises(ConnectionError):
                db.apply(batch)
            cluster.is_lost = False
            if forgetful:
                forget()
            same(db, reference)
            for each in (db, reference):
                each.apply(batch)
            if forgetful:
                forget()
            same(db, reference)
        monkeypatch.undo()
    forget()


SHAPES = """
CREATE STREAM facts (k BIGINT NOT NULL, name VARCHAR, paid DECIMAL(9,2), size REAL, sent BOOLEAN, day TIMESTAMP);
CREATE STREAM names (name VARCHAR, rate DOUBLE NOT NULL);
"""


def test_columns_of_all_types_against_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow batches stay columns up to the trees; NULLs, strings and decimals are those of the tables."""
    monkeypatch.setattr("viewlet.spark.run.units.flat_tree_node.COMPUTED_FROM", 0)
    monkeypatch.setattr(Projection, "counted", lambda *_: pytest.fail("rows were made"))
    monkeypatch.setattr("viewlet.changes.arrow_reader.FEW_ROWS", 0)
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    join = "facts JOIN names USING (name)"
    views = {
        "sums": f"SELECT COFACTOR(paid, size, rate) AS c FROM {join}",
        "groups": "SELECT sent, name, COFACTOR(paid) AS c FROM facts GROUP BY sent, name",
        "rows": f"SELECT FACTORIZED k, name, paid, sent, day, rate FROM {join}",
        "doubles": f"SELECT FACTORIZED name, CAST(paid AS DOUBLE) AS p, rate FROM {join}",
        "large": "SELECT COFACTOR(paid) AS c FROM facts WHERE paid > 1",
        "computed": f"SELECT FACTORIZED UPPER(name) AS u, k + 1 AS next, rate * 2 AS r FROM {join} WHERE NOT sent",
    }
    random = np.random.default_rng(3)
    oracle = duckdb.connect()
    oracle.execute(SHAPES.replace("STREAM", "TABLE"))
    there: list[dict[str, Any]] = []
    with connect_inline(tmp_path / "db", 3, sync=False, engine="compiled") as db:
        db.execute(SHAPES)
        for name, query in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert db._host.cluster.takes_columns("facts") == {0, 1, 2, 3, 4, 5}
        names = [{"name": name, "rate": i / 4} for i, name in enumerate(["ada", "bob", None, "ä"])]
        db.insert("names", pa.Table.from_pylist(names))
        oracle.executemany("INSERT INTO names VALUES ($name, $rate)", names)
        for _ in range(4):
            come = [_fact(random) for _ in range(25)]
            gone = [there.pop(int(random.integers(len(there)))) for _ in range(len(there) // 3)]
            there += come
            weights = pa.array([1] * len(come) + [-1] * len(gone))
            batch = pa.Table.from_pylist(come + gone, facts_schema()).append_column("_multiplicity", weights)
            db.apply({"facts": batch})
            oracle.execute("DELETE FROM facts")
            oracle.register("present", pa.Table.from_pylist(there, facts_schema()))
            oracle.execute("INSERT INTO facts SELECT * FROM present")
            _same_as_duckdb(db, oracle, join)
            if len(there) > 40:
                db.checkpoint()
                forget()
    forget()


def facts_schema() -> Any:
    import pyarrow as pa

    types = [pa.int64(), pa.string(), pa.decimal128(9, 2), pa.float32(), pa.bool_(), pa.timestamp("us")]
    return pa.schema(list(zip(("k", "name", "paid", "size", "sent", "day"), types, strict=True)))


def _fact(random: np.random.Generator) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    return {
        "k": int(random.integers(5)),
        "name": maybe(["ada", "bob", "cyd", "ä"][random.integers(4)]),
        "paid": maybe(Decimal(int(random.integers(-500, 500))) / 100),
        "size": maybe(float(random.integers(8)) / 4),
        "sent": maybe(bool(random.integers(2))),
        "day": maybe(datetime(2026, 1, 1 + int(random.integers(3)))),
    }


def _same_as_duckdb(db: SparkConnection, oracle: Any, join: str) -> None:
    def numbers(*names: str) -> str:
        products = [f"SUM({a} * {b})" for i, a in enumerate(names) for b in names[i:]]
        return ", ".join(
            [f"COALESCE(CAST({each} AS DOUBLE), 0)" for each in (*map("SUM({})".format, names), *products)]
        )

    def flat(table: Any) -> list[float]:
        places = np.triu_indices(len(table.sums))
        return [table.count, *table.sums, *table.matrix[places]]

    complete = "paid IS NOT NULL AND size IS NOT NULL"
    cast = f"(SELECT CAST(paid AS DOUBLE) AS p, size AS s, rate AS r FROM {join} WHERE {complete})"
    expected = oracle.execute(f"SELECT COUNT(*), {numbers('p', 's', 'r')} FROM {cast}").fetchone()
    assert flat(db.view("sums").cofactor()) == pytest.approx(list(expected))
    inner = "(SELECT sent, name, CAST(paid AS DOUBLE) AS p FROM facts WHERE paid IS NOT NULL)"
    groups = oracle.execute(f"SELECT sent, name, COUNT(*), {numbers('p')} FROM {inner} GROUP BY ALL").fetchall()
    found = db.view("groups").cofactor()
    assert {key: flat(each) for key, each in found.items()} == {
        (sent, name): pytest.approx(rest) for sent, name, *rest in groups
    }
    expected = oracle.execute(f"SELECT COUNT(*), {numbers('p')} FROM {inner} WHERE p > 1").fetchone()
    assert flat(db.view("large").cofactor()) == pytest.approx(list(expected))
    computed = oracle.execute(f"SELECT UPPER(name), k + 1, rate * 2 FROM {join} WHERE NOT sent").fetchall()
    assert Counter(db.view("computed").rows()) == Counter(computed)
    for view, columns in (("rows", "k, name, paid, sent, day, rate"), ("doubles", "name, CAST(paid AS DOUBLE), rate")):
        assert Counter(db.view(view).rows()) == Counter(oracle.execute(f"SELECT {columns} FROM {join}").fetchall())
