"""Temporary tables and views of a directory: they behave like others, and are gone with the connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import DataError, SchemaError, UnsupportedError

T = "CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR)"
SUMS = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_they_follow_and_are_gone(tmp_path: Path, engine: str) -> None:
    with viewlet.connect(tmp_path, engine=engine) as db:
        db.execute(f"{T}; INSERT INTO t VALUES (1, 'a')")
        db.execute(f"CREATE TEMP VIEW brief AS {SUMS}; CREATE TEMPORARY VIEW over AS SELECT SUM(n) AS n FROM brief")
        db.execute(f"CREATE VIEW lasting AS {SUMS}")  # the same rows: it has state of its own
        db.execute("CREATE OR REPLACE TEMP VIEW brief AS SELECT g, COUNT(*) + 1 AS n FROM t GROUP BY g")
        db.execute("CREATE TEMP VIEW other AS SELECT k FROM t; DROP VIEW other")
        db.insert("t", [(2, "a"), (3, "b")])
        db.checkpoint()
        db.insert("t", [(4, "b")])
        assert sorted(db.view("brief").rows()) == [("a", 3), ("b", 3)]
        assert (db.view("over").rows(), sorted(db.view("lasting").rows())) == ([(6,)], [("a", 2), ("b", 2)])
        db.execute("ALTER TABLE t ADD x INTEGER DEFAULT 1")
        assert (db.view("over").rows(), db.views) == ([(6,)], ("lasting", "brief", "over"))
    for _ in range(2):
        with viewlet.connect(tmp_path, engine=engine) as db:
            assert db.views == ("lasting",)
            assert sorted(db.view("lasting").rows()) == [("a", 2), ("b", 2)]
    with viewlet.connect(tmp_path, engine=engine) as db:
        db.execute(f"CREATE VIEW brief AS {SUMS}; DROP TABLE t CASCADE")
        assert db.views == ()


def killed(place: Path) -> Any:
    """The directory of a connection that ends without closing."""
    db = viewlet.connect(place)
    db.execute(f"{T}; CREATE TEMP VIEW brief AS {SUMS}; INSERT INTO t VALUES (1, 'a')")
    db.execute(f"CREATE VIEW lasting AS {SUMS}; DROP VIEW brief; CREATE TEMP VIEW brief AS SELECT k FROM t")
    db.insert("t", [(2, "b")])
    db._session._database.journal.storage.close()
    return db


def test_a_log_has_nothing_of_them(tmp_path: Path) -> None:
    left = killed(tmp_path)
    with viewlet.connect(tmp_path) as db:
        assert db.views == ("lasting",)
        assert sorted(db.view("lasting").rows()) == [("a", 1), ("b", 1)]
    del left


TEMPORARY = """CREATE TEMP TABLE u (a INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b VARCHAR CHECK (b <> 'no'),
    k INTEGER REFERENCES t);
CREATE TEMP TABLE copied AS SELECT k + 10 AS k FROM t;
CREATE TEMP VIEW both AS SELECT COUNT(*) AS n FROM t JOIN u ON t.k = u.k;
INSERT INTO u VALUES ('x', 1), ('y', 2);
COMMENT ON TABLE u IS 'short-lived';
ALTER TABLE u ADD COLUMN c INTEGER DEFAULT 7;
CREATE OR REPLACE TEMP TABLE copied AS SELECT k + 20 AS k FROM t;
CREATE TEMP TABLE dropped (a INTEGER); DROP TABLE dropped"""


@pytest.mark.parametrize("ending", ["close", "kill", "checkpoint"])
def test_temporary_tables(tmp_path: Path, ending: str) -> None:
    """They are in batches with others, and in no log and no snapshot; the epoch counts on."""
    db = viewlet.connect(tmp_path)
    db.execute(f"{T}; INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    db.execute(TEMPORARY)
    db.execute("BEGIN; INSERT INTO u VALUES ('z', 1, 8); INSERT INTO t VALUES (3, 'c'); COMMIT")
    if ending == "checkpoint":
        db.checkpoint()
    db.apply({"t": [(4, "d")], "u": [{"b": "w", "k": 4}]})
    db.execute("UPDATE u SET b = upper(b); DELETE FROM copied WHERE k = 21")
    assert sorted(db.table("u").rows()) == [(1, "X", 1, 7), (2, "Y", 2, 7), (3, "Z", 1, 8), (4, "W", 4, 7)]
    assert (db.table("copied").rows(), db.view("both").rows()) == ([(22,)], [(4,)])
    for rows in ("('no', 1, 1)", "('x', 9, 1)"):
        with pytest.raises(DataError):
            db.execute(f"INSERT INTO u VALUES {rows}")
    shown = db.execute("SELECT table_name FROM duckdb_tables() WHERE temporary ORDER BY ALL").to_pylist()
    assert [row["table_name"] for row in shown] == ["copied", "u"]
    epoch = db.epoch
    db._session._database.journal.storage.close() if ending == "kill" else db.close()
    for _ in range(2):
        with viewlet.connect(tmp_path) as after:
            assert (after.tables, after.views, after.epoch) == (("t",), (), epoch)
            assert sorted(after.table("t").rows()) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    with viewlet.connect(tmp_path) as after:
        after.execute("CREATE TABLE u (a INTEGER); INSERT INTO u VALUES (1)")
    with viewlet.connect(tmp_path) as after:
        assert after.table("u").rows() == [(1,)]
    del db


def test_in_memory_everything_is_temporary() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TEMP TABLE t (k BIGINT); CREATE TEMPORARY VIEW v AS SELECT COUNT(*) AS n FROM t")
        db.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT k FROM t; CREATE VIEW w AS SELECT k FROM t")
        db.insert("t", [(1,)])
        assert (db.view("v").rows(), db.view("w").rows()) == ([(1,)], [(1,)])


def test_refusals(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "local") as db:
        db.execute(f"{T}; CREATE TEMP VIEW brief AS {SUMS}")
        with pytest.raises(SchemaError, match="'brief' is a temporary view: make 'lasting' a temporary view"):
            db.execute("CREATE VIEW lasting AS SELECT n FROM brief")
        with pytest.raises(SchemaError, match="view 'brief' reads it"):
            db.execute("DROP TABLE t")
        db.execute("CREATE TEMP TABLE u (a INTEGER PRIMARY KEY)")
        with pytest.raises(SchemaError, match="'u' is a temporary table: make 'lasting' a temporary view"):
            db.execute("CREATE VIEW lasting AS SELECT t.k FROM t JOIN u ON a = k")
        with pytest.raises(SchemaError, match="'u' is a temporary table: 'w' is not"):
            db.execute("CREATE TABLE w (a INTEGER REFERENCES u)")
        with pytest.raises(SchemaError, match="'u' is a temporary TABLE: DROP it first"):
            db.execute("CREATE OR REPLACE TABLE u (a INTEGER)")
    with connect_inline(tmp_path / "spark", 2, sync=False) as db:
        db.execute(T)
        with pytest.raises(UnsupportedError, match="temporary view on Spark"):
            db.execute(f"CREATE TEMP VIEW brief AS {SUMS}")
        with pytest.raises(UnsupportedError, match="temporary table on Spark"):
            db.execute("CREATE TEMP TABLE u (a INTEGER)")
