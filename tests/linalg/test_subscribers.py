"""Subscribers follow a view by the factors of its changes alone, and read it only when they are told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg

n, m = linalg.dim("n"), linalg.dim("m")
A = linalg.matrix("A", n, n, dynamic=True)
X = linalg.matrix("X", m, n, dynamic=True)


class Follower:
    """A copy of a view that follows what it is told."""

    def __init__(self, run: linalg.Run, name: str) -> None:
        self.run, self.name, self.copy, self.read = run, name, np.array(run[name]), 0
        self.stop = run.subscribe(name, self.hear)

    def hear(self, change: Any) -> None:
        if change is None:
            self.copy, self.read = np.array(self.run[self.name]), self.read + 1
        else:
            self.copy += change[0] @ change[1].T


@pytest.mark.parametrize("strategy", ["incremental", "hybrid", "reevaluate"])
def test_a_copy_follows_the_factors(strategy: str) -> None:
    rng = np.random.default_rng(0)
    program = linalg.program(C=linalg.matrix_power(A, 4), G=X.T @ X, W=linalg.inv(X.T @ X), P=X @ A)
    run = program.start(A=rng.standard_normal((12, 12)) / 4, X=rng.standard_normal((30, 12)), strategy=strategy)
    followers = {name: Follower(run, name) for name in ("A", "C", "G", "W", "P")}
    for step in range(8):
        run.set_row("A", step, rng.standard_normal(12) / 4)
        run.update("X", rng.standard_normal((30, 2)) / 9, rng.standard_normal((12, 2)))
        run.append_row("X", rng.standard_normal(12))
        run.delete_row("X", step)
        if step == 3:
            run.scale("X", 0.5)
        for name, follower in followers.items():
            assert relative_error(follower.copy, run[name]) < 1e-11, (step, name)
    if strategy == "incremental":
        assert followers["C"].read == 1, "after the input was multiplied by a number"
        assert followers["P"].read > 8, "its rows come and go"
    before = followers["C"].copy
    followers["C"].stop()
    run.set_row("A", 0, np.ones(12))
    assert np.array_equal(followers["C"].copy, before)


def test_a_factor_cannot_be_followed() -> None:
    run = linalg.program("input X(m, n), B(n, p); W := inv(X' * X + I(n)); C := W * B;").start(
        X=np.eye(4), B=np.ones((4, 1))
    )
    with pytest.raises(linalg.ProgramError, match="Cholesky factor"):
        run.subscribe("W", print)
    with pytest.raises(linalg.ProgramError, match="no matrix 'Z'"):
        run.subscribe("Z", print)
