"""Estimators over rows that come and go, by the conventions of scikit-learn: `fit`, `partial_fit`, `predict`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from viewlet.linalg import cholesky
from viewlet.linalg.errors import LinAlgWarning, MatrixDataError
from viewlet.linalg.magnitudes import LOST
from viewlet.linalg.values import checked_matrix
from viewlet.ml.estimator import Estimator, Floats, NotFittedError, ParameterError
from viewlet.ml.exact_products import ProductSum
from viewlet.visible import described


class RowEstimator(Estimator):
    """The base class of estimators that learn from rows, which come as arrays and are not kept."""

    n_samples_seen_: int

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_samples_seen_"):
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet: call fit first")


class RecursiveRidge(RowEstimator):
    """Ridge regression over rows that are added, removed and forgotten; `alpha=0` is ordinary least squares.

    With `forgetting` below one, every call of `partial_fit` first multiplies the weight of all earlier rows, and of the
    penalty, by that factor: recursive least squares. The state is the Cholesky factor of X'X + alpha I, which follows
    every row in n² operations. `RidgeRegression` is the same model over the join that a view maintains.
    """

    coef_: Floats
    intercept_: float
    n_features_in_: int
    n_samples_seen_: int

    def __init__(self, alpha: float = 1.0, *, fit_intercept: bool = True, forgetting: float = 1.0) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.forgetting = forgetting

    def fit(self, X: Any, y: Any) -> RecursiveRidge:  # noqa: N803
        """Forgets everything and learns from these rows."""
        self._check_parameters()
        rows, labels = self._rows(X, y, None)
        self.n_features_in_ = rows.shape[1] - self.fit_intercept
        self.n_samples_seen_ = 0
        penalty = np.full(rows.shape[1], float(self.alpha))
        if self.fit_intercept:
            penalty[-1] = 0.0
        self._products = ProductSum(np.hstack([np.diag(penalty), np.zeros((len(penalty), 1))]))
        self._factor: Floats | None = None
        self._peaks = penalty
        """The largest diagonal of X'X since it was factored."""
        self._learn(rows, labels)
        return self

    def partial_fit(self, X: Any, y: Any) -> RecursiveRidge:  # noqa: N803
        """Learns from more rows, after the earlier ones have lost weight by the forgetting factor."""
        if not hasattr(self, "n_samples_seen_"):
            return self.fit(X, y)
        rows, labels = self._rows(X, y, self.n_features_in_)
        if self.forgetting != 1.0:
            self._products = self._products.times(self.forgetting)
            if self._factor is not None:
                self._factor *= self.forgetting**0.5
                self._peaks *= self.forgetting
        self._learn(rows, labels)
        return self

    def remove(self, X: Any, y: Any) -> RecursiveRidge:  # noqa: N803
        """Unlearns rows that were learned before and have not lost weight."""
        self._check_fitted()
        rows, labels = self._rows(X, y, self.n_features_in_)
        if len(rows) > self.n_samples_seen_:
            raise MatrixDataError(f"{len(rows)} rows cannot be removed from {self.n_samples_seen_}")
        self._sum_up(rows, labels, -1.0)
        self.n_samples_seen_ -= len(rows)
        if self._factor is not None:
            try:
                for row in rows:
                    cholesky.downdate(self._factor, row)
            except np.linalg.LinAlgError:
                warnings.warn(
                    "removing rows left X'X close to singular: it was factored again", LinAlgWarning, stacklevel=2
                )
                self._factor = None
        if self._has_lost():
            self._factor = None
        self._solve()
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """The label that the weights give to every row."""
        self._check_fitted()
        rows = checked_matrix(X, "X", np.float64, (None, self.n_features_in_))
        found: Floats = rows @ self.coef_ + self.intercept_
        return found

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """The coefficient of determination R² of these rows."""
        labels = np.asarray(y, np.float64).reshape(-1)
        spread = float(((labels - labels.mean()) ** 2).sum())
        missed = float(((labels - self.predict(X)) ** 2).sum())
        return 1.0 - missed / spread if spread else 0.0

    def _learn(self, rows: Floats, labels: Floats) -> None:
        self._sum_up(rows, labels, 1.0)
        self.n_samples_seen_ += len(rows)
        if self._factor is not None and len(rows) <= max(1, len(self._factor) // 4):
            for row in rows:
                cholesky.update(self._factor, row)
        else:
            self._factor = None
        self._solve()

    def _sum_up(self, rows: Floats, labels: Floats, sign: float) -> None:
        """Adds the products of rows, or takes them away; refused, and nothing is changed, if they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._products.plus(np.hstack([rows, labels[:, None]]), sign)
        if not np.isfinite(found.high).all():
            raise MatrixDataError("these rows are too large: their products overflow")
        self._products = found
        self._peaks = np.maximum(self._peaks, np.diagonal(found.high))

    def _has_lost(self) -> bool:
        """Whether rows were removed that were so large that rounding errors of the factor are left of them."""
        return bool((np.diagonal(self._products.high) * LOST < self._peaks).any())

    def _solve(self) -> None:
        gram, cross = self._products.high[:, :-1], self._products.high[:, -1]
        if self._factor is None:
            try:
                self._factor, self._peaks = cholesky.factor(gram), np.diagonal(gram).copy()
            except np.linalg.LinAlgError:
                self._keep(np.asarray(np.linalg.lstsq(gram, cross)[0], np.float64))
                return
        self._keep(cholesky.solve(self._factor, cross))

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights[: self.n_features_in_]
        self.intercept_ = float(weights[-1]) if self.fit_intercept else 0.0

    def _rows(self, x: Any, y: Any, features: int | None) -> tuple[Floats, Floats]:
        rows = checked_matrix(x, "X", np.float64, (None, features))
        labels = checked_matrix(np.reshape(y, (-1, 1)), "y", np.float64, (len(rows), 1))[:, 0]
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((len(rows), 1))])
        return rows, labels

    def _check_parameters(self) -> None:
        if not self.alpha >= 0:
            raise ParameterError(f"alpha is a number that is not negative, not {described(self.alpha)}")
        if not 0 < self.forgetting <= 1:
            raise ParameterError(f"forgetting is a factor above 0 and up to 1, not {described(self.forgetting)}")


class TruncatedSVD(RowEstimator):
    """The largest singular values and right vectors of all rows so far, updated block by block (Brand's method).

    What is cut off at each block is lost: the result is exact while the rank of the rows is at most `n_components`.
    """

    components_: Floats
    singular_values_: Floats
    n_features_in_: int
    n_samples_seen_: int

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: None = None) -> TruncatedSVD:  # noqa: N803
        """Forgets everything and learns from these rows."""
        rows = checked_matrix(X, "X", np.float64, (None, None))
        if not isinstance(self.n_components, int) or not 1 <= self.n_components <= rows.shape[1]:
            raise ParameterError(
                f"n_components is from 1 to the {rows.shape[1]} columns, not {described(self.n_components)}"
            )
        self.n_features_in_ = rows.shape[1]
        self.n_samples_seen_ = 0
        self.components_ = np.zeros((0, rows.shape[1]))
        self.singular_values_ = np.zeros(0)
        return self.partial_fit(rows)

    def partial_fit(self, X: Any, y: None = None) -> TruncatedSVD:  # noqa: N803
        """Learns from more rows."""
        if not hasattr(self, "n_samples_seen_"):
            return self.fit(X)
        rows = checked_matrix(X, "X", np.float64, (None, self.n_features_in_))
        known = self.singular_values_[:, None] * self.components_
        _, strength, directions = np.linalg.svd(np.vstack([known, rows]), full_matrices=False)
        self.singular_values_ = strength[: self.n_components]
        self.components_ = directions[: self.n_components]
        self.n_samples_seen_ += len(rows)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """The coordinates of rows along the components."""
        self._check_fitted()
        rows = checked_matrix(X, "X", np.float64, (None, self.n_features_in_))
        found: Floats = rows @ self.components_.T
        return found
