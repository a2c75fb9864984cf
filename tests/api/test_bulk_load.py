"""Large batches that DuckDB loads leave the interpreter's stores as triggers would have left them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet import Connection, DataError
from viewlet.engine import chooser as engines
from viewlet.engine.background import BackgroundCompiler
from viewlet.engine.trigger_programs import ProgramDraft
from viewlet.sqlgen import bulk_load
from viewlet.triggers.interpreter import Interpreter

COLUMNS = {
    "k": ("BIGINT", pa.int64()),
    "i": ("INTEGER", pa.int32()),
    "h": ("SMALLINT", pa.int16()),
    "m": ("DECIMAL(9,2)", pa.decimal128(9, 2)),
    "d": ("DATE", pa.date32()),
    "t": ("TIMESTAMP", pa.timestamp("us")),
    "b": ("BOOLEAN", pa.bool_()),
    "s": ("VARCHAR", pa.string()),
    "x": ("DOUBLE", pa.float64()),
    "r": ("REAL", pa.float32()),
}
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678)
F: list[tuple[Any, ...]] = [
    (1, 5, 2, Decimal("1.25"), date(2026, 1, 2), MOMENT, True, "pear", 0.5, 0.5),
    (1, 5, 2, Decimal("1.25"), date(2026, 1, 2), MOMENT, True, "pear", 0.5, 0.5),
    (2, -3, None, Decimal("-7.50"), date(1969, 12, 31), datetime(1960, 1, 1), False, "it's", -0.0, 1.5),
    (None, None, None, None, None, None, None, None, None, None),
    (3, 2**31 - 1, -(2**15), Decimal("9999999.99"), date(2026, 1, 2), MOMENT, False, "", 1e300, 0.25),
    (2, 4, 1, Decimal("0.01"), date(2000, 2, 29), MOMENT, None, "päré", 3.0, None),
]
G = [(1, 10), (2, 20), (2, 21), (None, 5), (4, 7)]
QUERIES = {
    "plain": "SELECT * FROM f",
    "integers": "SELECT k, SUM(i) AS i, SUM(h) AS h, COUNT(h) AS n, AVG(i) AS mean FROM f GROUP BY k",
    "decimals": "SELECT m, SUM(m * i) AS mi, SUM(m) AS total FROM f GROUP BY m",
    "times": "SELECT d, t, COUNT(*) AS n FROM f GROUP BY d, t",
    "parts": "SELECT EXTRACT(YEAR FROM t) AS y, b, MAX(d) AS last FROM f GROUP BY EXTRACT(YEAR FROM t), b",
    "strings": "SELECT s, MIN(i) AS low, COUNT(DISTINCT k) AS ks FROM f WHERE s <> 'it''s' OR b GROUP BY s",
    "doubles": "SELECT COUNT(*) AS n FROM f WHERE x > 0.25 AND r < 1",
    "joined": "SELECT f.k, v, SUM(i * v) AS iv, COUNT(*) AS n FROM f JOIN g ON f.k = g.k GROUP BY f.k, v",
    "outer_join": "SELECT g.v, COUNT(f.i) AS n FROM g LEFT JOIN f ON f.k = g.k GROUP BY g.v",
    "nested": "SELECT k, i FROM f WHERE i < (SELECT AVG(v) FROM g WHERE g.k = f.k)",
    "absent": "SELECT v FROM g WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = g.k)",
    "total": "SELECT SUM(m) AS m, MAX(s) AS s FROM f",
    "first": "SELECT k, SUM(i) AS i FROM f GROUP BY k ORDER BY i DESC NULLS LAST LIMIT 2",
    "sums": "SELECT k, SUM(x) AS x, SUM(r) AS r FROM f GROUP BY k",
}
LOADED = set(QUERIES) - {"plain", "sums"}


SUBMIT = BackgroundCompiler.submit


@pytest.fixture(autouse=True)
def load_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is large, no code is cached, and compiling never ends."""
    monkeypatch.setattr(engines, "LARGE_BATCH", 1)
    monkeypatch.setattr(ProgramDraft, "is_cached", property(lambda draft: False))
    monkeypatch.setattr(BackgroundCompiler, "submit", lambda compiler, task: task)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stored views that DuckDB has evaluated."""
    found: list[str] = []
    evaluate = bulk_load.evaluate_all

    def noted(plan: bulk_load.LoadPlan, given: Mapping[str, Any]) -> bulk_load.Contents:
        found.extend(plan.queries)
        return evaluate(plan, given)

    monkeypatch.setattr(bulk_load, "evaluate_all", noted)
    return found


def tables(kind: str, engine: str = "auto") -> Connection:
    db = viewlet.connect(engine=engine)
    columns = ", ".join(f"{name} {sql}" for name, (sql, _) in COLUMNS.items())
    db.execute(f"CREATE {kind} f ({columns}); CREATE {kind} g (k BIGINT, v BIGINT)")
    return db


def declare(db: Connection, *names: str) -> None:
    for name in names or QUERIES:
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")


def arrow(rows: list[tuple[Any, ...]], weights: list[int] | None = None) -> pa.Table:
    arrays = {
        name: pa.array(values, type)
        for (name, (_, type)), values in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True)
    }
    return pa.table(arrays | ({"_multiplicity": pa.array(weights, pa.int64())} if weights else {}))


def state_of(db: Connection) -> dict[str, Any]:
    """Rows, and what the interpreter keeps to make them."""
    state: dict[str, Any] = {name: db.view(name).rows() for name in db.views}
    for name, view in db._session._database.views.items():  # type: ignore[union-attr]
        assert isinstance(view.engine, Interpreter)
        state |= {(name, store): dict(held.items()) for store, held in view.engine.stores.items()}
    return state


@pytest.mark.parametrize(("kind", "form"), [("TABLE", "rows"), ("STREAM", "arrow")])
def test_a_first_batch_of_every_type(kind: str, form: str, loads: list[str]) -> None:
    db, reference = tables(kind), tables(kind, "interpreter")
    for each in (db, reference):
        declare(each)
        each.apply({"f": arrow(F) if form == "arrow" else F, "g": G})
    assert state_of(db) == state_of(reference)
    assert {name for name in LOADED if any(view.startswith(name) for view in loads)} == LOADED
    assert not any(view.startswith("sums") for view in loads)
    loads.clear()
    for each in (db, reference):
        each.delete("f", F[:1])
        each.apply({"f": F[2:4], "g": G[1:2]})
    assert state_of(db) == state_of(reference)
    assert bool(loads) is (kind == "TABLE")  # a stream has a past now


def test_multiplicities_below_zero(loads: list[str]) -> None:
    db, reference = tables("STREAM"), tables("STREAM", "interpreter")
    for each in (db, reference):
        declare(each, "integers", "joined", "decimals", "times")
        each.apply({"f": arrow(F, [2, -3, 1, -1, 5, 1]), "g": G})
    assert state_of(db) == state_of(reference)
    assert loads


def test_a_table_filled_after_another(loads: list[str]) -> None:
    db, reference = tables("TABLE"), tables("TABLE", "interpreter")
    for each in (db, reference):
        declare(each, "joined", "outer_join", "absent", "nested")
        each.insert("g", G)
        each.insert("f", F)
    assert state_of(db) == state_of(reference)
    assert loads


def test_small_batches_and_old_rows_go_through_triggers(loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LARGE_BATCH", 3)
    db = tables("TABLE")
    declare(db, "joined")
    db.insert("g", G[:2])
    assert not loads
    db.insert("g", [(k, k) for k in range(10, 50)])
    assert loads
    loads.clear()
    db.insert("f", F[:4])  # the many rows of the other table would have to be read again
    assert not loads
    assert db.view("joined").rows() == [(1, 10, 100, 2), (2, 20, -60, 1)]


def test_a_view_declared_over_many_rows(loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 4)
    db, reference = tables("TABLE"), tables("TABLE", "interpreter")
    for each in (db, reference):
        each.apply({"f": F, "g": G})
        declare(each, "joined", "times", "first", "absent")
    assert db.explain("joined", "engine") == "interpreter: it is being compiled"
    assert state_of(db) == state_of(reference)
    assert loads


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_batch_that_cannot_be_loaded_waits_for_the_compiler(
    is_under_way: bool, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of doubles would be rounded, and a stream with a past cannot be read again."""
    monkeypatch.setattr(BackgroundCompiler, "submit", SUBMIT)
    monkeypatch.setattr(engines, "LARGE_BATCH", 3)
    monkeypatch.setattr(engines, "WORTH_WAITING", 3)
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 0 if is_under_way else 1000)
    db, reference = tables("STREAM"), tables("STREAM", "interpreter")
    for each in (db, reference):
        declare(each, "sums", "joined")
        each.insert("g", G[:2])
        each.insert("f", F[:1])
    for each in (db, reference):
        each.insert("f", arrow(F))
    assert {db.view(name).stats()["engine"] for name in db.views} == {"compiled"}
    assert [db.view(name).rows() for name in db.views] == [reference.view(name).rows() for name in db.views]
    assert not loads


def test_subscribers_and_views_over_views(loads: list[str]) -> None:
    heard: dict[str, list[Any]] = {"auto": [], "interpreter": []}
    states = []
    for engine, news in heard.items():
        db = tables("STREAM", engine)
        declare(db, "integers", "first")
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT n, COUNT(*) AS ks FROM integers GROUP BY n")
        for name in ("first", "above"):
            db.view(name).subscribe(lambda epoch, change, news=news: news.append((epoch, change.to_pylist())))
        db.insert("f", F)
        db.insert("f", F[:2])
        states.append(state_of(db))
    assert heard["auto"] == heard["interpreter"]
    assert states[0] == states[1]
    assert any(view.startswith("above") for view in loads)


def test_a_load_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    db, reference = tables("TABLE"), tables("TABLE", "interpreter")
    for each in (db, reference):
        declare(each, "joined", "integers")
        each.insert("g", G)
    failing = Interpreter.finish

    def interrupted(engine: Interpreter) -> Any:
        failing(engine)
        raise KeyboardInterrupt

    monkeypatch.setattr(Interpreter, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.insert("f", F)
    monkeypatch.undo()
    assert (db.epoch, state_of(db)) == (1, state_of(reference))
    for each in (db, reference):
        each.insert("f", F[1:])
    assert state_of(db) == state_of(reference)


@pytest.mark.parametrize("form", ["rows", "arrow"])
def test_what_duckdb_cannot_evaluate_the_interpreter_does(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    def refusing(*_: object) -> object:
        raise duckdb.OutOfRangeException("too much")

    monkeypatch.setattr(bulk_load, "evaluate_all", refusing)
    db, reference = tables("STREAM"), tables("STREAM", "interpreter")
    for each in (db, reference):
        declare(each, "strings", "decimals", "parts", "joined")
        each.apply({"f": arrow(F) if form == "arrow" else F, "g": G})
    assert state_of(db) == state_of(reference)


def test_an_overflow_is_refused_as_by_triggers() -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a * a) AS a FROM t")
    with pytest.raises(DataError, match="a sum overflows BIGINT"):
        db.insert("t", [(2**40,)])
    assert db.epoch == 0


def test_names_do_not_reach_duckdb() -> None:
    db = viewlet.connect()
    db.execute('CREATE STREAM "a; DROP" ("x""; --" BIGINT, "select" VARCHAR)')
    db.execute(
        'CREATE MATERIALIZED VIEW "v""" AS SELECT "select", SUM("x""; --") AS n FROM "a; DROP" GROUP BY "select"'
    )
    db.insert("a; DROP", [(1, "a"), (2, "a"), (3, "'; --")])
    assert db.view('v"').rows() == [("'; --", 3), ("a", 3)]
