"""Bounds that hold, estimates that hold as often as they say, guards, refreshes, and symmetric results."""

from __future__ import annotations

import os
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg.trust import FAILURE

n = linalg.dim("n")
A = linalg.matrix("A", n, n, dynamic=True)
SOAK = int(os.environ.get("VIEWLET_LINALG_SOAK", "1020"))


def exact_power(matrix: Any, k: int) -> Any:
    """A power in rational arithmetic, of small matrices."""
    base = [[Fraction(float(entry)) for entry in row] for row in matrix]
    found = base
    for _ in range(k - 1):
        columns = list(zip(*base, strict=True))
        found = [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in found]
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("model", ["exponential", "linear", "telescoped"])
def test_the_bound_is_never_exceeded_and_the_estimate_holds(kind: Any, model: str) -> None:
    rng = np.random.default_rng(0)
    program = linalg.program(C=linalg.matrix_power(A, 4, model=model))
    run = program.start(A=(rng.standard_normal((6, 6)) / 2).astype(kind), strategy="incremental")
    for i in range(40):
        run.set_row("A", i % 6, rng.standard_normal(6) / 2)
    exact = exact_power(run["A"], 4)
    squares = sum(
        (Fraction(float(got)) - right) ** 2
        for row, wanted in zip(run["C"], exact, strict=True)
        for got, right in zip(row, wanted, strict=True)
    )
    error = float(squares) ** 0.5
    report = run.error("C")
    assert error <= report.bound
    assert error <= report.estimate
    assert report.relative_bound < (1e-12 if kind is np.float64 else 1e-4)
    assert report.failure == FAILURE < 1e-5
    assert run.error("A").bound == 0.0


def test_extended_precision_agrees_with_the_bound() -> None:
    """x86's 80-bit numbers as the exact value, for an inverse and a power of a larger matrix."""
    rng = np.random.default_rng(1)
    program = linalg.program(C=linalg.matrix_power(A, 8), W=linalg.inv(3 * linalg.identity(n) + A))
    run = program.start(A=rng.standard_normal((60, 60)) / 9, strategy="incremental")
    for i in range(60):
        run.set_row("A", i, rng.standard_normal(60) / 9)
    now = np.array(run["A"]).astype(np.longdouble)
    power = now
    for _ in range(7):
        power = power @ now
    inverse = np.linalg.inv(np.array(run["A"]) + 3 * np.eye(60)).astype(np.longdouble)
    system = now + 3 * np.eye(60)
    for _ in range(3):
        inverse = inverse @ (2 * np.eye(60) - system @ inverse)
    for name, exact in (("C", power), ("W", inverse)):
        error = float(np.sqrt(((run[name] - exact) ** 2).sum()))
        report = run.error(name)
        assert error <= report.bound < 1e6 * error
        assert error <= report.estimate < 1e3 * error


def test_condition_of_an_inverse() -> None:
    run = linalg.program(W=linalg.inv(A), C=A @ A).start(A=np.diag([1.0, 10.0, 1000.0]))
    assert run.condition("W") == pytest.approx(1000.0)
    assert run.condition("A") == pytest.approx(1000.0)


def test_refresh_after_so_many_updates() -> None:
    run = linalg.program(C=A @ A).start(A=np.eye(4), strategy="incremental", refresh=10)
    for i in range(25):
        run.set("A", i % 4, 0, float(i))
    assert run.statistics.recomputed == 3
    with pytest.raises(linalg.ProgramError, match="refresh is a number of updates"):
        linalg.program(C=A @ A).start(A=np.eye(2), refresh=-1)


def test_a_huge_entry_that_comes_and_goes_is_noticed() -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((12, 12)) / 4
    program = linalg.program(C=linalg.matrix_power(A, 4, model="exponential"), W=linalg.inv(A + 5 * linalg.identity(n)))
    run = program.start(A=start, strategy="incremental", refresh=1e-9)
    plain = linalg.program(C=program.outputs["C"]).start(A=start, strategy="incremental")
    for i in range(SOAK):
        row = rng.standard_normal(12) / 4
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            for each in (run, plain):
                each.set_row("A", i % 12, row)
                if i % 500 == 7:
                    kept = float(each["A"][3, 5])
                    each.set("A", 3, 5, 1e12)
                    each.set("A", 3, 5, kept)
    now = np.array(run["A"])
    assert relative_error(run["C"], np.linalg.matrix_power(now, 4)) < 1e-8
    assert relative_error(run["W"], np.linalg.inv(now + 5 * np.eye(12))) < 1e-8
    assert run.statistics.recomputed > 1
    assert relative_error(plain["C"], np.linalg.matrix_power(now, 4)) < 1e-8
    assert plain.statistics.recomputed == 1 + -(-(SOAK - 7) // 500), "once for every entry that is taken back"


@pytest.mark.parametrize("huge", [1e6, 1e9, 1e12])
def test_an_inverse_does_not_take_noise_for_digits(huge: float) -> None:
    """After a huge entry the capacitance matrix is made of rounding errors, which need not be small."""
    rng = np.random.default_rng(2)
    run = linalg.program(W=linalg.inv(A)).start(
        A=rng.standard_normal((20, 20)) + 9 * np.eye(20), strategy="incremental"
    )
    for row, column in ((3, 5), (0, 0), (7, 1)):
        kept = float(run["A"][row, column])
        run.set("A", row, column, huge)
        with pytest.warns(linalg.LinAlgWarning, match="close to singular"):
            run.set("A", row, column, kept)
        assert relative_error(run["W"], np.linalg.inv(run["A"])) < 1e-13
    with warnings.catch_warnings():
        warnings.simplefilter("error", linalg.LinAlgWarning)
        for step in range(60):
            run.set_row("A", step % 20, 9.0 * rng.standard_normal(20))
    assert relative_error(run["W"], np.linalg.inv(run["A"])) < 1e-9


def test_symmetric_results_stay_symmetric() -> None:
    program = linalg.program(
        "input X(m, n); Z := X' * X; W := inv(Z); H := X * W * X'; Q := W * Z * W; output Z, W, H, Q;"
    )
    rng = np.random.default_rng(0)
    run = program.start(X=rng.standard_normal((700, 30)), strategy="incremental")
    for i in range(10):
        run.set_row("X", i, rng.standard_normal(30))
    for name in ("Z", "W", "H", "Q"):
        assert np.array_equal(run[name], run[name].T), name
    x = np.array(run["X"])
    assert relative_error(run["H"], x @ np.linalg.inv(x.T @ x) @ x.T) < 1e-11
