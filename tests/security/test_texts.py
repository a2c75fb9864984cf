"""Names and values with control characters, broken text and huge numbers: each is shown escaped, or refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import xml.dom.minidom
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from tests.patience import at_most
from tests.security.hostile import quoted
from viewlet.shell.output import Format, print_rows
from viewlet.signals.errors import SignalError
from viewlet.signals.notation import from_text
from viewlet.visible import logger

HOSTILE = "x\nFAKE LOG LINE: \x1b[31mroot\x1b]0;title\x07\r\u202e\x9b\x00"
HUGE = ["1e999999999", "1e-999999999", "0e999999999", "-1e999999999", "9" * 20_000, "1e99999999999999999999"]


def is_plain(text: str) -> bool:
    return all(character in "\n\t" or character.isprintable() for character in text)


@pytest.fixture
def db() -> viewlet.Connection:
    db = viewlet.connect(engine="interpreter")
    db.execute("CREATE TABLE t (a BIGINT, x DOUBLE, s VARCHAR, p DECIMAL(9,2), r REAL)")
    return db


def test_a_message_of_the_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "viewlet"):
        logger.info("view %s: compiled in %.1f s", HOSTILE, 1.0)
    (record,) = caplog.records
    assert record.getMessage().startswith(r"view x\nFAKE LOG LINE: \x1b[31m")
    assert is_plain(record.getMessage())
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize("format", ["svg", "text"])
def test_drawings_are_well_formed(format: str) -> None:
    db = viewlet.connect()
    name = quoted(HOSTILE.replace("\0", ""))
    db.execute(f"CREATE TABLE {name} (a BIGINT, k BIGINT)")
    statement = "CREATE MATERIALIZED VIEW v WITH (strategy = 'view-tree') AS SELECT k, SUM(a) AS s FROM {} GROUP BY k"
    db.execute(statement.format(name))
    drawn = db.explain("v", "view-tree", format)
    if format == "svg":
        xml.dom.minidom.parseString(drawn)
    assert "FAKE" in drawn


def test_what_people_see_is_plain(db: viewlet.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    name = quoted(HOSTILE.replace("\0", ""))
    db.execute(f"CREATE TABLE {name} ({name} VARCHAR)")
    handle = db.table(HOSTILE.replace("\0", ""))
    db.insert(HOSTILE.replace("\0", ""), [(HOSTILE,)])
    assert handle.rows()[0] == (HOSTILE,), "programs get what was stored"
    assert is_plain(repr(handle))
    assert is_plain(handle._repr_html_())
    print_rows(handle.to_arrow(), Format.TABLE)
    assert is_plain(capsys.readouterr().out)
    with pytest.raises(viewlet.SqlError) as caught:
        db.execute(f'SELECT "\x1b[31m{HOSTILE}" FROM t')
    assert is_plain(str(caught.value))
    assert "\x1b" in (caught.value.sql or "")


@pytest.mark.parametrize("type", ["VARCHAR", "VARCHAR(3)", "CHAR(1)"])
def test_damaged_columns_of_arrow_are_refused(type: str) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    index = pa.DictionaryArray.from_arrays(pa.array([7]), pa.array(["x"]), safe=False)
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute(f"""CREATE TABLE t (s {type}); CREATE STREAM f (s {type});
            CREATE STREAM p (ts TIMESTAMP, s {type}) PARTITION LENGTH 60 BY ts;
            CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM f GROUP BY s""")
        for column in (text, index):
            for table in ("t", "f", "p"):
                columns: dict[str, Any] = {"ts": pa.array([0], pa.timestamp("us"))} if table == "p" else {}
                for data in (pa.table({**columns, "s": column}), pa.record_batch({**columns, "s": column})):
                    with pytest.raises(viewlet.DataError, match=rf"{table}\.s: this column of Arrow data is damaged"):
                        db.insert(table, data)
        assert db.epoch == 0


@pytest.mark.parametrize("number", HUGE, ids=lambda number: number[:8])
def test_huge_numbers_are_refused_at_once(number: str, db: viewlet.Connection) -> None:
    values: list[Any] = [number]
    with contextlib.suppress(InvalidOperation):  # more than Python itself reads
        values.append(Decimal(number))
    with at_most(20):
        for value, column in itertools.product(values, ("a", "x", "p", "r")):
            with contextlib.suppress(viewlet.DataError):
                db.insert("t", [{column: value}])
        for statement in ("INSERT INTO t (a) VALUES ({})", "SELECT a FROM t WHERE p < {}", "UPDATE t SET p = {}"):
            try:
                db.execute(statement.format(number))
            except viewlet.ViewletError:
                continue
        with pytest.raises((SignalError, ValueError)):
            from_text(json.dumps({"fraction": number}))
    assert {value for row in db.table("t").rows() for value in row} <= {None, 0}


def test_numbers_that_python_does_not_print(db: viewlet.Connection) -> None:
    for column in ("a", "x", "p", "s"):
        with pytest.raises(viewlet.DataError):
            db.insert("t", [{column: 10**6000}])
    with pytest.raises(viewlet.DataError):
        db.insert("t", [10**6000])


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms"])
def test_times_beyond_what_is_counted_are_refused(unit: str) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (ts TIMESTAMP)")
    for many in (2**62, -(2**62), 2**61 + 1, 2**63 - 1):
        with pytest.raises(viewlet.DataError):
            db.insert("t", [(np.datetime64(many, unit),)])
    db.insert("t", [(np.datetime64("2026-01-02", unit),), (np.datetime64("2026-01-02T03:04:05.000006", "us"),)])
    assert len(db.table("t")) == 2


OPENED: list[Callable[[], object]] = [
    lambda: viewlet.connect("a\0b"),
    lambda: viewlet.connect("file:///tmp/a\0b"),
    lambda: viewlet.connect(Path("a\0b")),
]


@pytest.mark.parametrize("open", OPENED)
def test_a_path_with_a_null_is_refused(open: Callable[[], object]) -> None:
    with pytest.raises(viewlet.StateError, match=r"has a NUL character"):
        open()


def test_a_named_index_is_a_column() -> None:
    frame = pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"], "n": [1, 2, 3]})
    for engine in ("interpreter", "compiled"):
        db = viewlet.connect(engine=engine)
        db.execute("""CREATE TABLE t (a BIGINT, n BIGINT); CREATE STREAM f (a BIGINT, b VARCHAR, n BIGINT);
            CREATE MATERIALIZED VIEW v AS SELECT a, b, SUM(n) AS n FROM f GROUP BY a, b""")
        db.insert("t", frame.groupby("a")[["n"]].sum())
        assert db.table("t").rows() == [(1, 3), (2, 3)]
        db.delete("t", frame.groupby("a")[["n"]].sum())
        assert db.table("t").rows() == []
        db.insert("f", frame.groupby(["a", "b"]).sum())
        assert db.view("v").rows() == [(1, "x", 1), (1, "y", 2), (2, "x", 3)]
        db.insert("t", frame[["a", "n"]].set_axis([7, 8, 9]))
        assert len(db.table("t")) == 3
        other = frame[["a", "n"]].rename_axis("id")
        with pytest.raises(viewlet.DataError, match="an index 'id', which is no column: call reset_index"):
            db.insert("t", other)
        twice = frame[["a", "n"]].rename_axis("a")
        with pytest.raises(viewlet.DataError, match="a column and an index named 'a'"):
            db.insert("t", twice)
        assert len(db.table("t")) == 3


@pytest.mark.parametrize("names", [["id", None], [None, "id"], [None, None]])
def test_an_index_without_all_names_is_not_dropped(names: list[str | None]) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (id BIGINT, s VARCHAR, n BIGINT)")
    index = pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=names)
    for engine_reads in (False, True):
        if engine_reads:
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, SUM(n) AS n FROM t GROUP BY id")
        with pytest.raises(viewlet.DataError, match="levels, some without name: call reset_index"):
            db.insert("t", pd.DataFrame({"n": [1, 2]}, index=index))
    db.insert("t", pd.DataFrame({"n": [1]}, index=[7]))  # rows that are numbered
    assert db.table("t").rows() == [(None, None, 1)]


@pytest.mark.parametrize("rounded", [2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1])
def test_integers_that_pandas_has_rounded_are_refused(rounded: int) -> None:
    """Beside a missing value pandas makes floats of integers, which are exact up to 2^53."""
    db = viewlet.connect()
    db.execute("CREATE TABLE t (a BIGINT)")
    with pytest.raises(viewlet.DataError, match="expected an integer"):
        db.insert("t", pd.DataFrame({"a": [rounded, None]}))
    exact = [2**53 - 1, -(2**53) + 1, None]
    db.insert("t", pd.DataFrame({"a": exact}))
    db.insert("t", pd.DataFrame({"a": pd.array([rounded, None], dtype="Int64")}))
    assert sorted(db.table("t").rows(), key=str) == sorted([(a,) for a in [*exact, rounded, None]], key=str)


@pytest.mark.parametrize("missing", [pd.NaT, pd.NA, np.datetime64("NaT"), np.datetime64("NaT", "s"), np.ma.masked])
@pytest.mark.parametrize("type", ["BIGINT", "DOUBLE", "DECIMAL(9,2)", "DATE", "TIMESTAMP", "BOOLEAN"])
def test_missing_values_in_rows_are_refused_by_what_they_are(missing: object, type: str) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE TABLE t (a {type})")
    with pytest.raises(viewlet.DataError, match="in rows, NULL is None"):
        db.insert("t", [(missing,)])


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("-Infinity"), Decimal("sNaN"), float("nan")])
def test_numbers_that_are_none_are_refused_by_what_they_are(value: object) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (x DOUBLE, p DECIMAL(9,2), r REAL)")
    for row in [(value, None, None), (None, value, None), (None, None, value)]:
        with pytest.raises(viewlet.DataError, match="NaN and infinities cannot be stored"):
            db.insert("t", [row])


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def deep_list() -> list[object]:
    inner: list[object] = []
    for _ in range(100_000):
        inner = [inner]
    return inner


@pytest.mark.parametrize("value", [Unprintable(), deep_list(), 10**5000], ids=type)
def test_values_that_cannot_be_printed_are_refused(value: object, db: viewlet.Connection) -> None:
    for row in [(value, None, None, None, None), (None, None, value, None, None), value]:
        with pytest.raises(viewlet.DataError, match=r"that cannot be printed|of thousands of digits|out of range"):
            db.insert("t", [row])


def test_what_people_see_of_a_factorised_view_is_plain() -> None:
    db = viewlet.connect()
    hidden = quoted(HOSTILE.replace("\0", ""))
    db.execute(f"CREATE TABLE t (a BIGINT, {hidden} VARCHAR)")
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT FACTORIZED a, {hidden} FROM t")
    db.insert("t", [(1, HOSTILE), (2, None)])
    for shown in (repr(db.view("v")), db.view("v")._repr_html_()):
        assert is_plain(shown)
        assert "\nFAKE" not in shown
        assert "NULL" in shown


def test_no_name_begins_a_line_of_an_error(tmp_path: Path) -> None:
    name = HOSTILE.replace("\0", "")
    hidden, other = quoted(name), quoted(name + "2")
    db = viewlet.connect(engine="interpreter")
    db.execute(f"CREATE TABLE {hidden} ({hidden} BIGINT PRIMARY KEY, s VARCHAR(2) NOT NULL)")
    db.execute(f"CREATE STREAM {other} (ts TIMESTAMP, {hidden} BIGINT) PARTITION LENGTH 60 BY ts")
    db.insert(name, [(1, "a")])
    folder = tmp_path / name
    kept = viewlet.connect(folder)
    calls: list[Callable[[], object]] = [
        *(
            partial(db.insert, name, [row])
            for row in [(1, "a"), (None, "a"), (2, "abc"), (2, None), (2,), {name: name}]
        ),
        partial(db.insert, name + "2", [("2020-01-01", name)]),
        *(partial(call, name) for call in (db.view, db.late_rows, db.close_parts, kept.table)),
        partial(db.signal, name, key=name + "2", time=name, value=name),
        partial(viewlet.connect, folder),
        partial(viewlet.connect, engine=name),
    ]
    statements = [
        f"CREATE TABLE {hidden} (a BIGINT)",
        f"CREATE TABLE y (a {hidden})",
        f"CREATE TABLE y ({hidden} BIGINT, {hidden} BIGINT)",
        f"CREATE MATERIALIZED VIEW v AS SELECT {other} FROM {hidden}",
        f"CREATE MATERIALIZED VIEW v AS SELECT {hidden}, {hidden} FROM {hidden}",
        f"CREATE MATERIALIZED VIEW v AS SELECT {hidden}(s) AS n FROM {hidden}",
        f"CREATE VIEW v AS INITIALIZE v[i] AS SELECT 1 FROM {other}[{hidden}] UPDATE v[j] AS SELECT 1 FROM {other}[j]",
        f"UPDATE {hidden} SET {other} = 1",
        f"DELETE FROM {quoted(name + '3')}",
    ]
    for call in [*calls, *(partial(db.execute, text) for text in statements)]:
        with pytest.raises(viewlet.ViewletError) as caught:
            call()
        shown = str(caught.value)
        assert is_plain(shown)
        assert not [line for line in shown.splitlines() if line.startswith("FAKE")], shown


def test_explanations_are_plain() -> None:
    db = viewlet.connect(engine="interpreter")
    hidden = quoted('"x\x1b[31m\u202e')
    db.execute(f"CREATE TABLE t ({hidden} BIGINT, s VARCHAR)")
    db.execute(
        f"CREATE MATERIALIZED VIEW {hidden} AS SELECT {hidden}, COUNT(*) AS n FROM t WHERE s <> '\x1b' GROUP BY 1"
    )
    for stage in (None, "sql", "algebra", "views", "triggers"):
        assert is_plain(db.explain('"x\x1b[31m\u202e', stage))
    lines = db.execute(f"EXPLAIN {hidden}").column(0).to_pylist()
    assert all(map(is_plain, lines))
