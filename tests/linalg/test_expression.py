"""Expressions and their text: shapes are checked when an expression is made, and errors say what to do."""

from __future__ import annotations

import numpy as np
import pytest

from viewlet import linalg
from viewlet.linalg.expression import add, product, shape, transpose
from viewlet.linalg.sizes import size

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
X = linalg.matrix("X", m, n, dynamic=True)
Y = linalg.matrix("Y", m, p)


def test_sizes_are_polynomials() -> None:
    assert (n + 1) * (n - 1) == n * n - 1
    assert str(2 * n * n * m - n + 3) == "2m·n² - n + 3"
    assert (n * m + 2).at({"n": 3, "m": 4}) == 14
    assert (n + m).put({"m": n * 2}) == 3 * n
    assert size(0) + n - n == size(0)
    assert (n - n).terms == ()


def test_equal_expressions_are_one_object() -> None:
    assert A @ A is A @ A
    assert (A @ X.T).T is X @ A.T
    assert A + A is 2 * A
    assert A - A is linalg.expression.zero(n, n)  # type: ignore[attr-defined]
    assert (X.T @ X).T is X.T @ X
    assert linalg.inv(linalg.inv(A)) is A


def test_a_chain_of_squares_is_a_graph() -> None:
    square = A
    for _ in range(64):
        square = transpose(product(square, square))
    assert shape(square) == (n, n)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: X @ X,
            "cannot multiply X (m × n) and X (m × n): the columns of the first are n, the rows of the second m",
        ),
        (lambda: X + Y, "cannot add X (m × n) and Y (m × p)"),
        (lambda: linalg.inv(X), "X (m × n) is not square"),
        (lambda: linalg.hstack([A, X]), "cannot put A (n × n) and X (m × n) side by side: their rows differ"),
        (lambda: linalg.vstack([A, Y]), "on top of each other: their columns differ"),
        (lambda: linalg.matrix_power(X, 2), "needs a square matrix"),
        (lambda: linalg.iterate(A, Y, Y, steps=2), "A is n × n, B m × p"),
        (lambda: linalg.dim("2n"), "named by an identifier"),
        (lambda: linalg.matrix("A", 1.5, n), "a whole number or dim('name')"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make: object, message: str) -> None:
    with pytest.raises(linalg.ShapeError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A * A, "element-wise product A * A"),
        (lambda: A**2, "write matrix_power(A, 2)"),
        (lambda: A / A, "A @ inv(A)"),
        (lambda: A @ np.eye(2), "declare an input"),
        (lambda: np.eye(2) @ A, "declare an input"),
        (lambda: A + 1.0, "takes matrices of the program"),
        (lambda: A * np.nan, "not a matrix of finite numbers"),
        (lambda: A * np.eye(2), "a number and a matrix"),
        (lambda: linalg.program(), "at least one output"),
        (lambda: linalg.program(C=3.0), "not an expression"),  # type: ignore[arg-type]
        (lambda: linalg.program(A=A @ A), "stands for two different matrices"),
        (lambda: linalg.program(C=A @ linalg.matrix("A", n, n)), "stands for two different matrices"),
        (lambda: linalg.matrix_power(A, 257), "from 0 to 256"),
        (lambda: linalg.matrix_power(A, 4, model="cubic"), "'telescoped' or 'skip-4'"),
        (lambda: linalg.power_sum(A, 4, model="telescoped"), "is not one of"),
    ],
)
def test_what_is_no_linear_algebra_is_refused_by_name(make: object, message: str) -> None:
    with pytest.raises(linalg.ProgramError) as caught:
        make()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("octave", "plain"),
    [
        ("C := A \\ B;", "C := solve(A, B);"),
        ("C := A^-1 * B;", "C := inv(A) * B;"),
        ("C := A^-2 * B;", "C := power(inv(A), 2) * B;"),
        ("C := 2 \\ B + 4^-1 * B;", "C := B / 2 + 0.25 * B;"),
    ],
)
def test_systems_and_negative_powers_as_in_octave(octave: str, plain: str) -> None:
    declared = "input A(n, n), B(n, p); "
    assert linalg.program(declared + octave).text() == linalg.program(declared + plain).text()


@pytest.mark.parametrize(
    ("text", "message", "fragment"),
    [
        ("input A(n, n); C := A .* A;", "the element-wise product", ".*"),
        ("input A(n, n); C := A + B;", "'B' is neither an input nor an earlier statement (known: A)", "B"),
        ("input X(m, n); C := X * X;", "cannot multiply X (m × n)", "*"),
        ("input A(n, n); A := A * A;", "has a value already", "A"),
        ("input A(n, n); C := A * ;", "an expression was expected", ";"),
        ("input A(n, n); C := det(A);", "there is no function 'det'", "det"),
        ("input A(n, n); C := inv(A, A);", "inv takes 1 matrix", "inv"),
        ("input A(n, n); C := 3;", "a number, not a matrix", "3"),
        ("input A(n, n) C := A;", "';' was expected", "C"),
        ("input A(n, n); C := A; output D;", "'D' is not computed", "D"),
        ("input A(n, n); C := A $ A;", "'$' has no meaning", "$"),
        ("input A(n, n); C := power(A, 2.5);", "a whole number", "2.5"),
        ("input A(n, n); C := A \\ 2;", "the right side of a system is a matrix", "\\"),
        ("input A(n, n); C := 0 \\ A;", "divides by zero", "\\"),
        ("input A(n, n); C := 0^-1 * A;", "divides by zero", "^"),
    ],
)
def test_errors_of_the_notation_point_at_the_fragment(text: str, message: str, fragment: str) -> None:
    with pytest.raises(linalg.NotationError) as caught:
        linalg.program(text)
    assert message in str(caught.value)
    assert caught.value.fragment == fragment


@pytest.mark.parametrize(
    "text",
    [
        "input A(n, n); B := A * A; C := B * B;",
        "input X(m, n); static Y(m, p); beta := inv(X' * X) * X' * Y; fit := X * beta;",
        "input A(n, n), B(n, n); C := [A, B; B', 2 * A - B / 4]; D := -C * C'; output D, C;",
        'input A(n, n), B(n, p), T(n, p); C := iterate(A, B, T, 8, "skip-4"); D := power_sum(A, 3); E := A^5;',
        "input A(n, n); C := solve(I(n) - 0.85 * A, A + O(n, n)); # a comment\n",
    ],
)
def test_programs_are_read_back_from_their_text(text: str) -> None:
    first = linalg.program(text)
    again = linalg.program(first.text())
    assert again.text() == first.text()
    assert {name: str(node.shape) for name, node in again.outputs.items()} == {
        name: str(node.shape) for name, node in first.outputs.items()
    }


def test_sums_collect_terms() -> None:
    assert str(add((A, 2 * A, A.T))) == "3 * A + A'"
    assert str(A - 2.5 * A.T) == "A - 2.5 * A'"
    assert str(linalg.identity(n) @ A) == "A"
