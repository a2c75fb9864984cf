"""Changes that are products: the same as their rows, for every view, and not multiplied out for those over rings."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.api.ring_oracle import multiset

SCHEMA = """
CREATE {kind} sales (shop BIGINT, item BIGINT, day DATE, units INTEGER);
CREATE TABLE shops (shop BIGINT, city VARCHAR);
CREATE TABLE items (item BIGINT, price DOUBLE);
CREATE MATERIALIZED VIEW m AS
    SELECT COFACTOR(units, price, CATEGORICAL(city)) FROM sales NATURAL JOIN shops NATURAL JOIN items WHERE shop < 90;
CREATE MATERIALIZED VIEW g AS SELECT city, COFACTOR(units, price) AS c
    FROM sales NATURAL JOIN shops NATURAL JOIN items WHERE units + item < 40 GROUP BY city;
CREATE MATERIALIZED VIEW j AS SELECT FACTORIZED * FROM sales NATURAL JOIN shops NATURAL JOIN items;
"""
PLAIN = "CREATE MATERIALIZED VIEW p AS SELECT item, SUM(units) AS n FROM sales GROUP BY item"
SHOPS = [(i, "Rome" if i % 2 else "Oslo") for i in range(4)]
ITEMS = [(i, i / 4) for i in range(4)]


def opened(kind: str, plain: bool = False, path: Path | None = None, engine: str = "interpreter") -> viewlet.Connection:
    db = viewlet.connect(path, engine=engine)
    db.execute(SCHEMA.format(kind=kind) + (PLAIN if plain else ""))
    db.apply({"shops": SHOPS, "items": ITEMS})
    return db


def state(db: viewlet.Connection) -> tuple[Any, ...]:
    plain = db.view("p").rows() if "p" in db.views else None
    return db.view("m").rows(), db.view("g").rows(), multiset(db.view("j").rows()), plain


def product_and_rows(random: Random) -> tuple[Any, list[tuple[Any, ...]]]:
    """A product with its rows; the columns are cut into factors by chance."""
    shops = random.sample(range(5), 2)
    pairs = [(item, random.randrange(9)) for item in random.sample(range(6), 5)]
    day = random.choice([None, "2026-01-02"])
    factors: list[Any] = [
        {"shop": shops},
        random.choice(
            [
                {"item": [item for item, _ in pairs], "units": [units for _, units in pairs]},
                [{"ITEM": item, "units": units} for item, units in pairs],
                pa.table({"units": [units for _, units in pairs], "item": [item for item, _ in pairs]}),
            ]
        ),
    ]
    if day is not None:
        factors.append({"day": [day]})
    random.shuffle(factors)
    return viewlet.product(*factors), [(shop, item, day, units) for shop in shops for item, units in pairs]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_products_mean_their_rows(kind: str, plain: bool, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.codegen.rings.generated_tree.MULTIPLIED_OUT", 0)
    random = Random(1)
    by_products, by_rows = opened(kind, plain, engine=engine), opened(kind, plain)
    done: list[tuple[Any, list[tuple[Any, ...]]]] = []
    for _ in range(6):
        some = [product_and_rows(random) for _ in range(random.randrange(1, 3))]
        by_products.apply({"sales": [product for product, _ in some]})
        by_rows.apply({"sales": [row for _, rows in some for row in rows]})
        done += some
        assert state(by_products) == state(by_rows)
    for product, rows in done[::2]:
        by_products.delete("sales", product)
        by_rows.delete("sales", rows)
        assert state(by_products) == state(by_rows)
    assert by_products.epoch == 7 + len(done[::2])
    if kind == "TABLE":
        assert by_products.table("sales").rows() == by_rows.table("sales").rows()


@pytest.mark.parametrize(("engine", "many"), [("interpreter", 1000), ("compiled", 60)])
def test_a_stream_under_rings_is_never_multiplied_out(engine: str, many: int) -> None:
    db = opened("STREAM", engine=engine)
    pairs = viewlet.product({"shop": range(many)}, {"item": range(many)}, {"units": [1]})
    db.execute("DROP VIEW g; DROP VIEW j")
    db.insert("sales", pairs)
    assert db.view("m").cofactor().count == 16
    assert db.view("m").stats()["tuples"] < 2 * many + 100  # type: ignore[operator]
    db.apply({"sales": viewlet.product(*pairs.factors, multiplicity=-1)})
    assert db.view("m").cofactor().count == 0


def test_products_are_found_in_rows() -> None:
    db = opened("STREAM", plain=True)
    rows = [(shop, item, None, 2) for shop in range(40) for item in range(30)]
    db.insert("sales", viewlet.as_products(rows))
    assert db.view("m").stats()["tuples"] < 100  # type: ignore[operator]
    assert db.view("p").rows() == [(item, 80) for item in range(30)]
    db.apply({"sales": viewlet.as_products([{"shop": 1, "item": 1, "units": 2, "_multiplicity": -1}])})
    assert db.view("p").rows()[1] == (1, 78)
    db.insert("sales", viewlet.as_products([]))
    assert db.epoch == 3


def test_subscribers_hear_of_products() -> None:
    db = opened("STREAM")
    heard: list[Any] = []
    db.view("g").subscribe(lambda epoch, changes: heard.append(changes.to_pylist()))
    db.insert("sales", viewlet.product({"shop": [1, 3]}, {"item": [1, 2], "units": [1, 2]}))
    assert [(row["city"], row["c"]["count"], row["_multiplicity"]) for row in heard[0]] == [("Rome", 4, 1)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_a_failed_batch_takes_products_back(kind: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db = opened(kind, plain=True, engine=engine)
    db.insert("sales", viewlet.product({"shop": [1, 2]}, {"item": [1], "units": [3]}))
    before = state(db)
    with db._session.open() as database:
        monkeypatch.setattr(type(database.journal), "batch", _full_disk)
        with pytest.raises(viewlet.StateError):
            db.insert("sales", viewlet.product({"shop": [1, 3]}, {"item": [1, 2], "units": [5, 6]}))
        monkeypatch.undo()
    assert state(db) == before
    assert db.epoch == 2


def _full_disk(*args: object) -> None:
    raise viewlet.StateError("no space left")


def test_products_are_logged(tmp_path: Path) -> None:
    for kind in ("TABLE", "STREAM"):
        db = opened(kind, path=tmp_path / kind)
        db.insert("sales", viewlet.product({"shop": [1, 2]}, {"item": [1, 2], "units": [3, 4]}))
        before = state(db)
        db._session.database().journal.storage.close()  # type: ignore[attr-defined] # as a crash would: no snapshot
        with viewlet.connect(tmp_path / kind) as again:
            assert state(again) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: viewlet.product(), "at least one factor"),
        (lambda: viewlet.product({"shop": [1]}, multiplicity=1.5), "a multiplicity is an integer"),
        (lambda: viewlet.product({"shop": [1]}, {"shop": [2]}), "'shop' is in factor 1 and in factor 2"),
        (lambda: viewlet.product({"shop": [1], "item": [1, 2]}), "different lengths"),
        (lambda: viewlet.product({"shp": [1]}), "no column 'shp'; did you mean 'shop'"),
        (lambda: viewlet.product({"shop": ["one"]}), "expected an integer"),
        (lambda: viewlet.product([(1, 2)]), "a factor names its columns"),
        (lambda: viewlet.product({"units": [1]}, multiplicity=-1), "hand it to apply"),
        (lambda: [viewlet.product({"shop": [1]}), (1, 2, None, 3)], "has only products in it"),
        (lambda: viewlet.product({"shop": [1], "_multiplicity": [2]}), "hand them to apply"),
    ],
)
def test_wrong_products_are_refused(make: Any, message: str) -> None:
    db = opened("TABLE")
    with pytest.raises(viewlet.DataError, match=message):
        db.insert("sales", make())
    assert db.epoch == 1


def test_tables_check_the_rows_of_products() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT NOT NULL, PRIMARY KEY (a, b))")
    with pytest.raises(viewlet.DataError, match="b is missing, and it cannot be NULL"):
        db.insert("t", viewlet.product({"a": [1]}))
    db.insert("t", viewlet.product({"a": [1, 2]}, {"b": [1, 2]}))
    with pytest.raises(viewlet.DataError, match="duplicate key"):
        db.insert("t", viewlet.product({"a": [2, 3]}, {"b": [2]}))
    with pytest.raises(viewlet.DataError, match="it is not there"):
        db.delete("t", viewlet.product({"a": [2]}, {"b": [2, 3]}))
    db.insert("t", viewlet.product({"a": []}, {"b": [7]}))
    assert (db.epoch, len(db.table("t"))) == (1, 4)


def test_in_partitions_products_are_their_rows(tmp_path: Path) -> None:
    from viewlet.connection.spark_facade import connect_inline

    db = connect_inline(tmp_path / "db", 2)
    db.execute("CREATE TABLE t (k BIGINT, a BIGINT); CREATE MATERIALIZED VIEW s AS SELECT SUM(a) AS s FROM t")
    db.execute("CREATE MATERIALIZED VIEW m AS SELECT COFACTOR(a) FROM t")
    db.insert("t", viewlet.product({"k": [1, 2]}, {"a": [3]}))
    db.insert("t", viewlet.as_products([(1, 4), (2, 4)]))
    assert db.view("s").rows() == [(14,)]
    assert (db.view("m").cofactor().count, db.view("m").cofactor().matrix.tolist()) == (4, [[50.0]])
    db.close()
