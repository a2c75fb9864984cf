"""A program that every host of parts answers in the same way: the paper's views, late rows, deletes, a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import viewlet
from tests.streams.model import at
from viewlet.streams import PartHost

STATEMENTS = (
    "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT, ok BOOLEAN, price DECIMAL(9,2)) PARTITION LENGTH 60 BY ts",
    "CREATE STREAM n (at TIMESTAMP, g VARCHAR, y BIGINT) PARTITION LENGTH 60 BY at",
    """CREATE VIEW helper AS INITIALIZE helper[i] AS SELECT g, 1 AS ct, x AS loss FROM m[i] WHERE x > 10
       UPDATE helper[j] AS SELECT new.g, COALESCE(ct, 0) + 1, COALESCE(loss, 0) + new.x
       FROM m[j] AS new LEFT JOIN helper[j-1] AS prev ON new.g IS NOT DISTINCT FROM prev.g WHERE new.x > 10""",
    """CREATE VIEW view2 AS INITIALIZE view2[i] AS SELECT g, ct, loss FROM helper[i] WHERE ct >= 4
       UPDATE view2[j] AS SELECT g, ct, loss FROM helper[j] WHERE ct >= 4""",
    """CREATE VIEW view3 AS INITIALIZE view3[i] AS SELECT g, SUM(x) AS x, COUNT(*) AS n FROM m[i*3..i*3+2] GROUP BY g
       UPDATE view3[j] AS SELECT g, SUM(x), COUNT(*) FROM m[j*3..j*3+2] GROUP BY g PARTITION LENGTH 180""",
    """CREATE VIEW band AS INITIALIZE band[i] AS SELECT g, x, y FROM m[i] NATURAL JOIN n[i]
       UPDATE band[j] AS SELECT g, x, y FROM m[j] NATURAL JOIN n[j]""",
    "CREATE VIEW view5 AS SELECT g, MAX(x) AS x, COUNT(*) AS n FROM m [WINDOW 4 MINUTES] GROUP BY g",
    "CREATE VIEW view6 AS SELECT g, SUM(x) AS x, AVG(x) AS mean FROM m [WINDOW 5 MINUTES] GROUP BY g HAVING SUM(x) > 0",
    """CREATE VIEW risen AS INITIALIZE risen[i] AS SELECT ts, g, x FROM (SELECT ts, g, x, LAG(x) OVER (PARTITION BY g
       ORDER BY ts) AS old FROM m[i-1..i]) AS both_parts WHERE x > old AND ts >= part_timestamp
       UPDATE risen[j] AS SELECT ts, g, x FROM (SELECT ts, g, x, LAG(x) OVER (PARTITION BY g
       ORDER BY ts) AS old FROM m[j-1..j]) AS both_parts WHERE x > old AND ts >= part_timestamp""",
    """CREATE VIEW level AS INITIALIZE level[i] AS SELECT SUM(x) AS x FROM m[i]
       UPDATE level[j] AS SELECT SUM(x) AS x FROM (SELECT x FROM m[j] UNION ALL SELECT x FROM damped[j-1]) AS inflow,
       damped AS INITIALIZE damped[i] AS SELECT x - 3 AS x FROM level[i]
       UPDATE damped[j] AS SELECT x - 3 FROM level[j]""",
    """CREATE VIEW falls AS SELECT g, since, low FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts MEASURES
       FIRST(ts) AS since,
       MIN(x) AS low PATTERN (a b+) DEFINE b AS x < PREV(x))""",
)
VIEWS = ("view2", "view3", "band", "view5", "view6", "risen", "falls", "level", "damped")
LOSSES = [6, 12, 15, 24, 20, 16, 7]


def declare(db: viewlet.Connection) -> None:
    for statement in STATEMENTS:
        db.execute(statement)


def play(db: viewlet.Connection) -> dict[str, Any]:
    """The views after rows in order, a late batch, a delete and closed parts."""
    rows = [(at(60 * minute), "a", x, True, "1.50") for minute, x in enumerate(LOSSES)]
    db.insert("m", [*rows, (at(70), None, -3, None, None)])
    db.insert("n", [(at(60 * minute), "a", minute) for minute in range(8)])
    db.close_parts("m", at(420))
    first = {name: db.view(name).rows() for name in VIEWS}
    assert first["view2"] == [("a", 4, 71, at(240)), ("a", 5, 87, at(300))]
    db.insert("m", [(at(15), "a", 30, False, "2.00"), (at(16), "b", 2, None, None)])
    db.delete("m", [(at(300), "a", 16, True, "1.50")])
    return {name: db.view(name).rows() for name in VIEWS}


def check(make: Callable[[], PartHost], folder: Path) -> None:
    """A host gives the answers of DuckDB in this process, and has them after it was opened again."""
    expected_db = viewlet.connect()
    declare(expected_db)
    expected = play(expected_db)
    with viewlet.connect(folder / "db", streams=make()) as db:
        declare(db)
        assert play(db) == expected
    with viewlet.connect(folder / "db", streams=make()) as db:
        assert {name: db.view(name).rows() for name in VIEWS} == expected
        for each in (db, expected_db):
            each.insert("m", [(at(480), "a", 50, True, None), (at(540), "a", 1, True, None)])
        assert db.view("view6").rows() == expected_db.view("view6").rows()
