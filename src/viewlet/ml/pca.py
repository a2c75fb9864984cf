"""Principal components of a join, from its cofactors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.ml.design import design_matrix
from viewlet.ml.estimator import CofactorEstimator, Floats, ParameterError, checked_rows, chosen
from viewlet.ml.normal_equations import warn_of_lost_digits
from viewlet.ml.source import checked, column_name, columns_of
from viewlet.rings.cofactor_table import CofactorTable, Column
from viewlet.visible import described


class PCA(CofactorEstimator):
    """Principal component analysis with the results of scikit-learn's PCA, including the signs.

    `n_components` is a number of components, a share of the variance (below 1), or None for all. A categorical variable
    contributes one column of zeros and ones per category.
    """

    components_: Floats
    explained_variance_: Floats
    explained_variance_ratio_: Floats
    singular_values_: Floats
    mean_: Floats
    noise_variance_: float
    n_components_: int
    n_samples_: int
    n_features_in_: int
    feature_names_in_: Any
    columns_: tuple[Column, ...]
    _origins: Floats
    _shifts: Floats

    def __init__(
        self,
        n_components: int | float | None = None,
        features: Sequence[str] | None = None,
        *,
        whiten: bool = False,
        handle_unknown: str = "error",
    ) -> None:
        self.n_components = n_components
        self.features = features
        self.whiten = whiten
        self.handle_unknown = handle_unknown

    def transform(self, data: Any) -> Floats:
        """Projects rows (a frame, an Arrow table, a mapping or an array) onto the components."""
        self._check_fitted()
        base = design_matrix(data, list(self.feature_names_in_), self.columns_, self.handle_unknown == "ignore")
        found: Floats = ((base - self._origins) - self._shifts) @ self.components_.T
        return found / self._lengths() if self.whiten else found

    def inverse_transform(self, data: Any) -> Floats:
        """Maps projected rows back to the original columns."""
        self._check_fitted()
        coordinates = np.asarray(data, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != self.n_components_:
            raise DataError(f"expected rows of {self.n_components_} coordinates, not shape {coordinates.shape}")
        found: Floats = (coordinates * self._lengths() if self.whiten else coordinates) @ self.components_ + self.mean_
        return found

    def get_covariance(self) -> Floats:
        """The covariance matrix of the model: the kept components, and the rest as isotropic noise."""
        self._check_fitted()
        above = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        explained: Floats = (self.components_.T * above) @ self.components_
        return explained + self.noise_variance_ * np.eye(len(self.mean_))

    def _lengths(self) -> Floats:
        lengths: Floats = np.sqrt(np.maximum(self.explained_variance_, np.finfo(np.float64).tiny))
        return lengths

    def _learn(self, cofactors: CofactorTable) -> dict[str, Any]:
        table = checked(cofactors)
        count = checked_rows(table, 2, "PCA")
        columns = columns_of(table)
        names = chosen(columns, self.features)
        places = [place for name in names for place in columns[name]]
        origins = np.zeros(len(table.variables)) if table.origins is None else table.origins
        centred = table.centred[np.ix_(places, places)]
        warn_of_lost_digits(
            [column_name(table.variables[place]) for place in places], np.diagonal(centred), table.subtracted[places]
        )
        covariance = centred / (count - 1)
        values, vectors = np.linalg.eigh(covariance)
        values, components = np.maximum(values[::-1], 0.0), vectors.T[::-1]
        total = float(values.sum())
        ratio = values / total if total > 0 else np.zeros(len(values))
        most = min(count, len(places))
        kept = self._kept(ratio, most)
        return {
            "components_": _with_signs(components[:kept]),
            "explained_variance_": values[:kept],
            "explained_variance_ratio_": ratio[:kept],
            "singular_values_": np.sqrt(values[:kept] * (count - 1)),
            "mean_": table.means()[places],
            "_origins": origins[places],
            "_shifts": table.means(origins)[places],
            "noise_variance_": float(values[kept:most].mean()) if kept < most else 0.0,
            "n_components_": kept,
            "n_samples_": count,
            "n_features_in_": len(names),
            "feature_names_in_": np.array(names, dtype=object),
            "columns_": tuple(table.variables[place] for place in places),
        }

    def _kept(self, ratio: Floats, most: int) -> int:
        wanted = self.n_components
        if wanted is None:
            return most
        if isinstance(wanted, float) and 0 < wanted < 1:
            return min(most, int(np.searchsorted(np.cumsum(ratio), wanted, side="right")) + 1)
        if wanted != int(wanted) or not 1 <= wanted <= most:
            raise ParameterError(
                f"n_components is a share below 1 or a number up to {most}, "
                f"the smaller of rows and columns, not {described(wanted)}"
            )
        return int(wanted)


def _with_signs(components: Floats) -> Floats:
    """Each direction with its largest part positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs: Floats = np.sign(components[np.arange(len(components)), largest])
    return components * signs[:, None]
