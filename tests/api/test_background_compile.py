"""Views move to compiled code between two batches, and nobody can tell from their rows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from tests.sql.test_stacked_aggregates import QUERIES as QUERIES_IN_LAYERS
from viewlet import Connection
from viewlet.engine import background, build, compile_ahead, trigger_programs
from viewlet.engine import chooser as engines
from viewlet.engine.background import BackgroundCompiler, Task
from viewlet.engine.declaration import declared_by
from viewlet.sql import CreateTable, parse_statements
from viewlet.triggers.sources import Sources
from viewlet.triggers.statistics import UNKNOWN

QUERIES = {
    "grouped": "SELECT k, SUM(x) AS x, COUNT(*) AS n FROM a GROUP BY k",
    "joined": "SELECT a.k, y, SUM(x * y) AS xy, MIN(x) AS low FROM a JOIN b ON a.k = b.k GROUP BY a.k, y",
    "nested": "SELECT k, x FROM a WHERE x > (SELECT AVG(y) FROM b WHERE b.k = a.k)",
    "names": "SELECT s, SUM(d) AS d FROM a WHERE s LIKE 'p%' GROUP BY s",
    "first": "SELECT k, SUM(x) AS x FROM a GROUP BY k ORDER BY x DESC LIMIT 2",
}
KINDS = {"tables": ("TABLE", "TABLE"), "streams": ("STREAM", "STREAM"), "mixed": ("STREAM", "TABLE")}
A = [(1, 5, "pear", 0.5), (2, 7, "plum", None), (1, None, None, 0.1), (3, -4, "fig", 2.5), (None, 2, "pear", -1.0)]
B = [(1, 3), (1, 4), (2, 6), (3, None), (None, 9)]
BATCHES: list[dict[str, Any]] = [
    {"a": A[:3], "b": B[:2]},
    {"a": [(*A[3], 1), (*A[4], 1), (*A[0], 1)], "b": B[2:]},
    {"a": [(*A[0], -1), (*A[1], 2)]},
    {"b": [(*B[0], -1), (*B[2], 1)]},
    {"a": [(*A[0], -1), (*A[1], -3), (*A[3], 1)], "b": [(*B[1], -1)]},
]
NAMES = {"a": ("k", "x", "s", "d"), "b": ("k", "y")}


@pytest.fixture(autouse=True)
def low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "COMPILE_AFTER_ROWS", 2)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Task[Any]]:
    """Tasks that were begun; a test runs them when it wants."""
    tasks: list[Task[Any]] = []

    def hold(compiler: BackgroundCompiler, task: Task[Any]) -> Task[Any]:
        tasks.append(task)
        return task

    monkeypatch.setattr(BackgroundCompiler, "submit", hold)
    return tasks


def declared(kinds: str, engine: str = "auto", path: Path | None = None, views: str = " ".join(QUERIES)) -> Connection:
    db = viewlet.connect(path, engine=engine)
    of_a, of_b = KINDS[kinds]
    db.execute(f"CREATE {of_a} a (k BIGINT, x BIGINT, s VARCHAR, d DOUBLE); CREATE {of_b} b (k BIGINT, y BIGINT)")
    for name in views.split():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")
    if "grouped" in views:
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT n, COUNT(*) AS groups FROM grouped GROUP BY n")
    return db


def batch_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Rows with their multiplicity, as the dictionaries that `apply` takes."""
    return {
        table: [dict(zip((*NAMES[table], "_multiplicity"), (*row, 1), strict=False)) for row in rows]
        for table, rows in batch.items()
    }


def rows_of(db: Connection) -> dict[str, Any]:
    return {name: db.view(name).rows() for name in db.views}


def engines_of(db: Connection) -> set[object]:
    return {db.view(name).stats()["engine"] for name in db.views}


# -- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("boundary", range(len(BATCHES) - 1))
def test_a_switch_at_any_boundary_changes_no_answer(kinds: str, boundary: int, held: list[Task[Any]]) -> None:
    db, reference = declared(kinds), declared(kinds, "interpreter")
    heard: dict[str, list[Any]] = {"auto": [], "interpreter": []}
    for each, news in zip((db, reference), heard.values(), strict=True):
        for name in ("grouped", "first", "nested"):
            each.view(name).subscribe(lambda epoch, change, news=news: news.append((epoch, change.to_pylist())))
    for number, batch in enumerate(BATCHES):
        for each in (db, reference):
            each.apply(batch_of(batch))
        assert rows_of(db) == rows_of(reference)
        if number == boundary:
            for task in held:
                task.run()
    db.settle(0)
    assert rows_of(db) == rows_of(reference)
    assert heard["auto"] == heard["interpreter"]
    for name in ("grouped", "joined", "names", "first"):
        assert db.view(name).stats()["engine"] == "compiled", name


def test_until_the_code_is_there_the_interpreter_says_so(held: list[Task[Any]]) -> None:
    db = declared("streams", views="grouped")
    db.apply(batch_of(BATCHES[0]))
    assert db.explain("grouped", "engine") == "interpreter: it is being compiled"
    assert db.settle(0) is False
    for task in held:
        task.run()
    assert db.settle() is True
    assert db.explain("grouped", "engine") == "compiled: there were more than 2 changed rows"
    assert db.settle() is True


def test_a_batch_that_fails_after_the_switch_is_taken_back(held: list[Task[Any]]) -> None:
    db, reference = (declared("mixed", engine, views="joined") for engine in ("auto", "interpreter"))
    for batch in BATCHES[:2]:
        for each in (db, reference):
            each.apply(batch_of(batch))
    for task in held:
        task.run()
    with pytest.raises(viewlet.DataError):
        db.apply({"a": A, "b": [{"k": 77, "y": 77, "_multiplicity": -1}]})
    for batch in BATCHES[2:]:
        for each in (db, reference):
            each.apply(batch_of(batch))
        assert rows_of(db) == rows_of(reference)
    assert "compiled" in engines_of(db)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("done", [False, True])
def test_a_directory_closed_while_its_views_are_compiled(
    kinds: str, done: bool, held: list[Task[Any]], tmp_path: Path
) -> None:
    reference = declared(kinds, "interpreter", views="grouped names")
    path = tmp_path / "shop"
    declared(kinds, path=path, views="grouped names").close()
    for batch in BATCHES[:3]:
        with viewlet.connect(path) as db:
            db.apply(batch_of(batch))
            for task in held:
                if done:
                    task.run()
            db.settle(0)
        held.clear()
        reference.apply(batch_of(batch))
        with viewlet.connect(path) as db:
            assert rows_of(db) == rows_of(reference)
            assert ("compiled" in engines_of(db)) is done


@pytest.mark.parametrize("kinds", ["streams", "mixed"])
def test_a_log_of_columns_is_replayed_by_the_interpreter(kinds: str, held: list[Task[Any]], tmp_path: Path) -> None:
    """Columns that compiled code took are in the log when the process is killed; the next one has no code yet."""
    import pyarrow as pa

    later = [(5, 6, "plum", 1.5), (1, 7, None, 0.25)]
    reference = declared(kinds, "interpreter", views="grouped names")
    db = declared(kinds, path=tmp_path / "shop", views="grouped names")
    for each in (db, reference):
        each.apply(batch_of(BATCHES[0]))
    for task in held:
        task.run()
    columns = dict(zip(NAMES["a"], map(list, zip(*later, strict=True)), strict=True))
    for each in (db, reference):
        each.insert("a", pa.table(columns))
    assert engines_of(db) >= {"compiled"}
    shutil.copytree(tmp_path / "shop", tmp_path / "killed")
    db.close()
    with viewlet.connect(tmp_path / "killed") as found:
        assert rows_of(found) == rows_of(reference)
        for each in (found, reference):
            each.apply(batch_of(BATCHES[2]))
        assert rows_of(found) == rows_of(reference)


def test_rings_move_too(held: list[Task[Any]]) -> None:
    found = []
    for engine in ("auto", "interpreter"):
        db = viewlet.connect(engine=engine)
        db.execute("CREATE STREAM t (g BIGINT, x DOUBLE, y DOUBLE); CREATE STREAM u (g BIGINT, z DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT g, COFACTOR(x, z) AS c FROM t NATURAL JOIN u GROUP BY g")
        db.execute("CREATE MATERIALIZED VIEW f AS SELECT FACTORIZED g, x, z FROM t NATURAL JOIN u")
        db.apply({"t": [(1, 2.0, 3.0), (2, 1.0, 1.0)], "u": [(1, 4.0), (1, 5.0)]})
        for task in held:
            task.run()
        db.insert("u", [(2, 1.5)])
        db.delete("t", [(1, 2.0, 3.0)])
        if engine == "auto":
            assert engines_of(db) == {"compiled"}
        found.append((sorted(db.view("f").rows()), {g: c.sums.tolist() for g, c in db.view("m").cofactor().items()}))
    assert found[0] == found[1]


# -- views that change meanwhile --------------------------------------------------------------------------------------


def test_a_view_dropped_or_replaced_while_it_is_compiled(held: list[Task[Any]]) -> None:
    db = declared("tables", views="joined names")
    db.apply(batch_of(BATCHES[0]))
    db.execute("DROP VIEW joined")
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW names AS SELECT s, COUNT(*) AS n FROM a GROUP BY s")
    for task in held:
        task.run()
    db.settle(0)
    db.apply(batch_of(BATCHES[1]))
    assert db.view("names").rows() == [("fig", 1), ("pear", 3), ("plum", 1), (None, 1)]
    assert "joined" not in db.views


def test_a_view_that_is_watched_meanwhile_stays_where_its_changes_are_known(held: list[Task[Any]]) -> None:
    db, heard = declared("tables", views="joined"), []
    db.apply(batch_of(BATCHES[0]))
    db.view("joined").subscribe(lambda epoch, change: heard.append(change.num_rows))
    for task in held:
        task.run()
    db.apply(batch_of(BATCHES[1]))
    assert db.view("joined").stats()["engine"] == "interpreter"
    assert "its changes are wanted after every batch" in db.explain("joined", "engine")
    assert len(heard) == 1


def test_an_interrupt_while_the_code_is_filled_changes_nothing(
    held: list[Task[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from viewlet.codegen.view import CompiledView

    db, reference = (declared("tables", engine, views="grouped names") for engine in ("auto", "interpreter"))
    for each in (db, reference):
        each.apply(batch_of(BATCHES[0]))
    for task in held:
        task.run()
    load = CompiledView.load

    def interrupted(view: CompiledView) -> None:
        load(view)
        raise KeyboardInterrupt

    monkeypatch.setattr(CompiledView, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.apply(batch_of(BATCHES[1]))
    assert (db.epoch, rows_of(db)) == (1, rows_of(reference))
    monkeypatch.undo()
    for each in (db, reference):
        each.apply(batch_of(BATCHES[1]))
    assert rows_of(db) == rows_of(reference)


# -- large batches ----------------------------------------------------------------------------------------------------


def test_a_large_batch_runs_on_code_that_is_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python needs no compiling, which counts as cached."""
    monkeypatch.setattr(engines, "LARGE_BATCH", 4)
    db, reference = (declared("mixed", engine, views="grouped") for engine in ("auto", "interpreter"))
    for each in (db, reference):
        each.insert("a", A)
    assert db.view("grouped").stats()["engine"] == "compiled"
    assert rows_of(db) == rows_of(reference)


# -- threads and processes --------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A second process that is slow, as one that compiles is."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
        return started[-1]

    monkeypatch.setattr(background, "_start", start)
    monkeypatch.setattr(engines, "request", lambda *_: "{}")
    yield started
    for process in started:
        process.kill()


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_close_ends_the_second_process(sleeper: list[subprocess.Popen[bytes]]) -> None:
    db = declared("streams", views="grouped names")
    db.apply(batch_of(BATCHES[0]))
    wait_for(lambda: sleeper)
    began = time.monotonic()
    db.close()
    assert time.monotonic() - began < 10
    assert sleeper[0].wait(5) == -signal.SIGKILL
    assert len(sleeper) == 1  # what waited behind it does not start


def test_a_second_process_that_fails_leaves_the_work_to_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr(background, "_start", lambda: subprocess.Popen(command, stdin=subprocess.PIPE))
    monkeypatch.setattr(engines, "request", lambda *_: "{}")
    db = viewlet.connect()
    db.execute("CREATE STREAM a (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    db.insert("a", [(1,), (1,), (2,), (3,)])
    assert db.settle(60)
    assert (db.view("v").stats()["engine"], db.view("v").rows()) == ("compiled", [(1, 2), (2, 1), (3, 1)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_compilations_of_its_parent_alone(sleeper: list[subprocess.Popen[bytes]]) -> None:
    db = declared("streams", views="grouped names")
    db.apply(batch_of(BATCHES[0]))
    wait_for(lambda: sleeper)
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(viewlet.StateError, match="forked"):
                db.settle(0)
            db.close()
            background._close_all()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sleeper[0].poll() is None
    db.close()


SCRIPT = """
import viewlet, sys
from viewlet.engine import chooser as engines
engines.COMPILE_AFTER_ROWS = 2
db = viewlet.connect()
db.execute("CREATE STREAM a (k BIGINT, x BIGINT)")
db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS x FROM a GROUP BY k")
db.insert("a", [(1, 2), (1, 3), (2, 4)])
assert db.explain("v", "engine") == "interpreter: it is being compiled"
"""
SETTLED = """
assert db.settle(300)
assert db.view("v").stats()["engine"] == "compiled"
from viewlet.codegen import module_cache
(code,) = [module for name, module in sys.modules.items() if name.startswith("viewlet_triggers_")]
stats = code.on_a.stats
assert stats.cache_hits and not stats.cache_misses, stats
db.insert("a", [(2, 5)])
assert db.view("v").rows() == [(1, 5), (2, 9)]
"""


def test_the_second_process_ends_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.engine import compile_ahead

    parents, ended = [7, 7, 1], []
    monkeypatch.setattr(compile_ahead, "_WATCH", 0)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0))
    monkeypatch.setattr(os, "_exit", ended.append)
    compile_ahead.end_with_parent(7)
    assert (parents, ended) == ([], [0])


@pytest.mark.parametrize("script", [SCRIPT, SCRIPT + SETTLED], ids=["ends at once", "waits"])
def test_with_numba_in_a_process_of_its_own(script: str, tmp_path: Path) -> None:
    """The second process compiles, this one loads; and a program that ends meanwhile ends at once and in silence."""
    environment = os.environ | {"VIEWLET_JIT": "1", "VIEWLET_CACHE": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_code_that_would_take_minutes_to_compile_is_left_alone(
    held: list[Task[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there are many rows at once or after a while; who asks for compiled code gets it."""
    monkeypatch.setattr(trigger_programs, "MOST_CODE", 100)
    with declared("tables", views="joined") as db:
        for batch in BATCHES:
            db.apply(batch_of(batch))
        for task in held:
            task.run()
        db.apply(batch_of(BATCHES[0]))
        db.execute(f"CREATE MATERIALIZED VIEW later AS {QUERIES['grouped']}")
        for view in ("joined", "later"):
            assert "compiling it would take minutes" in db.explain(view, "engine")
            assert not db.view(view).stats()["engine"].startswith("compiled")
    with declared("tables", engine="compiled", views="joined") as db:
        assert "asked for" in db.explain("joined", "engine")


@pytest.mark.parametrize("query", [QUERIES["joined"], QUERIES_IN_LAYERS["derived tables"]])
def test_the_second_process_writes_the_same_code(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIEWLET_JIT", raising=False)
    found: list[Any] = []
    monkeypatch.setattr(build, "build_compiled", lambda *_, draft, **__: found.append(draft))
    created = parse_statements(
        "CREATE TABLE a (k BIGINT, x BIGINT); CREATE TABLE b (k BIGINT, y BIGINT); "
        "CREATE TABLE t0 (k BIGINT, v BIGINT, n BIGINT NOT NULL)",
        {},
    )
    schemas = {each.table.name: each.table for each in created if isinstance(each, CreateTable)}
    view = declared_by(f"CREATE MATERIALIZED VIEW q AS {query}", schemas, layered=True)
    read = {name: schemas[name] for name in view.sources}
    text = compile_ahead.request(view, read, UNKNOWN)
    assert text is not None
    compile_ahead.compile_ahead(text)
    assert found == [build.draft_for_auto(view, Sources(read, {}), UNKNOWN)]
