"""Polynomial regression from cofactors of higher degree: products of features are features too.

degree 2 over x, y:    x, y, x², xy, y²      their products are sums of up to four factors, which the ring keeps
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from viewlet.errors import DataError, SchemaError
from viewlet.ml.estimator import Floats, ParameterError
from viewlet.ml.expansion import Origins, Term
from viewlet.ml.linear import RidgeRegression, term_name
from viewlet.ml.normal_equations import NormalEquations, normal_equations
from viewlet.rings.cofactor import HIGHEST_DEGREE
from viewlet.rings.cofactor_table import CofactorMoments, CofactorTable, Column


class PolynomialRegression(RidgeRegression):
    """Polynomial regression: least squares over all products of up to `degree` features.

    It needs cofactors of twice that degree. The terms are those of scikit-learn's PolynomialFeatures without the bias,
    except for products of categories that are always zero or repeat a term.
    """

    def __init__(
        self,
        label: str,
        features: Sequence[str] | None = None,
        degree: int = 2,
        alpha: float = 0.0,
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
            alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            warm_start=warm_start,
            tol=tol,
            max_iter=max_iter,
            handle_unknown=handle_unknown,
        )
        self.degree = degree

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 1 <= self.degree <= HIGHEST_DEGREE // 2:
            raise ParameterError(
                f"the degree of a polynomial is between 1 and {HIGHEST_DEGREE // 2}, not {self.degree}"
            )

    def _expand(self, columns: tuple[Column, ...]) -> tuple[Term, ...]:
        powers = range(1, self.degree + 1)
        products = (term for power in powers for term in combinations_with_replacement(columns, power))
        return tuple(term for term in products if _is_simple(term))

    def _design(self, base: Floats) -> Floats:
        places = {column: place for place, column in enumerate(self.columns_)}
        found = np.ones((len(base), len(self._terms)))
        for at, term in enumerate(self._terms):
            for column in term:
                found[:, at] *= base[:, places[column]]
        return found

    def _equations(self, cofactors: CofactorTable, terms: Sequence[Term], origins: Origins) -> NormalEquations:
        if not isinstance(cofactors, CofactorMoments) or cofactors.degree < 2 * self.degree:
            raise SchemaError(
                f"a polynomial of degree {self.degree} needs sums of products of {2 * self.degree} variables: "
                f"keep the cofactors with degree {2 * self.degree}"
            )
        table = product_table(cofactors, (*terms, (self.label,)), origins)
        return normal_equations(table, range(len(terms)), len(terms), self.fit_intercept)


def product_table(moments: CofactorMoments, terms: Sequence[Term], origins: Origins) -> CofactorTable:
    """The cofactor table whose columns are products of columns less their origins."""
    known: dict[tuple[Any, ...], float] = {}
    element = moments.less({column: origin for column, origin in origins.items() if isinstance(column, str)})

    def total(factors: Term) -> float:
        numbers = tuple(sorted(factor for factor in factors if not isinstance(factor, tuple)))
        kinds = {factor for factor in factors if isinstance(factor, tuple)}
        if len({name for name, _ in kinds}) < len(kinds):
            return 0.0  # no row has two categories
        at = (numbers, frozenset(kinds))
        if at not in known:
            known[at] = moments.moment_of(element, numbers, dict(kinds))
        return known[at]

    matrix = np.zeros((len(terms), len(terms)))
    for i, left in enumerate(terms):
        for j in range(i, len(terms)):
            matrix[i, j] = matrix[j, i] = total((*left, *terms[j]))
    if not np.isfinite(matrix).all():
        raise DataError("sums of products of four variables are too large for doubles: scale the variables down")
    count = moments.count
    return CofactorTable(tuple(map(term_name, terms)), count, np.array([total(term) for term in terms]), matrix)


def _is_simple(term: Term) -> bool:
    """Whether no categorical variable occurs twice: that would be the same category again, or none."""
    kinds = [factor[0] for factor in term if isinstance(factor, tuple)]
    return len(kinds) == len(set(kinds))
