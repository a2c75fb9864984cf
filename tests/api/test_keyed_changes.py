"""upsert() and deletes by key, against a dictionary; what they leave in views, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import DataError, SchemaError

TABLE = "CREATE TABLE t (k BIGINT, g VARCHAR, v DECIMAL(8,2), PRIMARY KEY (g, k))"
VIEW = "CREATE MATERIALIZED VIEW w AS SELECT v, COUNT(*) AS n FROM t GROUP BY v"


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("form", ["tuples", "dicts", "arrow", "pandas", "polars", "generator"])
def test_random_changes(engine: str, form: str, tmp_path: Path) -> None:
    chance, model = random.Random(f"{engine}{form}"), dict[tuple[int, str], Decimal | None]()
    db = viewlet.connect(tmp_path / "d" if form == "tuples" else None, engine=engine)
    db.execute(f"{TABLE}; {VIEW}")
    for size in [3, 0, 5000, *([40] * 20)]:
        rows = [
            (
                chance.randrange(max(30, size // 2)),
                chance.choice("ab"),
                chance.choice([None, Decimal(chance.randrange(9))]),
            )
            for _ in range(size)
        ]
        db.upsert("t", given(rows, form))
        model.update({row[:2]: row[2] for row in rows})
        gone = chance.sample(sorted(model), min(len(model), 5))
        db.delete("t", keys=[(g, k) for k, g in gone])
        for key in gone:
            del model[key]
        assert sorted(db.table("t").rows(), key=repr) == sorted(((*key, v) for key, v in model.items()), key=repr)
        assert dict(db.view("w").rows()) == Counter(model.values())


def given(rows: list[Any], form: str) -> Any:
    columns = {name: [row[i] for row in rows] for i, name in enumerate("kgv")}
    schema = pa.schema([("k", pa.int64()), ("g", pa.string()), ("v", pa.decimal128(8, 2))])
    match form:
        case "dicts":
            return [dict(zip("kgv", row, strict=True)) for row in rows]
        case "arrow":
            return pa.table(columns, schema)
        case "pandas":
            return pa.table(columns, schema).to_pandas(types_mapper=pd.ArrowDtype)
        case "polars":
            return pl.from_arrow(pa.table(columns, schema))
        case "generator":
            return iter(rows)
        case _:
            return rows


def test_the_last_of_equal_rows_counts() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR)")
    db.upsert("t", [(1, "a"), (1, "b"), (1, "a"), (2, None)])
    assert sorted(db.table("t").rows()) == [(1, "a"), (2, None)]
    epoch = db.epoch
    assert db.upsert("t", [(1, "a")]) == epoch  # nothing changes
    assert db.delete("t", keys=[2, 1]) == epoch + 1
    assert db.table("t").rows() == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda db: db.upsert("bag", [(1,)]), SchemaError, "no PRIMARY KEY"),
        (lambda db: db.upsert("s", [(1,)]), SchemaError, "only tables"),
        (lambda db: db.upsert("nobody", [(1,)]), SchemaError, "nobody"),
        (lambda db: db.upsert("t", [(None, "a")]), DataError, "NULL is refused"),
        (lambda db: db.upsert("t", [(1, "a", 3)]), DataError, None),
        (lambda db: db.upsert("t", 5), DataError, None),
        (lambda db: db.delete("t", keys=[7]), DataError, r"no row with the key k=7 in t"),
        (lambda db: db.delete("t", keys=[(1, 2)]), DataError, r"\(1, 2\) is no key of \(k\)"),
        (lambda db: db.delete("t", keys=["x"]), DataError, "x"),
        (lambda db: db.delete("t"), DataError, "rows, or the keys"),
        (lambda db: db.delete("t", [(1, "a")], keys=[1]), DataError, "not both"),
        (lambda db: db.delete("bag", keys=[1]), SchemaError, "no PRIMARY KEY"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR); CREATE TABLE bag (a BIGINT)")
    db.execute("CREATE STREAM s (k BIGINT PRIMARY KEY)")
    db.insert("t", [(1, "a")])
    with pytest.raises(error, match=message):
        call(db)
    assert db.table("t").rows() == [(1, "a")]


def test_changes_of_the_type_upsert_come_after_the_others() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR, x BIGINT DEFAULT 7)")
    db.execute("CREATE VIEW v AS SELECT COUNT(*) AS n, SUM(x) AS x FROM t")
    db.insert("t", [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    changes = [
        {"_change_type": "upsert", "k": 1, "s": "first", "x": 0},
        {"_change_type": "delete", "k": 2, "s": "b", "x": 2},
        {"_change_type": "UPSERT", "k": 2, "s": "again", "x": 20},
        {"_change_type": "upsert", "k": 1, "s": "last", "x": 10},
        {"_change_type": "insert", "k": 4, "s": "d", "x": 4},
        {"_change_type": "upsert", "k": 4, "s": "dd"},
    ]
    before = db.epoch
    db.apply({"t": changes})
    expected = [(1, "last", 10), (2, "again", 20), (3, "c", 3), (4, "dd", 7)]
    assert (sorted(db.table("t").rows()), db.view("v").rows(), db.epoch) == (expected, [(4, 40)], before + 1)
    frame = pa.table(
        {"k": [1, 3, 9], "s": ["z", "c", "n"], "x": [1, 3, 9], "_change_type": ["upsert", "delete", "upsert"]}
    )
    for data in (frame, frame.to_pandas()):
        with db.transaction():
            db.apply({"t": data})
            assert sorted(db.table("t").rows()) == [(1, "z", 1), (2, "again", 20), (4, "dd", 7), (9, "n", 9)]
            db.insert("t", [(3, "c", 3)])
    db.apply({"t": [{"k": 9, "s": "n", "x": 9, "_change_type": "upsert"}]})  # nothing changes
    for wrong, message in (
        ([{"k": 5, "_change_type": "upset"}], "expected one of .*upsert"),
        ([{"k": None, "_change_type": "upsert"}], "PRIMARY KEY cannot be NULL"),
    ):
        with pytest.raises(DataError, match=message):
            db.apply({"t": wrong})
    absent = {"k": 5, "s": "none", "x": 1}
    with pytest.raises(DataError, match="it is not there"):
        db.apply({"t": [absent | {"_change_type": "delete"}, absent | {"_change_type": "upsert", "s": "other"}]})
    db.execute("CREATE TABLE bag (a BIGINT)")
    with pytest.raises(SchemaError, match="no PRIMARY KEY"):
        db.apply({"bag": [{"a": 1, "_change_type": "upsert"}]})
