"""AUTO CDC: the newest state and the history of each key, whatever the order in which changes come."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connection.spark_facade import connect_inline
from viewlet.errors import SchemaError, SqlError, UnsupportedError

TABLE = """CREATE TABLE changes (id INTEGER, name VARCHAR, city VARCHAR, op VARCHAR, at TIMESTAMP,
    PRIMARY KEY (id, at))"""
FLOW = """AUTO CDC FROM changes KEYS (id) APPLY AS DELETE WHEN op = 'D' SEQUENCE BY at
    COLUMNS * EXCEPT (op, at)"""
Row = tuple[Any, ...]


def history(changes: list[Row]) -> Counter[Row]:
    """Every state of each key with the times at which it begins and ends."""
    found: Counter[Row] = Counter()
    for key in {change[0] for change in changes}:
        own = sorted((change for change in changes if change[0] == key), key=lambda change: change[4])
        for change, following in zip(own, [*own[1:], None], strict=True):
            if change[3] != "D":
                found[(*change[:3], change[4], None if following is None else following[4])] += 1
    return found


def newest(changes: list[Row]) -> Counter[Row]:
    last = {change[0]: change for change in sorted(changes, key=lambda change: change[4])}
    return Counter(change[:3] for change in last.values() if change[3] != "D")


@pytest.mark.parametrize("host", ["interpreter", "compiled", "spark"])
def test_changes_land_where_they_belong(host: str, tmp_path: Path) -> None:
    """Changes come in any order, some are taken back; a directory is opened in between."""

    def opened() -> Any:
        if host == "spark":
            return connect_inline(tmp_path, 2, sync=False)
        return viewlet.connect(tmp_path / "db", engine=host)

    db = opened()
    db.execute(TABLE)
    db.execute(f"CREATE MATERIALIZED VIEW now AS {FLOW}")
    db.execute(f"CREATE OR REPLACE VIEW was AS {FLOW} STORED AS SCD TYPE 2")
    db.execute("CREATE MATERIALIZED VIEW open AS SELECT COUNT(*) AS n FROM was WHERE __end_at IS NULL")
    assert db.view("was").columns == ("id", "name", "city", "__start_at", "__end_at")
    chance, held = random.Random(host), list[Row]()
    free = [(key, f"2026-01-01 00:00:{second:02}") for key in range(4) for second in range(40)]
    chance.shuffle(free)
    for step in range(6):
        rows: list[Row] = []
        for _ in range(chance.choice((1, 9))):
            key, at = free.pop()
            name = chance.choice(("Ada", "Bo", None))
            rows.append((key, name, chance.choice(("Rome", None)), chance.choice(("U", "U", "D", None)), at))
        db.insert("changes", rows)
        held += rows
        if step % 2:
            gone = held.pop(chance.randrange(len(held)))
            db.delete("changes", [gone])
        shown = Counter(
            tuple(str(x)[:19] if i > 2 and x else x for i, x in enumerate(row)) for row in db.view("was").rows()
        )
        assert shown == history(held)
        assert Counter(db.view("now").rows()) == newest(held)
        assert db.view("open").rows() == [(sum(1 for row in history(held).elements() if row[4] is None),)]
        if step == 3:
            db.close()
            db = opened()


def test_forms_of_the_clauses() -> None:
    db: Any = viewlet.connect()
    db.execute("""CREATE TABLE "Feed" ("Key" INTEGER NOT NULL, part VARCHAR NOT NULL, x INTEGER, n BIGINT NOT NULL,
        op VARCHAR, UNIQUE ("Key", part, n))""")
    db.insert("Feed", [(1, "a", 5, 1, "I"), (1, "a", 6, 3, "U"), (1, "b", 7, 1, "I"), (1, "b", 7, 2, "DELETE")])
    flows = {
        'FROM STREAM("Feed") KEYS ("Key", part) SEQUENCE BY n COLUMNS (part, x)': [("a", 6), ("b", 7)],
        "FROM \"Feed\" KEYS (\"Key\", part) APPLY AS DELETE WHEN op IN ('DELETE', 'D') SEQUENCE BY (n) COLUMNS (x)": [
            (6,)
        ],
        'FROM "Feed" KEYS ("Key", part) SEQUENCE BY n COLUMNS x STORED AS SCD TYPE 1': [(6,), (7,)],
        'FROM "Feed" KEYS (part, "Key") APPLY AS DELETE WHEN (op = \'DELETE\') SEQUENCE BY n COLUMNS (x)'
        " STORED AS SCD TYPE 2": [(5, 1, 3), (6, 3, None), (7, 1, 2)],
    }
    for number, (flow, rows) in enumerate(flows.items()):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS AUTO CDC {flow}")
        assert db.view(f"v{number}").rows() == rows, flow
    db.execute('CREATE VIEW w AS APPLY CHANGES FROM "Feed" KEYS ("Key", part) SEQUENCE BY n')
    assert db.view("w").columns == ("Key", "part", "x", "n", "op")


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("FROM nobody KEYS (id) SEQUENCE BY at", "table 'nobody' does not exist"),
        ("FROM changes KEYS (idd) SEQUENCE BY at", "column 'idd' does not exist; did you mean 'id'"),
        ("FROM changes KEYS (id) SEQUENCE BY att", "column 'att' does not exist"),
        ("FROM changes KEYS (id)", "is expected"),
        ("FROM changes SEQUENCE BY at", "is expected"),
        ("FROM changes x KEYS (id) SEQUENCE BY at", "is expected"),
        ("FROM changes KEYS id, at SEQUENCE BY at KEYS (id)", "KEYS is given twice"),
        ("FROM changes KEYS (id,) SEQUENCE BY at", "KEYS takes columns"),
        ("FROM changes KEYS () SEQUENCE BY at", "KEYS takes columns"),
        ("FROM changes KEYS (name) SEQUENCE BY at", "told apart by name, at"),
        ("FROM changes KEYS (id) SEQUENCE BY name", "told apart by id, name"),
        ("FROM loose KEYS (id) SEQUENCE BY at", "told apart by id, at"),
        ("FROM feed KEYS (id) SEQUENCE BY at", "told apart by id, at"),
        ("FROM changes KEYS (id) SEQUENCE BY (id, at)", "several columns"),
        ("FROM changes KEYS (id) SEQUENCE BY at STORED AS SCD TYPE 3", "SCD TYPE 1 or"),
        ("FROM changes KEYS (id) IGNORE NULL UPDATES SEQUENCE BY at", "IGNORE NULL UPDATES is not supported"),
        ("FROM changes KEYS (id) SEQUENCE BY at TRACK HISTORY ON (name)", "TRACK HISTORY ON is not supported"),
        ("FROM changes KEYS (id) APPLY AS DELETE WHEN SEQUENCE BY at", "takes a condition"),
        ("FROM changes KEYS (id) APPLY AS DELETE WHEN nobody = 1 SEQUENCE BY at", "nobody"),
        ("FROM changes KEYS (id) SEQUENCE BY at COLUMNS * EXCEPT (nobody)", "column 'nobody' does not exist"),
    ],
)
def test_refusals(flow: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(TABLE)
    db.execute("CREATE TABLE loose (id INTEGER, at TIMESTAMP NOT NULL, UNIQUE (id, at))")
    db.execute("CREATE STREAM feed (id INTEGER NOT NULL, at TIMESTAMP NOT NULL)")
    with pytest.raises((SqlError, SchemaError, UnsupportedError), match=message):
        db.execute(f"CREATE MATERIALIZED VIEW v AS AUTO CDC {flow}")
    assert db.views == ()
