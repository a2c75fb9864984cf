"""VARCHAR(n) and CHAR(n) refuse longer strings, however rows come; CHAR(n) is not padded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import DataError, SqlError, UnsupportedError

TOO_LONG = r"t\.s \(VARCHAR\(3\)\).*'äbcd' is refused: 4 characters, and VARCHAR\(3\) takes 3"


def declare(db: Any, kind: str = "TABLE") -> None:
    db.execute(f"CREATE {kind} t (k BIGINT, s VARCHAR(3), c CHAR(2) NOT NULL, u CHARACTER VARYING(4))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, c, COUNT(*) AS n FROM t GROUP BY s, c")
    db.insert("t", [(1, "äöü", "a", "1234"), (2, None, "é ", None)])


def columns(rows: int, **others: list[str]) -> Any:
    return pa.table({"k": [1] * rows, "s": ["abc"] * rows, "c": ["a"] * rows, "u": ["x"] * rows} | others)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_longer_strings_are_refused(kind: str, engine: str) -> None:
    with viewlet.connect(engine=engine) as db:
        declare(db, kind)
        before = db.epoch
        for data in (
            [(1, "äbcd", "a", None)],
            [{"k": 1, "s": "äbcd", "c": "a"}],
            columns(2, s=["abc", "äbcd"]),
            columns(2, s=["abc", "äbcd"]).to_pandas(),
            columns(2).set_column(1, "s", pa.array(["abc", "äbcd"]).dictionary_encode()),
        ):
            with pytest.raises(DataError, match=TOO_LONG):
                db.insert("t", data)
        with pytest.raises(DataError, match=r"t\.u .*VARCHAR\(4\) takes 4"):
            db.insert("t", columns(2, u=["x", "12345"]))  # no view reads it
        with pytest.raises(DataError, match=TOO_LONG):
            db.execute("INSERT INTO t SELECT 1, 'äb' || 'cd', 'a', 'b'")
        assert db.epoch == before
        assert sorted(db.view("v").rows(), key=str) == [("äöü", "a", 1), (None, "é ", 1)]


def test_updates_and_parts_too() -> None:
    with viewlet.connect() as db:
        declare(db)
        with pytest.raises(DataError, match=TOO_LONG):
            db.execute("UPDATE t SET s = 'äbcd' WHERE k = 1")
        db.execute("CREATE STREAM p (ts TIMESTAMP, s VARCHAR(3), n BIGINT CHECK (n >= 0)) PARTITION LENGTH 60 BY ts")
        moment = pa.array([0], pa.timestamp("us"))
        for rows in ([("1970-01-01", "abcd", 1)], pa.table({"ts": moment, "s": ["abcd"], "n": [1]})):
            with pytest.raises(DataError, match=r"VARCHAR\(3\) takes 3"):
                db.insert("p", rows)
        with pytest.raises(DataError, match="CHECK"):
            db.insert("p", pa.table({"ts": moment, "s": ["abc"], "n": [-1]}))


def test_a_directory_knows_the_lengths(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db") as db:
        declare(db)
    for _ in range(2):  # from the log, then from a snapshot
        with viewlet.connect(tmp_path / "db") as db:
            with pytest.raises(DataError, match=TOO_LONG):
                db.insert("t", [(1, "äbcd", "a", None)])
            db.checkpoint()


def test_a_length_is_a_number_and_a_cast_has_none() -> None:
    with viewlet.connect() as db:
        for length in ("0", "2, 3", "n"):
            with pytest.raises(SqlError, match=r"length|size"):
                db.execute(f"CREATE TABLE z (s VARCHAR({length}))")
        declare(db)
        for cast in ("CAST(s AS VARCHAR(2))", "s::CHAR(2)", "CAST(k AS TEXT(2))"):
            with pytest.raises(UnsupportedError, match=r"LEFT\(x, n\)"):
                db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT {cast} AS x FROM t")
