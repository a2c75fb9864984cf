"""The library of analyses beside NumPy, SciPy, scikit-learn and NetworkX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.linalg.oracle import relative_error
from viewlet import linalg
from viewlet.linalg import analyses
from viewlet.linalg.pagerank import PageRank
from viewlet.ml import NotFittedError, ParameterError, RecursiveRidge, TruncatedSVD

n, m, p = linalg.dim("n"), linalg.dim("m"), linalg.dim("p")
A = linalg.matrix("A", n, n, dynamic=True)
X = linalg.matrix("X", m, n, dynamic=True)
Y = linalg.matrix("Y", m, p, dynamic=True)
START = linalg.matrix("start", n, p)


def test_regressions_and_gradient_descent_follow_rows() -> None:
    program = linalg.program(
        beta=analyses.least_squares(X, Y),
        ridge=analyses.ridge(X, Y, alpha=2.0),
        descent=analyses.gradient_descent(X, Y, START, rate=0.005, steps=16),
    )
    rng = np.random.default_rng(0)
    x, y, start = rng.standard_normal((40, 5)), rng.standard_normal((40, 2)), np.zeros((5, 2))
    run = program.start(X=x, Y=y, start=start)
    for i in range(20):
        x[i], y[i] = rng.standard_normal(5), rng.standard_normal(2)
        run.set_row("X", i, x[i])
        run.set_row("Y", i, y[i])
    assert relative_error(run["beta"], np.linalg.lstsq(x, y)[0]) < 1e-11
    assert relative_error(run["ridge"], np.linalg.solve(x.T @ x + 2 * np.eye(5), x.T @ y)) < 1e-11
    wanted = start
    for _ in range(16):
        wanted = wanted - 0.005 * x.T @ (x @ wanted - y)
    assert relative_error(run["descent"], wanted) < 1e-11


def test_chains_counts_and_exponentials() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    program = linalg.program(
        states=analyses.markov_chain(A, START, steps=12),
        direction=analyses.power_iteration(A, START, steps=12),
        paths=analyses.path_counts(A, steps=4),
        flow=analyses.expm(A, terms=14, squarings=3),
    )
    rng = np.random.default_rng(0)
    a = rng.random((8, 8))
    a /= a.sum(axis=1, keepdims=True)
    start = np.eye(8)[:, :1]
    run = program.start(A=a, start=start)
    for i in range(8):
        a[i] = rng.random(8)
        a[i] /= a[i].sum()
        run.set_row("A", i, a[i])
    assert relative_error(run["states"], np.linalg.matrix_power(a.T, 12) @ start) < 1e-12
    assert run["states"].sum() == pytest.approx(1.0)
    assert relative_error(run["direction"], np.linalg.matrix_power(a, 12) @ start) < 1e-12
    assert relative_error(run["paths"], sum(np.linalg.matrix_power(a, i) for i in range(5))) < 1e-12
    assert relative_error(run["flow"], scipy.expm(a)) < 1e-12


def test_path_counts_are_exact() -> None:
    edges = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], float)
    run = linalg.program(paths=analyses.path_counts(A, steps=3)).start(A=edges)
    run.set("A", 0, 2, 1.0)
    run.set("A", 1, 2, 0.0)
    now = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    assert np.array_equal(run["paths"], sum(np.linalg.matrix_power(now, i) for i in range(4)))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_ridge_equals_scikit_learn_after_rows_come_and_go(intercept: bool, alpha: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6)), rng.standard_normal(60)
    model = RecursiveRidge(alpha, fit_intercept=intercept).fit(x[:20], y[:20])
    model.partial_fit(x[20:], y[20:]).remove(x[5:9], y[5:9])
    for i in range(10, 14):
        model.remove(x[i : i + 1], y[i : i + 1])
    kept = np.array([i for i in range(60) if i not in range(5, 9) and i not in range(10, 14)])
    other = linear_model.Ridge(alpha, fit_intercept=intercept, solver="cholesky").fit(x[kept], y[kept])
    assert np.allclose(model.coef_, other.coef_)
    assert model.intercept_ == pytest.approx(other.intercept_)
    assert model.score(x, y) == pytest.approx(other.score(x, y))
    assert model.n_samples_seen_ == len(kept)


def test_forgetting_is_recursive_least_squares() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 3)), rng.standard_normal(80)
    model = RecursiveRidge(0.0, fit_intercept=False, forgetting=0.95).fit(x[:10], y[:10])
    for i in range(10, 80):
        model.partial_fit(x[i : i + 1], y[i : i + 1])
    weights = np.concatenate([np.full(10, 0.95**70), 0.95 ** np.arange(69, -1, -1)]) ** 0.5
    assert np.allclose(model.coef_, np.linalg.lstsq(x * weights[:, None], y * weights)[0])


def test_estimators_say_what_is_wrong() -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        RecursiveRidge().predict([[1.0]])
    with pytest.raises(ParameterError, match="forgetting is a factor"):
        RecursiveRidge(forgetting=0.0).fit([[1.0]], [1.0])
    with pytest.raises(linalg.MatrixDataError, match="cannot be removed"):
        RecursiveRidge().fit([[1.0]], [1.0]).remove([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ParameterError, match="has no parameter 'beta'"):
        RecursiveRidge().set_params(beta=1)
    assert repr(RecursiveRidge(2.0)) == "RecursiveRidge(alpha=2.0, fit_intercept=True, forgetting=1.0)"
    model = RecursiveRidge(0.0, fit_intercept=False).fit(np.eye(2), [1.0, 2.0])
    with pytest.warns(linalg.LinAlgWarning, match="factored again"):
        model.remove(np.eye(2)[:1], [1.0])
    assert np.allclose(model.coef_, [0.0, 2.0])


def test_truncated_svd_follows_blocks_of_rows() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((90, 3)) @ rng.standard_normal((3, 12))
    model = TruncatedSVD(3)
    for block in np.split(x, 9):
        model.partial_fit(block)
    assert np.allclose(model.singular_values_, np.linalg.svd(x, compute_uv=False)[:3])
    assert np.allclose(model.transform(x) @ model.components_, x)
    noisy = x + 0.01 * rng.standard_normal(x.shape)
    noisy -= noisy.mean(axis=0)
    other = decomposition.IncrementalPCA(3, batch_size=30).fit(noisy)
    ours = TruncatedSVD(3)
    for block in np.split(noisy, 3):
        ours.partial_fit(block)
    assert np.allclose(ours.singular_values_, other.singular_values_, rtol=1e-2)


@pytest.mark.parametrize("personal", [None, {0: 1.0, 3: 2.0}])
def test_pagerank_equals_networkx_after_every_batch(personal: dict[int, float] | None) -> None:
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    graph = networkx.DiGraph([(0, 3), (3, 1)])
    ours = PageRank(graph.edges, personalization=personal)
    for size in (10, 20, 40, 40, 45):
        more = [(int(a), int(b)) for a, b in rng.integers(0, size, (15, 2))]
        graph.add_edges_from(more)
        edges = list(graph.edges)
        fewer = [edges[i] for i in rng.choice(len(edges), 4, replace=False)]
        ours.update(added=more)
        ours.update(removed=fewer)
        graph.remove_edges_from(fewer)
        wanted = networkx.pagerank(graph, tol=1e-12, max_iter=1000, personalization=personal)
        assert ours.ranks.keys() == wanted.keys()
        assert max(abs(ours.ranks[node] - rank) for node, rank in wanted.items()) < 1e-8
        assert sum(ours.ranks.values()) == pytest.approx(1.0)
    again = ours.update()
    assert again <= 3
    with pytest.raises(linalg.MatrixDataError, match="is not in the graph"):
        ours.update(removed=[(0, 10**6)])


def test_iterative_solvers_follow_their_system() -> None:
    n, p = linalg.dim("n"), linalg.dim("p")
    A, D = linalg.matrix("A", n, n, dynamic=True), linalg.matrix("D", n, n, dynamic=True)  # noqa: N806
    b, x = linalg.matrix("b", n, p, dynamic=True), linalg.matrix("x", n, p)
    rng = np.random.default_rng(9)
    a = np.diag(rng.uniform(2, 9, 30)) + rng.standard_normal((30, 30)) / 30
    right = rng.standard_normal((30, 1))
    program = linalg.program(
        jacobi=analyses.stationary_iteration(A, b, x, steps=6, preconditioner=D),
        richardson=analyses.stationary_iteration(A, b, x, steps=6, rate=0.15),
    )
    run = program.start(A=a, D=np.diag(1 / np.diag(a)), b=right, x=np.zeros((30, 1)))
    row = rng.standard_normal(30) / 30
    row[4] = 5.0
    run.set_row("A", 4, row)
    run.set("D", 4, 4, 0.2)
    run.set("b", 7, 0, 2.0)
    a[4], right[7] = row, 2.0
    inverse = np.diag(1 / np.diag(a))
    jacobi, richardson = np.zeros((2, 30, 1))
    for _ in range(6):
        jacobi = jacobi + inverse @ (right - a @ jacobi)
        richardson = richardson + 0.15 * (right - a @ richardson)
    assert np.allclose(run["jacobi"], jacobi, rtol=1e-10)
    assert np.allclose(run["richardson"], richardson, rtol=1e-10)
    assert np.linalg.norm(jacobi - np.linalg.solve(a, right)) < 1e-4
