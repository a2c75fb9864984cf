"""The derivations and operation counts of the LINVIEW paper: sections 1 and 4, appendices A and B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewlet import linalg
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.delta import Delta, Derivation
from viewlet.linalg.expression import Matrix, matrix
from viewlet.linalg.operations import trigger_operations
from viewlet.linalg.program import Program, Statements, recurrences, sizes_of, statements
from viewlet.linalg.sizes import dim
from viewlet.linalg.trigger import Policy, Trigger, derive_trigger

n = dim("n")


def views(source: Program, model: str = "exponential") -> Statements:
    return statements(source, sizes_of(source, {}), dict.fromkeys(recurrences(source), model))


def trigger(source: Program, model: str = "exponential", *, changed: str = "A", extract: bool = True) -> Trigger:
    each = next(each for each in source.inputs if each.name == changed)
    return derive_trigger(views(source, model), {each: 1}, sizes_of(source, {}), Policy(extract=extract))


def ranks(found: Trigger) -> list[int]:
    return [update.rank.whole({}) for update in found.updates]


def test_example_1_1_is_quadratic() -> None:
    counted = trigger_operations(trigger(linalg.program("input A(n, n); B := A * A; C := B * B;")))
    assert max(len(names) for names, _ in counted.terms) == 2


def test_example_4_2_and_4_3_least_squares() -> None:
    found = trigger(linalg.program("input X(m, n); Z := X' * X; W := inv(Z); output Z, W;"), changed="X")
    assert [str(each) for each in found.assignments] == [
        "U_Z := [v_X, X' * u_X + v_X * (u_X' * u_X)];",
        "V_Z := [X' * u_X, v_X];",
        "Z_W := W * U_Z;",
        "U_W := -Z_W * inv(I(2) + V_Z' * Z_W);",
        "V_W := W' * V_Z;",
    ]
    assert ranks(found) == [1, 2, 2]


def test_one_woodbury_step_passes_a_singular_intermediate() -> None:
    """The two steps of Example 4.3 in turn would divide by zero: Z + p₁ q₁' is singular."""
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    run = linalg.program("input X(m, n); W := inv(X' * X);").start(X=x, strategy="incremental")
    u, v = np.array([[-1.0], [0.0], [1.0]]), np.array([[1.0], [-1.0]])
    assert 1.0 + ((x.T @ u).T @ run["W"] @ v).item() == 0.0
    run.update("X", u, v)
    changed = x + u @ v.T
    assert np.allclose(run["W"], np.linalg.inv(changed.T @ changed))
    assert run.statistics.ill_conditioned == 0


def test_example_4_5_two_matrices_change_at_once() -> None:
    a, b = matrix("A", n, n, dynamic=True), matrix("B", n, n, dynamic=True)
    one = dim("r")
    deltas = {each: Delta(((matrix(f"u_{each.name}", n, one), matrix(f"v_{each.name}", n, one)),)) for each in (a, b)}
    found = Derivation(deltas).of(a @ b)
    assert [(str(left), str(right)) for left, right in found.blocks] == [
        ("u_A", "B' * v_A"),
        ("A * u_B + u_A * (v_A' * u_B)", "v_B"),
    ]
    plain = Derivation(deltas, extract=False).of(a @ b)
    assert len(plain.blocks) == 3


def test_example_4_6_the_trigger_of_the_fourth_power() -> None:
    found = trigger(linalg.program("input A(n, n); B := A * A; C := B * B;"))
    assert str(found) == (
        "ON UPDATE A BY (u_A, v_A):\n"
        "  U_B := [u_A, A * u_A + u_A * (v_A' * u_A)];\n"
        "  V_B := [A' * v_A, v_A];\n"
        "  U_C := [U_B, B * U_B + U_B * (V_B' * U_B)];\n"
        "  V_C := [B' * V_B, V_B];\n"
        "  A += u_A * v_A'; B += U_B * V_B'; C += U_C * V_C';"
    )


def test_common_factors_halve_the_ranks() -> None:
    eighth = linalg.program("input A(n, n); B := A * A; C := B * B; D := C * C;")
    assert ranks(trigger(eighth)) == [1, 2, 4, 8]
    assert ranks(trigger(eighth, extract=False)) == [1, 3, 9, 27]


@pytest.mark.parametrize("k", [2, 4, 8, 16, 32])
def test_appendix_a_counts_of_derived_triggers(k: int) -> None:
    power = linalg.program(P=linalg.matrix_power(linalg.matrix("A", n, n, dynamic=True), k))
    linear = trigger_operations(trigger(power, "linear"))
    assert linear == n * n * (k * k + k - 1) + n * (3 * k * (k - 1) // 2)
    exponential = trigger_operations(trigger(power, "exponential"))
    assert exponential == n * n * (4 * k - 3) + n * ((k - 1) * (2 * k + 5) // 3)


@pytest.mark.parametrize(("k", "s"), [(8, 2), (16, 4), (24, 8), (32, 4)])
def test_appendix_a_counts_of_the_skip_model(k: int, s: int) -> None:
    power = linalg.program(P=linalg.matrix_power(linalg.matrix("A", n, n, dynamic=True), k))
    counted = trigger_operations(trigger(power, f"skip-{s}"))
    total = n * n * (4 * s - 3) + n * ((s - 1) * (2 * s + 5) // 3)
    for i in range(2 * s, k + 1, s):
        total = total + 2 * n * n * i + n * (2 * s + 1) * (i - s)
    assert counted == total


class Counter(NumpyBackend):
    """Counts the multiplications and additions of products as they are done, and those of updates and thin sums."""

    def __init__(self) -> None:
        super().__init__(np.float64)
        self.multiplications = 0

    def multiply(self, left: Any, right: Any) -> Any:
        self.multiplications += left.shape[0] * left.shape[1] * right.shape[1]
        return super().multiply(left, right)

    def add_product(self, matrix: Any, left: Any, right: Any) -> None:
        self.multiplications += matrix.size * left.shape[1]
        super().add_product(matrix, left, right)

    def combine(self, terms: Any) -> Any:
        found = super().combine(terms)
        self.multiplications += (len(terms) - 1) * found.size
        return found


@pytest.mark.parametrize(
    ("model", "formula"), [("linear", lambda k: k * k + k - 1), ("exponential", lambda k: 4 * k - 3)]
)
def test_an_instrumented_run_does_as_many_operations(model: str, formula: object) -> None:
    k, size = 8, 24
    power = linalg.program(P=linalg.matrix_power(linalg.matrix("A", n, n, dynamic=True), k, model=model))
    counter = Counter()
    run = power.start(A=np.eye(size) / 2, strategy="incremental", backend=counter)
    rng = np.random.default_rng(1)
    counter.multiplications = 0
    run.update("A", rng.standard_normal(size), rng.standard_normal(size))
    extra = 3 * k * (k - 1) // 2 if model == "linear" else (k - 1) * (2 * k + 5) // 3
    wanted = size * size * formula(k) + size * extra  # type: ignore[operator]
    assert run.statistics.operations == wanted
    assert counter.multiplications == wanted


@pytest.mark.parametrize("model", ["linear", "exponential", "skip-4"])
@pytest.mark.parametrize("k", [4, 8, 16])
def test_appendix_b_ranks_are_upper_bounds(model: str, k: int) -> None:
    a, b, t = linalg.matrix("A", n, n, dynamic=True), linalg.matrix("B", n, dim("p")), linalg.matrix("T0", n, dim("p"))
    found = trigger(linalg.program(T=linalg.iterate(a, b, t, steps=k)), model)
    by_view = {update.view: update.rank.whole({}) for update in found.updates}
    last = max(rank for view, rank in by_view.items() if isinstance(view, Matrix) and view.columns == dim("p"))
    assert last <= (k if model == "linear" else 2 * k - 1)


def test_tables_1_and_2_orders_of_growth() -> None:
    """Doubling k doubles the exponential model's operations and quadruples the linear one's."""
    a = linalg.matrix("A", n, n, dynamic=True)

    def leading(model: str, k: int) -> int:
        counted = trigger_operations(trigger(linalg.program(P=linalg.power_sum(a, k)), model))
        return dict(counted.terms)["n", "n"]

    assert leading("exponential", 64) / leading("exponential", 32) == pytest.approx(2, rel=0.05)
    assert leading("linear", 64) / leading("linear", 32) == pytest.approx(4, rel=0.1)
    assert leading("skip-8", 128) / leading("skip-8", 64) == pytest.approx(4, rel=0.2)


def test_explain_prints_ranks_and_operations() -> None:
    text = linalg.program("input A(n, n); B := A * A; C := B * B;").explain()
    assert "U_B := [u_A, A * u_A + u_A * (v_A' * u_A)];  -- n² + 3n" in text
    assert "C += U_C * V_C';                             -- 4n², rank 4" in text
    assert text.endswith("-- 13n² + 13n operations")
