"""Bounds that are accumulated from norms are never exceeded, by the exact value in extended precision."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from viewlet import linalg
from viewlet.linalg import analyses

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
X, Y = linalg.matrix("X", m, n, dynamic=True), linalg.matrix("Y", m, p, dynamic=True)
SIZE = 40


def inverse(system: Any) -> Any:
    """The inverse in extended precision, by Newton's iteration from that in double precision."""
    found, one = np.linalg.inv(system.astype(float)).astype(np.longdouble), np.eye(len(system))
    for _ in range(3):
        found = found @ (2 * one - system @ found)
    return found


def power(base: Any, steps: int) -> Any:
    found = base
    for _ in range(steps - 1):
        found = found @ base
    return found


def check(run: linalg.Run, name: str, exact: Any, most: float) -> None:
    error = float(np.sqrt(((run[name] - exact) ** 2).sum()))
    report = run.error(name)
    assert 0 < error <= report.bound, name
    assert report.relative_bound <= most, name


@pytest.mark.parametrize(
    ("strategy", "kind", "most"),
    [("auto", np.float64, 1e-3), ("incremental", np.float32, np.inf)],
)
def test_powers_and_inverses(strategy: str, kind: Any, most: float) -> None:
    rng = np.random.default_rng(0)
    program = linalg.program(
        C=linalg.matrix_power(A, 8, model="exponential"),
        T=linalg.matrix_power(A, 4, model="telescoped"),
        S=linalg.power_sum(A, 8),
        W=linalg.inv(3 * linalg.identity(n) + A),
        D=2 * linalg.hstack([A, A.T]) @ linalg.vstack([A, A]) - A,
    )
    start = (rng.standard_normal((SIZE, SIZE)) / 8).astype(kind)
    run = program.start(A=start, strategy=strategy, bounds=True)
    for step in range(18):
        run.set_row("A", step, rng.standard_normal(SIZE) / 8)
        run.update("A", rng.standard_normal((SIZE, 2)) / 40, rng.standard_normal((SIZE, 2)) / 40)
        run.set("A", step, 1, 0.125)
    now = np.array(run["A"]).astype(np.longdouble)
    check(run, "C", power(now, 8), most)
    check(run, "T", power(now, 4), most)
    check(run, "S", sum((power(now, i) for i in range(1, 8)), np.eye(SIZE)), most)
    check(run, "W", inverse(now + 3 * np.eye(SIZE)), most)
    check(run, "D", 2 * (now @ now + now.T @ now) - now, most)
    assert run.error("A").bound == 0.0


@pytest.mark.parametrize("cholesky", [True, False])
def test_least_squares(cholesky: bool) -> None:
    rng = np.random.default_rng(1)
    program = linalg.program(beta=analyses.least_squares(X, Y), V=linalg.inv(X.T @ X))
    run = program.start(
        X=rng.standard_normal((160, SIZE)),
        Y=rng.standard_normal((160, 2)),
        strategy="incremental",
        bounds=True,
        cholesky=cholesky,
    )
    for step in range(12):
        run.set_row("X", step, rng.standard_normal(SIZE))
        run.set("Y", step, 1, 0.5)
        run.append_row("X", rng.standard_normal(SIZE), Y=[1.0, 2.0])
        if step % 10 == 0:
            run.delete_row("X", step)
    check_least_squares(run, most=0.5)
    run.scale("X", 0.75)
    check_least_squares(run, most=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        run.set_row("X", 0, 1e5 * rng.standard_normal(SIZE))
        run.set_row("X", 0, rng.standard_normal(SIZE))
    check_least_squares(run, most=np.inf)


def check_least_squares(run: linalg.Run, most: float) -> None:
    x, y = (np.array(run[name]).astype(np.longdouble) for name in "XY")
    system = inverse(x.T @ x)
    check(run, "V", system, most)
    check(run, "beta", system @ (x.T @ y), most)


def test_where_bounds_cannot_be_accumulated() -> None:
    program = linalg.program(C=A @ A)
    with pytest.raises(linalg.ProgramError, match="bounds=True"):
        program.start(A=np.eye(3), bounds=True, defer=4)
    with pytest.raises(linalg.ProgramError, match="bounds=True"):
        program.start(A=np.eye(3), bounds=True, backend=linalg.ModularBackend(97))


def _distance(found: Any, wanted: Any) -> Any:
    """The square of the Frobenius norm of a difference."""
    return sum((Fraction(float(a)) - b) ** 2 for a, b in zip(found.flat, wanted.flat, strict=True))


def _exact(array: Any) -> Any:
    return np.vectorize(Fraction, otypes=[object])(array)


@pytest.mark.parametrize("strategy", ["incremental", "hybrid", "reevaluate"])
@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("power", [-300, -200, -160, 150, 160, 200, 300])
def test_norms_of_numbers_whose_squares_are_no_doubles(power: int, bounds: bool, strategy: str) -> None:
    rng, size = np.random.default_rng(power + 300), 10.0**power
    a, b = rng.standard_normal((4, 3)) * size, rng.standard_normal((3, 2)) / size
    s = (np.eye(3) + 0.1 * np.ones((3, 3))) * size
    text = "input A(m, n), B(n, p), S(n, n) definite; C := A * B; D := 3 * A; W := inv(S); output C, D, W;"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = linalg.program(text).start(A=a, B=b, S=s, strategy=strategy, bounds=bounds)
        for _ in range(3):
            u, v = rng.standard_normal((4, 1)) * size, rng.standard_normal((3, 1))
            run.update("A", u, v)
            run.set("B", 1, 1, rng.standard_normal() / size)
            x = rng.standard_normal((3, 1)) * size**0.5
            run.update("S", x, x)
        now = {name: _exact(run[name]) for name in "ABSW"}
        reports = {name: run.error(name) for name in "CDW"}
    for name, wanted in (("C", now["A"] @ now["B"]), ("D", 3 * now["A"])):
        error, report = _distance(run[name], wanted), reports[name]
        assert error <= Fraction(report.bound) ** 2, name
        assert error <= Fraction(report.estimate) ** 2, name
        assert report.relative_bound < 1e-12, name
    off = now["S"] @ now["W"] - _exact(np.eye(3))
    distance = math.sqrt(float(sum(each * each for each in off.flat)))
    assert distance / np.linalg.norm(np.array(run["S"] / size)) <= reports["W"].bound * size
    assert reports["W"].relative_bound < 1e-12
