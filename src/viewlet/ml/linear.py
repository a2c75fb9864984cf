"""Linear regression over a join, from its cofactors: any label, any features, with or without a penalty."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from viewlet.errors import DataError, SchemaError
from viewlet.ml.design import column_of, design_matrix, numbers, variables_of
from viewlet.ml.estimator import CofactorEstimator, Floats, ParameterError, checked_rows, chosen
from viewlet.ml.expansion import Expansion, Origins, Term
from viewlet.ml.normal_equations import (
    EPSILON,
    SLACK,
    NormalEquations,
    descend,
    normal_equations,
    solve,
    warn_of_lost_digits,
)
from viewlet.ml.source import checked, column_name, columns_of, read_one
from viewlet.rings.cofactor_table import CofactorTable, Column
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.visible import described


class ConvergenceWarning(UserWarning):
    """Gradient descent used all its steps without reaching the tolerance."""


class RidgeRegression(CofactorEstimator):
    """Ridge regression: least squares with an L2 penalty `alpha` on the weights, but not on the intercept.

    `features` names the variables to use; the default is all but the label. A categorical feature has one weight per
    category, and no category is dropped. With `alpha=0` these weights are not unique: the solution with the smallest
    norm is returned, and `rank_` is the number of independent columns.

    `solver` is "closed-form" or "gradient". Gradient descent stops when no component of the gradient exceeds `tol`
    times its value at zero; with `warm_start` it starts from the previous weights. `handle_unknown` decides what
    `predict` does with a category that was never seen: raise an "error", or "ignore" it.
    """

    coef_: Floats
    intercept_: float
    n_features_in_: int
    feature_names_in_: Any
    columns_: tuple[Column, ...]
    rank_: int | None
    n_iter_: int | None
    _terms: tuple[Term, ...]
    _origins: Origins
    """Numbers near the values of the columns; it is columns less these that are weighted."""
    _weights: Floats
    """The weights of terms of such columns."""
    _level: float
    """The prediction at the origins, less that of the label."""
    _cofactors: CofactorTable

    def __init__(
        self,
        label: str,
        features: Sequence[str] | None = None,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        solver: str = "closed-form",
        warm_start: bool = True,
        tol: float = 1e-8,
        max_iter: int = 10_000,
        handle_unknown: str = "error",
    ) -> None:
        self.label = label
        self.features = features
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.handle_unknown = handle_unknown

    def predict(self, data: Any) -> Floats:
        """Predicts the label of every row. Columns are found by name, or by position in a 2-D array."""
        self._check_fitted()
        base = design_matrix(data, list(self.feature_names_in_), self.columns_, self.handle_unknown == "ignore")
        origins = np.array([self._origins.get(column, 0.0) for column in self.columns_])
        found: Floats = self._design(base - origins) @ self._weights + self._level + self._origins.get(self.label, 0.0)
        return found

    def score(self, data: Any = None, y: Any = None) -> float:
        """The coefficient of determination R².

        Without `data` it is that of the rows the model was fitted to, computed from the cofactors; `data` may also be
        another view, or rows. The labels of rows are `y`, or the column with the label's name.
        """
        self._check_fitted()
        if data is None or _is_source(data):
            return self._score_of(self._cofactors if data is None else read_one(data))
        truth = column_of(data, self.label) if y is None else y
        if truth is None:
            raise SchemaError(f"the data has no column {self.label!r} to compare with: give it as y")
        truth = numbers(list(truth), self.label)
        predicted = self.predict(data)
        if len(predicted) != len(truth):
            raise DataError(f"{len(predicted)} predictions cannot be compared with {len(truth)} labels")
        spread = float(((truth - truth.mean()) ** 2).sum())
        return _r_squared(float(((truth - predicted) ** 2).sum()), spread)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The name of each weight, as scikit-learn's encoders form it."""
        self._check_fitted()
        return np.array([term_name(term) for term in self._terms], dtype=object)

    def _learn(self, cofactors: CofactorTable) -> dict[str, Any]:
        self._check_parameters()
        table = checked(cofactors)
        checked_rows(table, 1, "a regression")
        columns = columns_of(table)
        if self.label not in columns:
            raise SchemaError(f"label {self.label!r} is not a variable of the cofactors, which have {sorted(columns)}")
        if isinstance(table.variables[columns[self.label][0]], tuple):
            raise SchemaError(f"label {self.label!r} is categorical: a regression predicts numbers")
        names = chosen(columns, self.features, self.label)
        own = tuple(table.variables[place] for name in names for place in columns[name])
        terms = self._expand(own)
        origins = _origins_of(table) if self.fit_intercept else {}
        equations = self._equations(cofactors, terms, origins)
        if self.fit_intercept:
            warn_of_lost_digits(
                [*map(term_name, terms), self.label],
                np.append(np.diagonal(equations.gram), equations.label_square),
                np.append(equations.squares, table.subtracted[columns[self.label][0]]),
            )
        expansion = Expansion(terms, {column: -origin for column, origin in origins.items()})
        weights, rank, steps = self._solve(equations, terms, origins, expansion)
        level = equations.label_mean - float(equations.means @ weights) if self.fit_intercept else 0.0
        coefficients, offset = expansion.apply(weights)
        return {
            "coef_": coefficients,
            "intercept_": float(offset + Fraction(level) + Fraction(origins.get(self.label, 0.0))),
            "n_features_in_": len(names),
            "feature_names_in_": np.array(names, dtype=object),
            "columns_": own,
            "rank_": rank,
            "n_iter_": steps,
            "_terms": terms,
            "_origins": origins,
            "_weights": weights,
            "_level": level,
            "_cofactors": cofactors,
        }

    def _expand(self, columns: tuple[Column, ...]) -> tuple[Term, ...]:
        return tuple((column,) for column in columns)

    def _design(self, base: Floats) -> Floats:
        return base

    def _equations(self, cofactors: CofactorTable, terms: Sequence[Term], origins: Origins) -> NormalEquations:
        """The products of the terms, of columns less origins, and the label.

        A term that the cofactors have no row of is always zero.
        """
        table = checked(cofactors)
        places = {column: place for place, column in enumerate(table.variables)}
        if absent := [column for (column,) in terms if column not in places]:
            table = _with_empty(table, absent)
            places = {column: place for place, column in enumerate(table.variables)}
        about = np.array([origins.get(column, 0.0) for column in table.variables])
        features = [places[column] for (column,) in terms]
        return normal_equations(table, features, places[self.label], self.fit_intercept, about)

    def _solve(
        self, equations: NormalEquations, terms: Sequence[Term], origins: Origins, expansion: Expansion
    ) -> tuple[Floats, int | None, int | None]:
        if self.solver == "closed-form":
            return *solve(equations, self.alpha, expansion.basis), None
        known: dict[Term, float] = {}
        if self.warm_start and hasattr(self, "coef_"):
            known = dict(zip(self._terms, self.coef_.tolist(), strict=True))
        start, _ = Expansion(terms, origins).apply(np.array([known.get(term, 0.0) for term in terms]))
        weights, steps, arrived = descend(equations, self.alpha, expansion.basis, start, self.tol, self.max_iter)
        if not arrived:
            warnings.warn(
                f"gradient descent is not there after {steps} steps: raise max_iter or tol, "
                f"or leave out features that nearly follow from others",
                ConvergenceWarning,
                stacklevel=5,
            )
        return weights, None, steps

    def _score_of(self, cofactors: CofactorTable) -> float:
        table = checked(cofactors)
        checked_rows(table, 1, "a score")
        columns = columns_of(table)
        if missing := [name for name in (*self.feature_names_in_, self.label) if name not in columns]:
            raise SchemaError(f"{missing[0]!r} is not a variable of the cofactors, which have {sorted(columns)}")
        unseen = [table.variables[i] for name in variables_of(self.columns_) for i in columns[name]]
        unseen = [column for column in unseen if column not in self.columns_]
        if unseen and self.handle_unknown != "ignore":
            raise DataError(
                f"the model has never seen {column_name(unseen[0])!r}: refresh it, or ignore what is unknown"
            )
        equations = self._equations(cofactors, self._terms, self._origins)
        place = columns[self.label][0]
        spread = float(table.centred[place, place])
        rounding = SLACK * EPSILON * float(table.subtracted[place])
        return _r_squared(equations.residual_square(self._weights, self._level), spread, rounding)

    def _check_parameters(self) -> None:
        if not np.isfinite(self.alpha) or self.alpha < 0:
            raise ParameterError(f"alpha is a penalty, at least 0, not {described(self.alpha)}")
        if self.solver not in ("closed-form", "gradient"):
            raise ParameterError(f"solver is 'closed-form' or 'gradient', not {described(self.solver)}")
        if self.handle_unknown not in ("error", "ignore"):
            raise ParameterError(f"handle_unknown is 'error' or 'ignore', not {described(self.handle_unknown)}")
        if self.tol <= 0 or self.max_iter < 1:
            raise ParameterError(
                f"tol is above 0 and max_iter at least 1, not {described(self.tol)} and {described(self.max_iter)}"
            )


class LinearRegression(RidgeRegression):
    """Least squares without a penalty; where features depend on each other, the weights with the smallest norm."""

    def __init__(
        self,
        label: str,
        features: Sequence[str] | None = None,
        *,
        fit_intercept: bool = True,
        solver: str = "closed-form",
        warm_start: bool = True,
        tol: float = 1e-8,
        max_iter: int = 10_000,
        handle_unknown: str = "error",
    ) -> None:
        super().__init__(
            label,
            features,
            0.0,
            fit_intercept=fit_intercept,
            solver=solver,
            warm_start=warm_start,
            tol=tol,
            max_iter=max_iter,
            handle_unknown=handle_unknown,
        )


def term_name(term: Term) -> str:
    """As scikit-learn writes products: powers with a caret, factors apart.

    >>> term_name(("x",)), term_name(("x", "x", ("c", "b")))
    ('x', 'x^2 c_b')
    """
    names = [column_name(column) for column in term]
    counted = {name: names.count(name) for name in names}
    return " ".join(name if power == 1 else f"{name}^{power}" for name, power in counted.items())


def _with_empty(table: CofactorTable, absent: Sequence[Column]) -> CofactorTable:
    def padded(numbers: Floats | None) -> Floats | None:
        return None if numbers is None else np.pad(numbers, (0, len(absent)))

    return CofactorTable(
        (*table.variables, *absent),
        table.count,
        np.pad(table.sums, (0, len(absent))),
        np.pad(table.matrix, (0, len(absent))),
        spread=padded(table.spread),
        squares=padded(table.squares),
        origins=padded(table.origins),
        shifts=padded(table.shifts),
    )


def _origins_of(table: CofactorTable) -> Origins:
    if table.origins is None:
        return {}
    return {column: origin for column, origin in zip(table.variables, table.origins.tolist(), strict=True) if origin}


def _is_source(data: Any) -> bool:
    return isinstance(data, CofactorTable | MaintainedTree) or hasattr(data, "cofactor")


def _r_squared(residual: float, spread: float, rounding: float = 0.0) -> float:
    """For a label that does not vary, 1 where it is met and 0 where it is not."""
    if spread <= rounding:
        return 1.0 if residual <= rounding else 0.0
    return 1 - residual / spread
