"""Which engine runs a view, and that users cannot tell except by asking."""

from __future__ import annotations

import logging
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import viewlet
from viewlet import Connection, DataError, UnsupportedError
from viewlet.engine import chooser as engines

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

SCHEMA = """
CREATE {kind} sales (shop BIGINT NOT NULL, day DATE, amount DECIMAL(9,2), item VARCHAR, weight DOUBLE,
    pieces INTEGER CHECK (pieces >= 0));
CREATE MATERIALIZED VIEW totals AS SELECT shop, SUM(amount) AS amount, COUNT(*) AS n FROM sales GROUP BY shop;
CREATE MATERIALIZED VIEW items AS SELECT item, day, SUM(weight) AS weight, SUM(pieces) AS pieces
    FROM sales GROUP BY item, day;
"""
DAY = date(2026, 1, 2)
ROWS: list[tuple[Any, ...]] = [
    (1, DAY, Decimal("1.50"), "pear", 0.5, 3),
    (2, None, Decimal("-2.25"), None, None, None),
    (1, DAY, None, "plum", -0.0, 2),
]
BIG = 2**62


def sales(engine: str, kind: str = "TABLE") -> Connection:
    db = viewlet.connect(engine=engine)
    db.execute(SCHEMA.format(kind=kind))
    return db


def rows_of(db: Connection) -> dict[str, Any]:
    return {name: db.view(name).rows() for name in db.views}


def arrow(rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    types = [pa.int64(), pa.date32(), pa.decimal128(9, 2), pa.string(), pa.float64(), pa.int32()]
    names = ("shop", "day", "amount", "item", "weight", "pieces")
    columns = [pa.array(values, type) for values, type in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.table(dict(zip(names, columns, strict=True)))


def never_as_rows(*_: object, **__: object) -> object:
    raise AssertionError("this batch should have gone in as columns")


# -- choice -------------------------------------------------------------------------------------------------------


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'auto', 'interpreter', 'compiled'"):
        viewlet.connect(engine="steam")


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_an_engine_asked_for_is_taken_and_told(engine: str) -> None:
    db = sales(engine)
    assert db.explain("totals", "engine") == f"{engine}: asked for by connect(engine='{engine}')"
    assert f"-- engine\n{engine}: " in db.explain("totals")
    assert db.view("totals").stats()["engine"] == engine


def test_what_cannot_be_compiled_names_the_construct() -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    with pytest.raises(UnsupportedError, match=r"a constant beyond 64 bits in the compiled engine.*view 'v'"):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a < 99999999999999999999")
    assert db.views == ()


# -- auto ---------------------------------------------------------------------------------------------------------


def test_a_busy_view_is_compiled(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 4)
    db, reference = sales("auto"), sales("interpreter")
    caplog.set_level(logging.INFO, "viewlet")
    for number in range(4):
        batch = [(shop + number, *rest) for shop, *rest in ROWS]
        for each in (db, reference):
            each.insert("sales", batch)
            each.delete("sales", batch[:1])
            each.settle()
        assert rows_of(db) == rows_of(reference)
        assert db.view("totals").stats()["engine"] == ("interpreter" if number == 0 else "compiled")
    assert db.view("items").stats()["engine"] == "compiled"
    assert [record.getMessage().split(" in ")[0] for record in caplog.records] == [
        "view totals: compiled",
        "view items: compiled",
    ]


def test_a_view_with_few_rows_that_take_long_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_SECONDS", 0.03)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT); CREATE TABLE u (a BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW slow AS SELECT SUM(x.b) AS n FROM t x, t y, t z WHERE x.a + y.a = z.a + x.b")
    db.execute("CREATE MATERIALIZED VIEW quick AS SELECT COUNT(*) AS n FROM u")
    db.insert("u", [(1,)])
    for number in range(1000):
        db.insert("t", [(number % 7, number)])
        if "is being compiled" in db.explain("slow", "engine"):
            break
    db.settle()
    assert db.explain("slow", "engine") == "compiled: the interpreter had worked on it for 0.03 s"
    assert "is compiled after 20,000 changed rows or 0.03 s of work" in db.explain("quick", "engine")


def test_a_view_over_many_rows_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.insert("t", [(1, 2), (1, 3), (2, 5)])
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b FROM t GROUP BY a")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT a FROM t WHERE a < 99999999999999999999")
    assert db.view("v").rows() == [(1, 5), (2, 5)]
    assert db.view("v").stats()["engine"] == "compiled"
    assert db.view("w").rows() == [(1,), (1,), (2,)]
    assert db.explain("w", "engine").startswith("interpreter: a constant beyond 64 bits in the compiled engine")


def test_views_that_auto_leaves_to_the_interpreter_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    table = sales("auto")
    table.execute(
        "CREATE MATERIALIZED VIEW above AS SELECT * FROM sales WHERE amount > (SELECT AVG(amount) FROM sales)"
    )
    table.view("above").subscribe(lambda epoch, changes: None)
    table.insert("sales", ROWS)
    assert "its changes are wanted after every batch" in table.explain("above", "engine")
    wide = viewlet.connect()
    wide.execute("CREATE TABLE t (a DECIMAL(30,2)); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS a FROM t")
    assert "t.a, a DECIMAL(30,2), need not fit 64 bits" in wide.explain("v", "engine")


def test_views_over_streams_go_on_compiled_from_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    moving, staying = sales("auto", "STREAM"), sales("interpreter", "STREAM")
    for db in (moving, staying):
        db.insert("sales", ROWS)
        db.settle()
    assert moving.view("items").stats()["engine"] == "compiled"
    for db in (moving, staying):
        db.insert("sales", ROWS[:3])
        db.delete("sales", ROWS[1:])
    for name in ("totals", "items"):
        assert moving.view(name).rows() == staying.view(name).rows()


def test_a_subscribed_view_is_compiled_when_it_can_tell_its_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b FROM t GROUP BY a ORDER BY b DESC LIMIT 2")
    heard: list[list[tuple[int, ...]]] = []
    db.view("v").subscribe(lambda epoch, changes: heard.append(sorted(tuple(c.values()) for c in changes.to_pylist())))
    db.insert("t", [(1, 2), (1, 3), (2, 4)])
    db.settle()
    assert db.view("v").stats()["engine"] == "compiled"
    db.insert("t", [(3, 9)])
    db.delete("t", [(3, 9)])
    assert heard[1:] == [[(2, 4, -1), (3, 9, 1)], [(2, 4, 1), (3, 9, -1)]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a + a AS b FROM t",
        "SELECT a * a AS b FROM t",
        "SELECT SUM(a + a) AS b FROM t",
        "SELECT SUM(a * a * a) AS b FROM t",
        "SELECT COUNT(*) AS b FROM t WHERE a * a > 5",
    ],
)
def test_compiled_arithmetic_beyond_64_bits_is_an_error_not_a_wrap(sql: str) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(f"CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS {sql}")
    db.insert("t", [(1,), (2,)])
    before = db.view("v").rows()
    with pytest.raises(DataError, match="overflows"):
        db.insert("t", [(BIG,)])
    assert db.view("v").rows() == before


# -- reading ------------------------------------------------------------------------------------------------------


def test_results_are_evaluated_only_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.codegen.view import CompiledView

    db, calls = sales("compiled"), 0
    evaluate = CompiledView.result

    def counting(engine: CompiledView) -> Any:
        nonlocal calls
        calls += 1
        return evaluate(engine)

    monkeypatch.setattr(CompiledView, "result", counting)
    for _ in range(3):
        db.insert("sales", ROWS)
    assert calls == 0
    assert db.view("totals").rows() == db.view("totals").rows() == [(1, Decimal("4.50"), 6), (2, Decimal("-6.75"), 3)]
    assert calls == 1


def test_subscribers_and_views_over_views_see_the_same_on_both_engines() -> None:
    heard: dict[str, list[Any]] = {"interpreter": [], "compiled": []}
    seen = {}
    for engine, news in heard.items():
        db = sales(engine)
        db.execute("CREATE MATERIALIZED VIEW best AS SELECT shop, n FROM totals ORDER BY n DESC, shop LIMIT 1")
        db.execute("CREATE MATERIALIZED VIEW sum_of_n AS SELECT SUM(n) AS n FROM totals")
        db.insert("sales", ROWS)
        for name in ("best", "totals"):
            db.view(name).subscribe(lambda epoch, changes, news=news: news.append((epoch, changes.to_pylist())))
        db.insert("sales", [(2, *ROWS[0][1:]), (2, *ROWS[1][1:])])
        db.delete("sales", ROWS)
        seen[engine] = rows_of(db)
    assert heard["compiled"] == heard["interpreter"]
    assert len(heard["compiled"]) == 4
    assert seen["compiled"] == seen["interpreter"]


def test_stats_tell_what_an_engine_did_and_holds() -> None:
    db = sales("compiled")
    db.insert("sales", ROWS)
    stats: Any = db.view("totals").stats()
    assert (stats["tuples"], stats["batches"]) == (3, 1)
    assert stats["seconds"]["sales"] > 0
    assert stats["compile_seconds"] > 0
    for store, rows in stats["stored"].items():
        assert 0 < stats["packed_bytes"][store] <= stats["bytes"][store]
        assert rows == 2
    every: Any = db.stats()
    assert every["views"]["totals"]["engine"] == "compiled"


# -- batches that fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_failure_in_one_view_takes_back_what_others_did(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.codegen.view import CompiledView

    db = sales("compiled", kind)
    db.insert("sales", ROWS)
    db.view("totals").subscribe(lambda epoch, changes: None)
    before, epoch = rows_of(db), db.epoch
    apply, calls = CompiledView.apply, 0

    def failing(engine: CompiledView, *args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ZeroDivisionError
        apply(engine, *args)

    monkeypatch.setattr(CompiledView, "apply", failing)
    with pytest.raises(ZeroDivisionError):
        db.insert("sales", [(1, *ROWS[1][1:]), (9, *ROWS[0][1:])])
    assert (rows_of(db), db.epoch) == (before, epoch)
    monkeypatch.undo()
    db.insert("sales", ROWS)
    db.delete("sales", ROWS)
    assert rows_of(db) == before


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_an_overflow_is_taken_back(kind: str) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(f"CREATE {kind} t (a BIGINT, b BIGINT, d DECIMAL(18,2))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b, COUNT(*) AS n FROM t GROUP BY a")
    db.execute("CREATE MATERIALIZED VIEW big AS SELECT SUM(d * d * b) AS c FROM t WHERE a > 1")
    db.insert("t", [(1, 5, "1.00"), (2, 7, "2.00")])
    before = rows_of(db)
    with pytest.raises(DataError, match="overflows"):
        db.insert("t", [(1, 1, "1.00"), (3, BIG, "5000000000000000.00")])
    assert rows_of(db) == before
    db.insert("t", [(1, 1, "1.00")])
    assert db.view("v").rows() == [(1, 6, 2), (2, 7, 1)]


@pytest.mark.parametrize(
    "number",
    ["SELECT VAR_SAMP(b) FROM t", "SELECT SUM(d * d) FROM t", "SELECT MAX(s) FROM (SELECT SUM(d * d) AS s FROM t)"],
)
def test_a_nested_number_beyond_a_word_is_refused_and_not_called_an_overflow(number: str) -> None:
    rows = {}
    for engine in ("compiled", "interpreter"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (b BIGINT, d DECIMAL(18,2)); CREATE TABLE u (a INTEGER)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT a FROM u WHERE a < ({number})")
        db.insert("u", [(1,)])
        db.insert("t", [(3, "2.00"), (4, "3.00"), (9, "4.00")])
        rows[engine] = db.view("v").rows()
        large = [(2**53 + 1, "5000000000000000.00")]
        if engine == "interpreter":
            db.insert("t", large)
        else:
            with pytest.raises(
                DataError, match=r"a number does not fit the 64-bit words.*connect\(engine='interpreter'\)"
            ):
                db.insert("t", large)
        assert db.view("v").rows() == rows[engine] == [(1,)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_the_word_that_means_null_is_refused(kind: str) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute(f"CREATE {kind} t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    with pytest.raises(DataError, match="64-bit words"):
        db.insert("t", [(-(2**63),)])
    assert db.view("v").rows() == []


# -- columns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["arrow", "batches", "slice", "pandas", "polars"])
def test_columns_go_into_a_stream_without_rows(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars
    import pyarrow as pa

    reference = sales("interpreter", "STREAM")
    reference.insert("sales", ROWS)
    db = sales("compiled", "STREAM")
    table = arrow(ROWS)
    if form == "pandas":
        table = table.select(["shop", "day", "amount", "item", "weight", "pieces"])
        frame = table.to_pandas(integer_object_nulls=False)
        data: Any = frame.astype({"pieces": "Int32"})
    else:
        data = {
            "arrow": table,
            "batches": pa.concat_tables([table.slice(0, 1), table.slice(1)]),
            "slice": arrow(ROWS[:1] * 3 + ROWS).slice(3),
            "polars": polars.from_arrow(table),
        }[form]
    monkeypatch.setattr("viewlet.engine.ingest.to_changes", never_as_rows)
    db.insert("sales", data)
    assert rows_of(db) == rows_of(reference)
    assert str(rows_of(db)) == str(rows_of(reference))
    db.delete("sales", data)
    assert rows_of(db) == {"totals": [], "items": []}


def test_encoded_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    db, reference = sales("compiled", "STREAM"), sales("interpreter", "STREAM")
    kinds = arrow(ROWS).append_column("_change_type", pa.array(["insert", "UPDATE_POSTIMAGE", "delete"]))
    counts = arrow(ROWS).append_column("_multiplicity", pa.array([2, 0, 5]))
    for each in (reference, db):
        each.insert("sales", ROWS)
    for each in (reference, db):
        if each is db:
            monkeypatch.setattr("viewlet.engine.ingest.to_changes", never_as_rows)
        each.apply({"sales": kinds})
        each.apply({"sales": counts})
    assert rows_of(db) == rows_of(reference)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("shop", None, "row 2: NULL is refused: the column is NOT NULL"),
        ("pieces", -1, r"row 2: -1 is refused: CHECK \(pieces >= 0\)"),
        ("weight", float("inf"), "row 2: inf is refused"),
    ],
)
def test_refused_columns_name_the_row(column: str, value: object, message: str) -> None:
    db = sales("compiled", "STREAM")
    names = ("shop", "day", "amount", "item", "weight", "pieces")
    spoilt = [ROWS[0], tuple(value if name == column else old for name, old in zip(names, ROWS[1], strict=True))]
    with pytest.raises(DataError, match=message):
        db.insert("sales", arrow(spoilt))
    assert db.epoch == 0


def test_columns_of_other_types_are_converted_over_rows() -> None:
    import pyarrow as pa

    db = sales("compiled", "STREAM")
    data = arrow(ROWS).set_column(2, "amount", pa.array(["1.50", "2.00", None])).drop_columns(["day"])
    db.insert("sales", data)
    assert db.view("totals").rows() == [(1, Decimal("1.50"), 2), (2, Decimal("2.00"), 1)]


def test_no_rows_are_no_batch() -> None:
    import pyarrow as pa

    db = sales("compiled", "STREAM")
    db.insert("sales", arrow(ROWS).slice(0, 0))
    db.apply({"sales": arrow(ROWS).append_column("_multiplicity", pa.array([0, 0, 0]))})
    assert db.epoch == 0


def test_whatever_goes_wrong_when_compiling_the_interpreter_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)
    monkeypatch.setattr(engines, "build_compiled", failing)
    db = sales("auto")
    db.insert("sales", ROWS)
    db.settle()
    db.insert("sales", ROWS)
    assert db.view("totals").rows() == [(1, Decimal("3.00"), 4), (2, Decimal("-4.50"), 2)]
    assert db.explain("totals", "engine") == "interpreter: compiling it failed: RuntimeError: out of ideas"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_the_code_of_a_view_can_be_read() -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE t (a BIGINT, b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b FROM t GROUP BY a"
    )
    code = db.explain("v", "code")
    assert "def on_t(begin, end, each_row, multiplicity," in code
    assert "# v_t[:a].count += " in code
    compile(code, "v", "exec")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT a + 1e100 * b AS more FROM t WHERE a < 10000000000000000000")
    assert db.explain("w", "code") == "no compiled form: a constant beyond 64 bits"


def test_auto_keeps_nested_variances_of_exact_numbers_on_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sums of squares pass 64 bits long before the values do: the compiled engine would refuse the batch."""
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 4)
    db = viewlet.connect()
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t AS o"
        " WHERE x > (SELECT STDDEV_POP(x) FROM t WHERE t.g = o.g) GROUP BY g"
    )
    db.execute("CREATE MATERIALIZED VIEW top AS SELECT g, STDDEV_POP(x) AS s FROM t GROUP BY g")
    db.insert("t", [(i % 3, 1) for i in range(5)])
    db.insert("t", [(7, 4_000_000_000), (7, 0), (7, 0)])
    db.settle()
    db.insert("t", [(8, 4_000_000_000)])
    assert db.view("v").rows()[-2:] == [(7, 1), (8, 1)]
    assert db.explain("v", "engine") == "interpreter: a nested variance of exact numbers need not fit 64 bits"
    assert db.explain("top", "engine").startswith("compiled")


def test_a_product_of_wide_columns_that_leaves_the_words_is_said_to() -> None:
    """DECIMAL(20, 4) * BIGINT has 38 digits; the interpreter holds them."""
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE TABLE t (f BOOLEAN, c BIGINT); CREATE TABLE l (w DECIMAL(20, 4))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT f FROM t, l GROUP BY f HAVING MAX(w * c) > 0")
        db.insert("l", [("2.5",)])
        db.insert("t", [(True, 1)])
        if engine == "compiled":
            with pytest.raises(DataError, match=r"a number does not fit the 64-bit words.*engine='interpreter'"):
                db.insert("t", [(False, 9007199254740993)])
            assert db.view("v").rows() == [(True,)]
        else:
            db.insert("t", [(False, 9007199254740993)])
            assert db.view("v").rows() == [(False,), (True,)]
