"""ALTER TABLE and CREATE OR REPLACE VIEW under views, constraints and subscribers: against DuckDB, and cut short."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.interrupts.harness import Interruption
from tests.sql.hosts import HOSTS, Open, opener, ordered
from viewlet.errors import DataError, SchemaError, SqlError, StateError, UnsupportedError, ViewletError
from viewlet.runtime.durable.store import StateStore

T = "CREATE TABLE t (k INTEGER PRIMARY KEY, g VARCHAR, x DOUBLE)"
VIEWS = {
    "sums": "SELECT g, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY g",
    "every": "SELECT * FROM t",
    "total": "SELECT SUM(n) AS n FROM sums",
}


@pytest.fixture(params=HOSTS[:3])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return opener(request.param, tmp_path)


@pytest.fixture
def db(opened: Open) -> Iterator[Any]:
    with opened() as made:
        yield made


def statement(chance: random.Random, columns: list[str], step: int) -> str:
    column = chance.choice(columns)
    return chance.choice(
        [
            f"ALTER TABLE t ADD COLUMN c{step} {chance.choice(['INTEGER', 'VARCHAR', 'DECIMAL(6,2)'])}",
            f"ALTER TABLE t ADD COLUMN c{step} BIGINT DEFAULT {step}",
            f"ALTER TABLE t ADD c{step} VARCHAR DEFAULT 'it''s'",
            f"ALTER TABLE t DROP {column}",
            f"ALTER TABLE t DROP COLUMN IF EXISTS {column}",
            f"ALTER TABLE t RENAME {column} TO r{step}",
            f"ALTER TABLE t ALTER {column} TYPE VARCHAR",
            f"ALTER TABLE t ALTER {column} SET DATA TYPE DOUBLE",
            f"ALTER TABLE t ALTER {column} TYPE BIGINT USING length(CAST({column} AS VARCHAR))",
            f"ALTER TABLE t ALTER COLUMN {column} SET DEFAULT NULL",
            f"ALTER TABLE t ALTER COLUMN {column} SET NOT NULL",
            f"ALTER TABLE t ALTER COLUMN {column} DROP NOT NULL",
            f"INSERT INTO t (k) VALUES ({100 + step})",
            f"DELETE FROM t WHERE k = {chance.randrange(100)}",
            f"UPDATE t SET {column} = NULL WHERE k % 3 = 0",
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_random_alterations(opened: Open, seed: int) -> None:
    """The oracle has no primary key, which DuckDB does not alter tables under."""
    chance, oracle, altered, told = random.Random(seed), duckdb.connect(), 0, Counter[Any]()
    db = opened()
    rows = [(k, chance.choice(["1", "2", None]), chance.choice([0.5, 3.0, None])) for k in range(40)]
    for each in (oracle, db):
        each.execute(T if each is db else T.replace(" PRIMARY KEY", ""))
        for name, query in VIEWS.items():
            each.execute(f"CREATE VIEW {name} AS {query}")
    db.insert("t", rows)
    oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    db.view("sums").subscribe(lambda epoch, changes: told.update({row[:-1]: row[-1] for row in listed(changes)}))
    told.update(dict.fromkeys(db.view("sums").rows(), 1))
    for step in range(40):
        names = [name for name, *_ in oracle.execute("DESCRIBE t").fetchall()]
        sql = statement(chance, names, step)
        try:
            db.execute(sql)
        except ViewletError:
            pass
        else:
            oracle.execute("DROP VIEW IF EXISTS every")
            oracle.execute(sql)
            oracle.execute("CREATE VIEW every AS SELECT * FROM t")
            altered += sql.startswith("ALTER")
        assert ordered(db.table("t").rows()) == ordered(oracle.execute("FROM t").fetchall()), sql
        for name in VIEWS:
            assert ordered(db.view(name).rows()) == ordered(oracle.execute(f"FROM {name}").fetchall()), (sql, name)
        if "durability" not in db.stats():
            assert +told == Counter(db.view("sums").rows()), sql
        elif step % 9 == 8:
            epoch = db.epoch
            db.close()
            db = opened()
            assert db.epoch == epoch
    assert altered > 8
    db.close()


def listed(changes: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in changes.columns), strict=True))


def test_constraints_follow_their_table(db: Any) -> None:
    db.execute("CREATE TABLE p (k INTEGER PRIMARY KEY, x INTEGER CHECK (x > 0)); INSERT INTO p VALUES (1, 1), (2, 2)")
    db.execute("CREATE TABLE c (p INTEGER REFERENCES p, q INTEGER); INSERT INTO c VALUES (1, 1), (1, 2)")
    db.execute("ALTER TABLE p ADD y INTEGER DEFAULT 5; ALTER TABLE c ADD UNIQUE (q); ALTER TABLE p ALTER x TYPE BIGINT")
    refused = ["INSERT INTO c VALUES (3, 3)", "DELETE FROM p WHERE k = 1", "UPDATE p SET x = 0", "UPDATE c SET q = 1"]
    for sql in refused:
        with pytest.raises(DataError, match="breaks"):
            db.execute(sql)
    with pytest.raises(DataError, match=r"c: \(p=1\) breaks UNIQUE \(p\)"):
        db.execute("ALTER TABLE c ADD CONSTRAINT one UNIQUE (p)")
    with pytest.raises(SchemaError, match=r"CHECK \(x > 0\) would no longer fit 'p': column 'x' does not exist"):
        db.execute("ALTER TABLE p DROP x")
    with pytest.raises(SchemaError, match="has no constraint 'p_x_chek'; did you mean 'p_x_check'"):
        db.execute("ALTER TABLE p DROP CONSTRAINT p_x_chek")
    db.execute("ALTER TABLE p DROP CONSTRAINT p_x_check; ALTER TABLE p DROP x")
    assert sorted(db.table("p").rows()) == [(1, 5), (2, 5)]
    with pytest.raises(DataError, match="FOREIGN KEY"):
        db.execute("DELETE FROM p WHERE k = 1")


def test_a_view_is_replaced_under_its_readers(opened: Open) -> None:
    db, told = opened(), list[Any]()
    db.execute(f"{T}; INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.view("total").subscribe(lambda epoch, changes: told.append(listed(changes)))
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT 'all' AS g, 3 AS n FROM t")
    assert (db.view("total").rows(), told) == ([(6,)], [[(2, -1), (6, 1)]])
    for sql, message in (
        ("CREATE OR REPLACE VIEW sums AS SELECT g FROM t", "view 'total' would no longer fit 'sums': column 'n'"),
        ("CREATE OR REPLACE VIEW sums AS SELECT n FROM total", "cannot read 'total', which reads it"),
        ("CREATE OR REPLACE VIEW sums AS SELECT n FROM sums", "cannot read itself|cannot read 'sums'"),
    ):
        with pytest.raises(SchemaError, match=message):
            db.execute(sql)
    db.insert("t", [(3, "c", 1.0)])
    assert (db.view("total").rows(), told[1:]) == ([(9,)], [[(6, -1), (9, 1)]])
    if "durability" in db.stats():
        db.close()
        db = opened()
        db.insert("t", [(4, "c", 1.0)])
        assert db.view("total").rows() == [(12,)]
    db.close()


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("ALTER TABLE nobody ADD c INTEGER", SqlError, "nobody"),
        ("ALTER TABLE t ADD k INTEGER", SqlError, "there is a column 'k' already"),
        ("ALTER TABLE t ADD c DATE NOT NULL", DataError, "NULL is refused"),
        ("ALTER TABLE t DROP nobody", SqlError, "nobody"),
        ("ALTER TABLE t DROP k", SqlError, "part of the PRIMARY KEY"),
        ("ALTER TABLE t RENAME g TO x", SqlError, "there is a column 'x' already"),
        ("ALTER TABLE t RENAME TO s", SchemaError, "already a stream 's'|already a table 's'"),
        ("ALTER TABLE t ALTER g TYPE INTEGER", DataError, "Could not convert|not an INTEGER|Conversion"),
        ("ALTER TABLE t ADD PRIMARY KEY (g)", SqlError, "one PRIMARY KEY"),
        ("ALTER TABLE t ADD c INTEGER, DROP x", ViewletError, "one thing at a time|syntax|not supported"),
        ("ALTER TABLE s ADD c INTEGER", SqlError, "is a STREAM"),
        ("ALTER TABLE v ADD c INTEGER", SqlError, "is a VIEW"),
        ("ALTER TABLE t SET SCHEMA x", UnsupportedError, "ALTER"),
        ("BEGIN; ALTER TABLE t ADD c INTEGER", SchemaError, "COMMIT or ROLLBACK first"),
    ],
)
def test_refusals(db: Any, sql: str, error: type[Exception], message: str) -> None:
    db.execute(f"{T}; INSERT INTO t VALUES (1, 'a', 1); CREATE STREAM s (a INTEGER); CREATE VIEW v AS SELECT k FROM t")
    before = db.epoch
    with pytest.raises(error, match=message):
        db.execute(sql)
    assert (db.table("t").rows(), db.view("v").rows(), db.epoch) == ([(1, "a", 1.0)], [(1,)], before)


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewlet.connect(tmp_path) as db:
        db.execute(f"{T}; INSERT INTO t VALUES (1, 'a', 1); CREATE VIEW sums AS {VIEWS['sums']}")
        db.checkpoint()
        with monkeypatch.context() as patch:

            def full(*arguments: Any, **more: Any) -> None:
                raise StateError("no space left")

            patch.setattr(StateStore, "commit", full)
            for sql in ("ALTER TABLE t ADD c INTEGER", "CREATE OR REPLACE VIEW sums AS SELECT k FROM t"):
                with pytest.raises(StateError, match="no space left"):
                    db.execute(sql)
        db.execute("INSERT INTO t VALUES (2, 'a', 2)")
        assert db.view("sums").rows() == [("a", 3.0, 2)]
    with viewlet.connect(tmp_path) as db:
        assert db.view("sums").rows() == [("a", 3.0, 2)]


@pytest.mark.parametrize("at", range(20, 2000, 90))
def test_an_interrupt_leaves_it_done_or_undone(at: int) -> None:
    db = viewlet.connect(engine="interpreter")
    db.execute(f"{T}; INSERT INTO t VALUES (1, 'a', 1); CREATE VIEW every AS SELECT * FROM t")
    db.execute(f"CREATE VIEW sums AS {VIEWS['sums']}; CREATE VIEW total AS {VIEWS['total']}")
    with suppress(KeyboardInterrupt), Interruption(at):
        db.execute("ALTER TABLE t ADD c INTEGER DEFAULT 7")
    more = (7,) if "c" in db.table("t").columns else ()
    assert db.table("t").rows() == db.view("every").rows() == [(1, "a", 1.0, *more)]
    db.execute("INSERT INTO t (k, g, x) VALUES (2, 'a', 2)")
    assert db.view("every").rows() == [(1, "a", 1.0, *more), (2, "a", 2.0, *more)]
    assert (db.view("sums").rows(), db.view("total").rows()) == ([("a", 3.0, 2)], [(2,)])
    if not more:
        db.execute("ALTER TABLE t ADD c INTEGER DEFAULT 7")
