"""Plans that a back end records: the same results, and recordings that end when arrays are replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.values import Units


class Tape:
    """A recording that does the work again with other factors."""

    def __init__(self, work: Callable[[Mapping[Any, Thin]], object], log: list[str], units: list[bool]) -> None:
        self.work = work
        self.log = log
        self.units = units

    def replay(self, factors: Mapping[Any, Thin]) -> None:
        self.log.append("replay")
        assert self.units == [isinstance(factor, Units) for factor in factors.values()]
        self.work(factors)


class RecordingBackend(NumpyBackend):
    """NumPy, with recordings as a GPU has them."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.log: list[str] = []
        self.recorder = self

    def record(self, work: Callable[[Mapping[Any, Thin]], object], factors: Mapping[Any, Thin]) -> Tape:
        self.log.append("record")
        return Tape(work, self.log, [isinstance(factor, Units) for factor in factors.values()])


def test_a_plan_is_recorded_at_its_second_use_and_replayed() -> None:
    n = linalg.dim("n")
    a = linalg.matrix("A", n, n, dynamic=True)
    backend = RecordingBackend()
    rng = np.random.default_rng(0)
    run = linalg.program(C=linalg.matrix_power(a, 8, model="exponential")).start(
        A=rng.standard_normal((12, 12)) / 4, strategy="incremental", backend=backend
    )
    for i in range(4):
        run.set_row("A", i, rng.standard_normal(12) / 4)
    assert backend.log == ["record", "replay", "replay", "replay"]
    run.refresh()
    run.set_row("A", 5, np.ones(12) / 12)
    assert np.array_equal(run["A"][5], np.ones(12) / 12)
    assert len(backend.log) == 4
    for i in range(2):
        run.set_column("A", i, rng.standard_normal(12) / 4)
        run.set_row("A", i, rng.standard_normal(12) / 4)
    run.update("A", np.ones((12, 2)) / 50, rng.standard_normal((12, 2)))
    assert relative_error(run["C"], np.linalg.matrix_power(np.array(run["A"]), 8)) < 1e-12


def test_inverses_are_looked_at_and_not_recorded() -> None:
    n = linalg.dim("n")
    a = linalg.matrix("A", n, n, dynamic=True)
    backend = RecordingBackend()
    run = linalg.program(W=linalg.inv(a)).start(A=np.eye(5), strategy="incremental", backend=backend)
    for i in range(3):
        run.set("A", i, i, 2.0)
    assert backend.log == []
    assert np.allclose(run["W"], np.diag([0.5, 0.5, 0.5, 1, 1]))
