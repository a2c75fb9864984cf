"""The hosts of parts: DuckDB in a file, PostgreSQL, and Arrow batches as they come."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.streams import postgres
from tests.streams.host_programs import check
from tests.streams.meanings import check_meanings, check_refusals
from tests.streams.model import at
from tests.streams.test_durable import BATCHES, contents, declare
from viewlet.streams import DuckDBHost, PostgresHost, postgres_host
from viewlet.streams.host import PartHost
from viewlet.streams.warehouse import Warehouse


def test_duckdb_in_a_file(tmp_path: Path) -> None:
    check(lambda: DuckDBHost(str(tmp_path / "parts.duckdb")), tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if (reason := postgres.obstacle()) is not None:
        pytest.skip(reason)
    with postgres.cluster() as connection:
        yield connection


@pytest.fixture
def connection(server: str) -> str:
    drop = "DROP SCHEMA IF EXISTS viewlet, viewlet_streams CASCADE"
    subprocess.run(["psql", "-X", "-q", "-d", server, "-c", drop], check=True)
    return server


def test_postgresql(connection: str, tmp_path: Path) -> None:
    check(lambda: PostgresHost(connection), tmp_path)


def test_patterns_on_postgresql(connection: str) -> None:
    host = PostgresHost(connection)
    assert host.read("SELECT * FROM (VALUES (NULL), ('a'), ('')) AS v(g)").column("g").to_pylist() == [None, "a", ""]
    db = viewlet.connect(streams=host)
    db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
    db.execute("""CREATE VIEW v AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a+, b]
        WHERE a.x > 1 AND b.x > a.x GROUP BY g""")
    db.execute("CREATE VIEW one AS SELECT g, COUNT(*) AS n FROM m PATTERN [a] WHERE a.x > 1 GROUP BY g")
    db.execute("CREATE VIEW last AS SELECT a.x, b.x AS y FROM m AS a ASOF JOIN m AS b ON a.g = b.g AND a.ts > b.ts")
    db.execute("""CREATE VIEW w AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [a, b+]
        WHERE a.x > 1 AND b.x > 1 GROUP BY g""")
    rows = ((0, 0, 2), (0, 1, 2), (1, 0, 9), (2, 0, 1))
    db.insert("m", [(at(60 * minute + second), "g", x) for minute, second, x in rows])
    assert db.view("v").rows() == [("g", 3, 13, at(60))]
    assert db.view("one").rows() == [("g", 1, at(0)), ("g", 1, at(60))]
    assert sorted(row[:2] for row in db.view("last").rows()) == [(2, 2), (9, 2)]
    assert db.view("w").rows() == [("g", 2, 4, at(0)), ("g", 3, 13, at(60))]
    db.close()


def test_postgresql_hashes_groups_that_may_be_null(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would compare all pairs of rows for IS NOT DISTINCT FROM; the views are those of DuckDB."""
    hosts, queries, found = (PostgresHost(connection), DuckDBHost()), [], []
    creation = hosts[0]._creation
    monkeypatch.setattr(hosts[0], "_creation", lambda table, query: queries.append(query) or creation(table, query))
    for host in hosts:
        db = viewlet.connect(streams=host)
        db.execute("""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, b BOOLEAN, d DATE, n BIGINT, k BIGINT NOT NULL)
            PARTITION LENGTH 60 BY ts""")
        db.execute("""CREATE VIEW runs AS SELECT g, b, d, n, k, COUNT(*) AS ct FROM m PATTERN [a, b+]
            WHERE a.k > 0 AND b.k > 0 GROUP BY g, b, d, n, k""")
        db.execute("CREATE VIEW filled AS SELECT g, n, filled FROM GAPFILL(m PARTITION BY g, n)")
        db.execute("""CREATE VIEW counted AS
            INITIALIZE counted[i] AS SELECT g, ts, 1 AS ct FROM m[i] UPDATE counted[j] AS
            SELECT new.g, new.ts, COALESCE(old.ct, 0) + 1 AS ct FROM m[j] AS new LEFT JOIN counted[j-1] AS old
            ON new.g IS NOT DISTINCT FROM old.g AND new.ts IS DISTINCT FROM old.ts""")
        for minute in range(5):
            rows = [(None, None, None, None), ("", True, at(0).date(), 0), (f"{minute // 2}", False, None, minute % 2)]
            db.insert("m", [(at(60 * minute), *row, 1) for row in rows])
        found.append([sorted(db.view(name).rows(), key=repr) for name in ("runs", "filled", "counted")])
        if host is hosts[0]:
            plans = [
                str(host._records(f"EXPLAIN {query};")) for query in queries if "JOIN" in query or "EXISTS" in query
            ]
        db.close()
    assert found[0] == found[1]
    assert [row[:5] for row in found[0][0]].count((None, None, None, None, 1)) == 3
    assert len(plans) > 8
    assert [plan for plan in plans if "Nested Loop" in plan and "VALUES" not in plan] == []


def tables_to_read(warehouse: Warehouse) -> set[str]:
    """The tables of streams and views; those of helpers are nobody's to read."""
    helpers = ("running_", "pattern_", "matches_")
    return {
        segment.table
        for name, relation in warehouse.catalogue.relations.items()
        if not name.startswith(helpers)
        for part in relation.stored.values()
        for segment in part.segments
    }


def test_parts_on_postgresql_are_partitions_of_one_table(connection: str, tmp_path: Path) -> None:
    """After every batch, also with late rows in parts that were rolled up; the table is what other users read."""
    host = PostgresHost(connection)
    db = viewlet.connect(tmp_path / "db", streams=host)
    db.execute("""CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts
        ROLLUP INTERVAL '3' MINUTES AFTER INTERVAL '2' MINUTES""")
    db.execute("CREATE VIEW sums AS SELECT g, SUM(x) AS x FROM m [WINDOW 5 MINUTES] GROUP BY g")
    db.execute("""CREATE VIEW falls AS SELECT g, x FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
        MEASURES LAST(x) AS x PATTERN (a b) DEFINE b AS x < PREV(x))""")
    warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]

    def check_partitions() -> None:
        attached = host.read("""SELECT parent.relname AS relation, child.relname AS part FROM pg_inherits
            JOIN pg_class AS child ON inhrelid = child.oid JOIN pg_class AS parent ON inhparent = parent.oid""")
        assert {f'viewlet."{name}"' for name in attached.column("part").to_pylist()} == set(
            map(host.source, tables_to_read(warehouse))
        )
        rows = host.read("SELECT ts, g, x FROM viewlet_streams.m ORDER BY ts, g, x").to_pylist()
        assert [tuple(row.values()) for row in rows] == sorted(db.table("m").rows())
        wrong = "SELECT 1 FROM viewlet_streams.m WHERE viewlet_part <> FLOOR(EXTRACT(EPOCH FROM ts) / 60)"
        assert not host.read(wrong).num_rows

    for minute in range(9):
        db.insert("m", [(at(60 * minute), "a", minute % 3), (at(60 * minute + 1), "b", minute)])
        check_partitions()
    assert any(part.segments[0].rolled for part in warehouse.relation("m").stored.values())
    db.insert("m", [(at(70), "c", 7), (at(310), "a", 5)])
    check_partitions()
    db.delete("m", [(at(120), "a", 2), (at(360), "a", 0)])
    check_partitions()
    first = warehouse.relation("m").progress.first
    plan = host._records(f"EXPLAIN SELECT * FROM viewlet_streams.m WHERE viewlet_part = {first};")
    assert sum("Scan" in line for (line,) in plan) == 1
    db.execute("DROP VIEW sums")
    db.execute("CREATE VIEW sums AS SELECT g, x, COUNT(*) AS n FROM m [WINDOW 2 MINUTES] GROUP BY g, x")
    db.insert("m", [(at(600), "a", 1)])
    assert host.read("SELECT * FROM viewlet_streams.sums").column_names[:3] == ["g", "x", "n"]
    assert set(host.relations()) >= {"m", "sums", "falls"}
    db.close()
    again = PostgresHost(connection)
    memory = viewlet.connect(streams=again)  # which removes what is there
    memory.execute("CREATE STREAM m (ts TIMESTAMP) PARTITION LENGTH 60 BY ts")
    assert again.relations() == again.tables() == []
    memory.close()


def test_parts_of_an_earlier_version_on_postgresql(
    connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its views keep their parts, and helpers are made again under names that are not taken."""
    memory = viewlet.connect()
    declare(memory)
    with monkeypatch.context() as earlier:
        earlier.setattr("viewlet.streams.warehouse.digest_of", lambda view: f"earlier {view.name}")
        with viewlet.connect(tmp_path / "db", streams=PostgresHost(connection)) as db:
            declare(db)
            for batch in BATCHES[:3]:
                db.insert("m", batch)
                memory.insert("m", batch)
    for batch in BATCHES[3:]:
        memory.insert("m", batch)
        with viewlet.connect(tmp_path / "db", streams=PostgresHost(connection)) as db:
            db.insert("m", batch)
            assert contents(db) == contents(memory)
            warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
            attached = set(warehouse.host._partitions())
            assert attached == {postgres_host._short(table) for table in tables_to_read(warehouse)}


def test_rows_and_names_are_data_for_psql(connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No value ends the rows of a COPY, and no text starts a program or an answer of its own."""
    monkeypatch.chdir(tmp_path)
    run = "\\! touch pwned"
    texts = [
        "\\.",
        f"a\n\\.\n{run}\n",
        run,
        f"'; {run}\n--",
        f"*/ {run}",
        f"\\\n{run}",
        "a\r\nb\rc",
        "a\tb",
        "\\N",
        "",
        "NULL",
    ]
    texts += [":x", ":'x'", "$$", "q\"u'o", "\u2028", "\x1f\x1e", '"$part0_0"', *(f"viewlet-{n}" for n in range(30))]
    found = []
    for host in (PostgresHost(connection), DuckDBHost()):
        db = viewlet.connect(streams=host)
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts")
        db.execute("CREATE VIEW v AS INITIALIZE v[i] AS SELECT g FROM m[i] UPDATE v[j] AS SELECT g FROM m[j]")
        for text in texts[:12]:
            name, literal = text.replace('"', '""') or "e", text.replace("'", "''")
            query = f"""SELECT '{literal}' AS l, g AS "{name}" FROM m"""
            db.execute(f'CREATE VIEW "{name}" AS INITIALIZE "{name}"[i] AS {query}[i] UPDATE "{name}"[j] AS {query}[j]')
        db.insert("m", [(at(0), text) for text in [*texts, None]])
        db.insert("m", [(at(61), "z")])
        found.append({name: sorted(map(repr, db.view(name).rows())) for name in db.views})
        db.close()
    assert found[0] == found[1]
    assert not (tmp_path / "pwned").exists()
    db = viewlet.connect(streams=PostgresHost(connection))
    db.execute("CREATE STREAM o (ts TIMESTAMP, g VARCHAR) PARTITION LENGTH 60 BY ts")
    with pytest.raises(viewlet.DataError, match="NUL"):
        db.insert("o", [(at(0), "a\0b")])
    db.close()


class InterruptedAnswers:
    """Answers of psql: Ctrl-C comes while the one is read that is `left` answers ahead; never if that is 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self._until = postgres_host._until
        monkeypatch.setattr(postgres_host, "_until", self._read)

    def _read(self, *arguments: Any) -> bytes:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self._until(*arguments)


def test_an_answer_of_psql_that_nobody_waited_for_is_not_taken_for_the_next(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, answers = PostgresHost(connection), InterruptedAnswers(monkeypatch)
    for output in (1, 2):
        answers.left = output
        with pytest.raises(KeyboardInterrupt):
            host._run("SELECT 1 / 0; SELECT 'old';")
        assert host.read("SELECT 7 AS x").to_pylist() == [{"x": 7}]
    host.begin()
    answers.left = 5  # the first of two outputs of COPY, after those of CREATE TABLE and \\set
    with pytest.raises(KeyboardInterrupt):
        host.load("part", pa.table({"x": [1, 2]}))
    host.rollback()
    with pytest.raises(viewlet.DataError, match="division by zero"):
        host._run("SELECT 1 / 0;")
    assert host.read("SELECT 7 AS x").to_pylist() == [{"x": 7}], "psql is still there"
    host.close()


CHAIN = (
    "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts",
    "CREATE VIEW twice AS INITIALIZE twice[i] AS SELECT g, x * 2 AS x FROM m[i] UPDATE twice[j] AS "
    "SELECT g, x * 2 AS x FROM m[j]",
    "CREATE VIEW large AS INITIALIZE large[i] AS SELECT g, x FROM twice[i] WHERE x > 10 UPDATE large[j] AS "
    "SELECT g, x FROM twice[j] WHERE x > 10",
    "CREATE VIEW known AS INITIALIZE known[i] AS SELECT g FROM large[i] UPDATE known[j] AS SELECT g FROM large[j]",
)
"""Views that read each other."""


def test_queries_of_new_parts_are_sent_before_the_first_is_answered(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = PostgresHost(connection)
    db, calls = viewlet.connect(streams=host), []
    for statement in CHAIN:
        db.execute(statement)
    db.insert("m", [(at(0), "a", 4), (at(1), "b", 7)])
    for name in ("_post", "_answer"):
        call = getattr(host, name)
        monkeypatch.setattr(host, name, lambda *given, n=name, c=call: calls.append((n, given[0])) or c(*given))
    db.insert("m", [(at(60), "a", 1)])
    db.insert("m", [(at(120), "a", 9)])
    made = [i for i, (name, text) in enumerate(calls) if name == "_post" and text.startswith("CREATE TABLE viewlet.")]
    chain = [i for i in made if " AS SELECT" in calls[i][1]]
    assert [calls[i][0] for i in range(chain[0], chain[0] + 6)] == ["_post"] * 3 + ["_answer"] * 3
    rows = {name: [part.rows for part in db.view(name).parts()] for name in ("twice", "large", "known")}
    assert rows == {"twice": [2, 1], "large": [1, 0], "known": [1, 0]}
    db.insert("m", [(at(5), "c", 100)])
    assert [part.rows for part in db.view("known").parts()] == [2, 0]
    assert sorted(db.view("large").rows()) == [("b", 14, at(0)), ("c", 200, at(0))]
    db.close()


def test_a_query_that_fails_behind_others_undoes_the_batch(connection: str, tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "db", streams=PostgresHost(connection)) as db:
        for statement in CHAIN:
            db.execute(statement)
        db.insert("m", [(at(0), "a", 2**62), (at(1), "b", 7)])
        for _ in range(2):
            with pytest.raises(viewlet.DataError, match="out of range"):
                db.insert("m", [(at(60), "a", 1)])
            assert [part.rows for part in db.view("twice").parts()] == []
        db.delete("m", [(at(0), "a", 2**62)])
        db.insert("m", [(at(60), "a", 1)])
        assert db.view("known").rows() == [("b", at(0))]
    with viewlet.connect(tmp_path / "db", streams=PostgresHost(connection)) as db:
        assert db.view("known").rows() == [("b", at(0))]
        warehouse = db._session.database().host.warehouse  # type: ignore[attr-defined]
        assert set(map(warehouse.host.source, warehouse.catalogue.uses)) == set(
            map(warehouse.host.source, warehouse.host.tables())
        )


def test_an_interrupt_while_tables_are_made_undoes_the_batch(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    db, answers = viewlet.connect(streams=PostgresHost(connection)), InterruptedAnswers(monkeypatch)
    for statement in CHAIN:
        db.execute(statement)
    db.insert("m", [(at(0), "a", 4), (at(1), "b", 7)])
    steps = 0
    while True:
        steps += 1
        answers.left = steps
        try:
            db.insert("m", [(at(60), "a", 1)])
        except KeyboardInterrupt:
            answers.left = 0
            if len(db.view("known")):
                break
            continue
        break
    answers.left = 0
    assert steps > 14
    assert db.view("known").rows() == [("b", at(0))]
    assert [part.rows for part in db.view("large").parts()] == [1]
    db.close()


class Kill(BaseException):
    """What a test raises where the process would end."""


@pytest.mark.parametrize("step", [2, 6, 9, 12, 15, 17])
def test_a_kill_on_postgresql_leaves_a_batch_done_or_not(
    step: int, connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = PostgresHost(connection)
    db = viewlet.connect(tmp_path / "db", streams=host)
    expected = [viewlet.connect() for _ in range(2)]
    for each in (db, *expected):
        declare(each)
        for batch in BATCHES[:4]:
            each.insert("m", batch)
    expected[1].insert("m", BATCHES[4])
    original, done = host._post, 0

    def post(*arguments: Any, **named: Any) -> bytes:
        nonlocal done
        done += 1
        if done == step:
            shutil.copytree(tmp_path / "db", tmp_path / "copy")
            host._process.kill()
            raise Kill
        return original(*arguments, **named)

    monkeypatch.setattr(host, "_post", post)
    with contextlib.suppress(Kill, viewlet.ViewletError):
        db.insert("m", BATCHES[4])
    if not (tmp_path / "copy").exists():
        pytest.skip(f"the batch has {done} steps")
    with viewlet.connect(tmp_path / "copy", streams=PostgresHost(connection)) as again:
        assert contents(again) == contents(expected[again.epoch - 4])
        for batch in BATCHES[again.epoch :]:
            again.insert("m", batch)
        expected[1].insert("m", BATCHES[5])
        assert contents(again) == contents(expected[1])


def test_arrow_batches_are_stored_as_they_come(tmp_path: Path) -> None:
    import pyarrow as pa

    times = pa.array([at(0), at(61), at(62)], pa.timestamp("us"))
    batch = pa.table(
        {"ts": times, "g": pa.array(["a", None, "b"], pa.large_string()), "x": pa.array([1, 2, 3], pa.int32())}
    )
    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(x) AS x FROM m")
        db.stream_view("copy", initialize="SELECT g, x FROM m[i]")
        db.insert("m", batch)
        db.apply({"m": batch.slice(1)})
        db.delete("m", batch.slice(2))
        assert db.view("n").rows() == [(4, 8)]
        assert db.view("copy").rows() == [("a", 1, at(0))]
        with pytest.raises(viewlet.DataError, match="NULL"):
            db.insert("m", batch.set_column(0, "ts", pa.nulls(3, pa.timestamp("us"))))
    with viewlet.connect(tmp_path / "db") as db:
        assert len(db.table("m")) == 4


def test_another_state_of_the_server_is_refused(connection: str, tmp_path: Path) -> None:
    """The server was restored from a copy, and the directory was not; or another directory's parts are there."""

    def opened(name: str = "db") -> viewlet.Connection:
        return viewlet.connect(tmp_path / name, streams=PostgresHost(connection))

    def restore(schemas: bytes) -> None:
        drop = ["psql", "-X", "-q", "-d", connection, "-c", "DROP SCHEMA viewlet, viewlet_streams CASCADE"]
        subprocess.run(drop, check=True, capture_output=True)
        subprocess.run(["psql", "-X", "-q", "-d", connection], input=schemas, check=True, capture_output=True)

    def dump() -> bytes:
        command = [f"{postgres.binaries()}/pg_dump", "-d", connection, "-n", "viewlet", "-n", "viewlet_streams"]
        return subprocess.run(command, check=True, capture_output=True).stdout

    with opened() as db:
        declare(db)
        db.insert("m", BATCHES[0])
    older = dump()
    with opened() as db:
        db.insert("m", BATCHES[1])
        expected = contents(db)
    newer = dump()
    restore(older)
    with pytest.raises(viewlet.StateError, match="PostgreSQL database are not those that were committed here last"):
        opened()
    restore(newer)
    with opened() as db:
        assert contents(db) == expected
    with opened("new") as db, pytest.raises(viewlet.StateError, match="are those of another database"):
        declare(db)


def test_the_parts_of_a_database_in_memory_are_not_taken_for_those_of_a_directory(
    connection: str, tmp_path: Path
) -> None:
    def host(kind: int) -> PartHost:
        return PostgresHost(connection) if kind == 0 else DuckDBHost(str(tmp_path / "parts.duckdb"))

    for kind in range(2):
        db = viewlet.connect(streams=host(kind))
        declare(db)
        db.insert("m", BATCHES[0])
        db.close()
        with (
            viewlet.connect(tmp_path / f"db {kind}", streams=host(kind)) as db,
            pytest.raises(viewlet.StateError, match="another database, and this one has none yet"),
        ):
            declare(db)


def test_queries_mean_on_postgresql_what_they_mean_on_duckdb(connection: str) -> None:
    with viewlet.connect(streams=PostgresHost(connection)) as db:
        check_meanings(db)


def test_what_postgresql_cannot_do_is_refused_at_once(connection: str) -> None:
    with viewlet.connect(streams=PostgresHost(connection)) as db:
        check_refusals(db)
