"""Directories and checkpoints with hostile names in them: opening one runs nothing, and names stay inside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import viewlet
from tests.security.hostile import BREAKING_OUT, CANARY, NAMES, drawn, nothing_called, quoted
from tests.security.test_names import Case
from viewlet.connection.spark_facade import connect_inline
from viewlet.spark.run.state.partition import forget

TREE_OF_PATHS = ["..", ".", "../../x", "a/b", "n" * 5_000, "ü" * 200, "~", "$(x)"]
CASES = [list(BREAKING_OUT[:8]), list(BREAKING_OUT[8:16]), TREE_OF_PATHS, drawn(Random(7), 8)]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    forget()


def applied(db: viewlet.Connection, case: Case) -> list[tuple[object, ...]]:
    for batch in case.batches:
        db.apply(batch)
    return db.view(case.view).rows()


@pytest.mark.parametrize("names", CASES, ids=lambda names: ascii(names[0][:16]))
def test_opening_a_database_runs_nothing(tmp_path: Path, names: list[str]) -> None:
    case, folder = Case(names), tmp_path / "database"
    with nothing_called():
        with viewlet.connect(folder, engine="compiled") as db:
            case.declare(db)
            expected = applied(db, case)
            db.checkpoint()
        for engine in ("compiled", "interpreter", "auto"):
            with viewlet.connect(folder, engine=engine) as db:
                assert db.view(case.view).rows() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["database"]


@pytest.mark.parametrize("names", CASES, ids=lambda names: ascii(names[0][:16]))
def test_opening_a_checkpoint_runs_nothing(tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the engine that Spark runs, without Spark: state, logs, snapshots, and the changes of a view as files."""
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "state"))
    case, folder = Case(names), tmp_path / "checkpoint"
    with nothing_called():
        with connect_inline(str(folder), 2, engine="compiled") as db:
            case.declare(db)
            db.changes(case.view)
            expected = applied(db, case)
            db.checkpoint()
        with connect_inline(str(folder), 2, engine="compiled") as db:
            assert db.view(case.view).rows() == expected
            assert viewlet.changes_of(folder, case.view).num_rows > 0
            db.execute(f"DROP MATERIALIZED VIEW {quoted(case.view)}")
        with connect_inline(str(folder), 2, engine="compiled") as db:
            assert len(db.table(case.fact)) == 5
    assert {path.name for path in tmp_path.iterdir()} <= {"checkpoint", "state"}


def test_the_changes_of_every_view_have_a_folder_of_their_own() -> None:
    from viewlet.spark.run.exchange.change_files import folder_of_view

    folders = [folder_of_view(name) for name in NAMES]
    assert len(set(folders)) == len(NAMES)
    for folder in folders:
        outer, _, inner = folder.partition("/")
        assert outer == "changes"
        assert inner.strip(".")
        assert "/" not in inner
        assert len(inner.encode()) <= 200


def test_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Numba, in a process of its own: the rest runs generated code as Python."""
    pytest.importorskip("numba")
    name = BREAKING_OUT[0]
    sums = 'SUM("ﬁ") AS a, SUM("fi") AS b, SUM(multiplicity) AS c'
    view = f"CREATE MATERIALIZED VIEW {quoted(name)} AS SELECT {sums} FROM t"
    script = f"""
import builtins, viewlet
calls = []
builtins.{CANARY} = lambda: calls.append(1)
db = viewlet.connect(engine="compiled")
db.execute('CREATE TABLE t ("ﬁ" BIGINT NOT NULL, "fi" BIGINT NOT NULL, multiplicity BIGINT NOT NULL)')
db.execute({view!r})
db.insert("t", [(1, 100, 7)] * 3)
print(db.view({name!r}).rows(), calls)
"""
    monkeypatch.setenv("VIEWLET_JIT", "1")
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout.strip() == "[(3, 300, 21)] []", ran.stderr
