"""Temporary views of a directory: maintained like others, and gone with the connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import SchemaError, UnsupportedError

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


def test_refusals(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "local") as db:
        db.execute(f"{T}; CREATE TEMP VIEW brief AS {SUMS}")
        with pytest.raises(SchemaError, match="'brief' is a temporary view: make 'lasting' one too"):
            db.execute("CREATE VIEW lasting AS SELECT n FROM brief")
        with pytest.raises(SchemaError, match="view 'brief' reads it"):
            db.execute("DROP TABLE t")
        with pytest.raises(SchemaError, match="temporary tables are for a database in memory"):
            db.execute("CREATE TEMP TABLE u (a INTEGER)")
    with connect_inline(tmp_path / "spark", 2, sync=False) as db:
        db.execute(T)
        with pytest.raises(UnsupportedError, match="temporary view on Spark"):
            db.execute(f"CREATE TEMP VIEW brief AS {SUMS}")
