"""Matrix programs over blocks of rows beside NumPy: the same answers, bytes that are counted, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.errors import StateError
from viewlet.spark.matrices import SparkMatrices, backend, block_state
from viewlet.spark.matrices.blocks import Blocks
from viewlet.spark.run.execution.cluster import InlineCluster

ROOT = Path(__file__).parents[2]
n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
SIZE = 30
POWER = linalg.program(C=linalg.matrix_power(A, 8, model="exponential"))


@pytest.fixture(autouse=True)
def _small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of a few rows, so that small matrices behave like large ones."""
    monkeypatch.setattr(backend, "SMALL", 20)
    monkeypatch.setattr(backend, "THIN", 3)
    monkeypatch.setenv("VIEWLET_STATE", str(tmp_path / "mapped"))
    yield
    while block_state._kept:
        block_state._kept.popitem()[1].close()


def matrices(checkpoint: Path, partitions: int = 3) -> SparkMatrices:
    return SparkMatrices(cluster=InlineCluster(), checkpoint=checkpoint, partitions=partitions, sync=False)


def start(seed: int = 0, size: int = SIZE) -> Any:
    return np.random.default_rng(seed).standard_normal((size, size)) / (1.1 * size**0.5)


@pytest.mark.parametrize(("strategy", "partitions"), [("incremental", 3), ("reevaluate", 4), ("auto", 1)])
def test_mixed_updates_equal_numpy(strategy: str, partitions: int, tmp_path: Path) -> None:
    program = linalg.program(
        C=linalg.matrix_power(A, 4, model="exponential"),
        W=linalg.inv(3 * linalg.identity(n) + A.T),
        S=A.T @ A + A @ A.T - linalg.identity(n),
        Q=linalg.vstack([A, A.T @ A.T]) @ linalg.hstack([A, A]),
    )
    rng = np.random.default_rng(1)
    a = start()
    run = program.start(A=a, backend=matrices(tmp_path, partitions), strategy=strategy)
    for i in range(4):
        row, column = rng.standard_normal((2, SIZE)) / 10
        run.set_row("A", i, row)
        run.set_column("A", 2 * i, column)
        run.set("A", i, -1, 0.5)
        u, v = rng.standard_normal((2, SIZE, 2)) / 10
        run.update("A", u, v)
        a[i], a[:, 2 * i], a[i, -1] = row, column, a[i, -1]
        a[:, 2 * i] = column
        a[i, -1] = 0.5
        a += u @ v.T
    assert relative_error(run["A"], a) < 1e-15
    wanted = {
        "C": np.linalg.matrix_power(a, 4),
        "W": np.linalg.inv(3 * np.eye(SIZE) + a.T),
        "S": a.T @ a + a @ a.T - np.eye(SIZE),
        "Q": np.vstack([a, a.T @ a.T]) @ np.hstack([a, a]),
    }
    for name, exact in wanted.items():
        assert relative_error(run[name], exact) < 1e-12, name
    assert isinstance(run.array("C"), Blocks)
    assert run.error("C").relative_bound < 1e-10


def test_least_squares_with_rows_that_come_and_go(tmp_path: Path) -> None:
    program = linalg.program("input X(m, n), Y(m, p); beta := inv(X' * X) * X' * Y;")
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((40, 6)), rng.standard_normal((40, 1))
    run = program.start(X=x, Y=y, backend=matrices(tmp_path), strategy="incremental")
    run.append_row("X", np.ones(6), Y=[2.0])
    run.delete_row("X", 3)
    run.set_row("X", 20, np.arange(6.0))
    x, y = np.delete(np.vstack([x, np.ones(6)]), 3, 0), np.delete(np.vstack([y, [2.0]]), 3, 0)
    x[20] = np.arange(6.0)
    assert relative_error(run["beta"], np.linalg.lstsq(x, y)[0]) < 1e-12


def test_inverses_and_rows_do_not_pass_through_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = SparkMatrices.numpy

    def only_small(self: SparkMatrices, array: Any) -> Any:
        assert not isinstance(array, Blocks) or min(array.shape) <= 4, "a whole matrix at the driver"
        return gathered(self, array)

    program = linalg.program("input X(m, n), B(n, p); G := inv(X' * X + I(n)); C := G * B; D := X * G;")
    rng = np.random.default_rng(3)
    x, b = rng.standard_normal((40, 12)), rng.standard_normal((12, 2))
    monkeypatch.setattr(SparkMatrices, "numpy", only_small)
    run = program.start(X=x, B=b, backend=matrices(tmp_path), strategy="incremental")
    for step in range(3):
        row = rng.standard_normal(12)
        run.append_row("X", row)
        run.delete_row("X", 17 * step)
        x = np.delete(np.vstack([x, row]), 17 * step, 0)
    with pytest.raises(linalg.MatrixDataError, match="singular"):
        linalg.program("input A(n, n); W := inv(A);").start(A=np.ones((8, 8)), backend=matrices(tmp_path / "other"))
    monkeypatch.undo()
    inverse = np.linalg.inv(x.T @ x + np.eye(12))
    for name, wanted in {"X": x, "C": inverse @ b, "D": x @ inverse}.items():
        assert relative_error(run[name], wanted) < 1e-12, name


def test_bytes_grow_with_rows_and_factors_not_with_entries(tmp_path: Path) -> None:
    counted = {}
    for size in (20, 40, 80):
        given = matrices(tmp_path / str(size))
        run = POWER.start(A=start(size=size), backend=given, strategy="incremental")
        before = given.traffic.sent + given.traffic.received
        run.update("A", np.ones(size) / size, np.ones(size) / size)
        counted[size] = given.traffic.sent + given.traffic.received - before
    factors = 1 + 2 + 4 + 8
    for size, found in counted.items():
        assert found <= 8 * size * factors * (6 + 2 * 3)
    assert counted[80] == pytest.approx(2 * counted[40], rel=0.02)


def test_a_state_that_is_lost_or_damaged_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    import shutil

    run = POWER.start(A=start(), backend=matrices(tmp_path / "state"), strategy="incremental")
    other = POWER.start(A=start(), backend="numpy", strategy="incremental")
    rng = np.random.default_rng(3)
    for i in range(12):
        row = rng.standard_normal(SIZE) / 6
        if i % 3 == 0:
            shutil.rmtree(tmp_path / "mapped", ignore_errors=True)
        if i % 3 == 1:  # a process died in the middle of a change
            for state in block_state._kept.values():
                state._state.begin()
                state.array[:] = np.nan
        for each in (run, other):
            each.set_row("A", i, row)
    assert relative_error(run["C"], other["C"]) < 1e-13


def test_a_run_continues_after_its_process_died(tmp_path: Path) -> None:
    first = matrices(tmp_path / "state")
    run = POWER.start(A=start(), backend=first, strategy="incremental")
    other = POWER.start(A=start(), backend="numpy", strategy="incremental")
    rng = np.random.default_rng(4)
    changes = [rng.standard_normal((2, SIZE, 1)) / 10 for _ in range(6)]
    for i, (u, v) in enumerate(changes):
        other.update("A", u, v)
        run.apply({"A": (u, v)}, batch_id=i)
        run.apply({"A": (u, v)}, batch_id=i)
        if i == 3:  # the process ends in the middle of an update: it was logged, but not committed
            run._backend.sweep(run._matrices.stored[A], (u, v), None, None)  # type: ignore[attr-defined]
            first._store.close()
            again = matrices(tmp_path / "state")
            with pytest.raises(linalg.ProgramError, match="start without inputs"):
                POWER.start(A=start(), backend=again)
            run = POWER.start(backend=again, strategy="incremental")
            assert run.statistics.updates == 4
            assert run.statistics.recomputed == 0
            run.apply({"A": (u, v)}, batch_id=i)
    assert relative_error(run["A"], other["A"]) < 1e-15
    assert relative_error(run["C"], other["C"]) < 1e-13


def test_logs_are_replaced_by_files_and_nothing_piles_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from viewlet.runtime.durable import store

    monkeypatch.setattr(store, "SHORTEST_LOG", 1)
    given = matrices(tmp_path / "state")
    run = POWER.start(A=start(), backend=given, strategy="incremental")
    for _ in range(12):
        run.update("A", np.ones(SIZE) / 100, np.ones(SIZE) / 100)
        run["C"][0, 0]
    assert run.statistics.updates == 12
    folders = [path for path in (tmp_path / "state").iterdir() if path.is_dir() and path.name.startswith("matrix-")]
    assert len(folders) <= 6
    assert given._store.log_bytes < 200_000
    given._store.close()
    assert relative_error(POWER.start(backend=matrices(tmp_path / "state"))["C"], run["C"]) < 1e-15


def test_directories_of_others_are_refused(tmp_path: Path) -> None:
    import viewlet

    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
    with pytest.raises(StateError, match="not of a matrix program"):
        matrices(tmp_path / "db")
