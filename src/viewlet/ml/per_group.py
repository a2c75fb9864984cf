"""One model per group of a view with GROUP BY; a refresh refits only the groups whose cofactors changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError, SchemaError, ViewletError
from viewlet.ml.design import column_of
from viewlet.ml.estimator import CofactorEstimator, Estimator, Floats, clone
from viewlet.ml.source import Groups, read
from viewlet.rings.cofactor_table import CofactorMoments, CofactorTable

Models = dict[Hashable, Any]


class PerGroup(Estimator):
    """One copy of `estimator` for every group of a view with GROUP BY.

    `by` names the group columns, so that `predict` finds them in the data. `models_` has the fitted model of each
    group, `failed_` the error of each group that could not be fitted (for lack of rows, say), and `refreshed_` the
    groups that the last refresh refitted.
    """

    models_: Models
    failed_: dict[Hashable, ViewletError]
    refreshed_: tuple[Hashable, ...]
    _known: Groups

    def __init__(self, estimator: Any, by: str | Sequence[str] | None = None) -> None:
        self.estimator = estimator
        self.by = by

    def fit(self, source: Any, y: None = None) -> PerGroup:
        """Fits a model for every group."""
        self._take_groups(read(source), {}, {}, source)
        return self

    def refresh(self) -> PerGroup:
        """Refits the models of the groups whose cofactors changed."""
        source = self._source()
        models = dict(self.models_)
        self._take_groups(read(source), models, self._known, source)
        return self

    def __getitem__(self, group: Hashable) -> Any:
        """The model of a group."""
        self._check_fitted()
        if group in self.failed_:
            raise self.failed_[group]
        if group not in self.models_:
            raise SchemaError(f"there is no group {group!r}")
        return self.models_[group]

    def __len__(self) -> int:
        self._check_fitted()
        return len(self.models_)

    def predict(self, data: Any, groups: Iterable[Hashable] | None = None) -> Floats:
        """Predicts the label of every row with its group's model; `groups` replaces group columns of `data`."""
        self._check_fitted()
        keys = self._groups_in(data) if groups is None else list(groups)
        found = np.full(len(keys), np.nan)
        rows: dict[Hashable, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        for key, places in rows.items():
            model = self[key]
            found[places] = model.predict(_rows(data, list(model.feature_names_in_), places))
        return found

    def _take_groups(self, found: CofactorTable | Groups, models: Models, known: Groups, source: Any) -> None:
        if not isinstance(found, Mapping):
            raise SchemaError("the cofactors are not by group: give the view a GROUP BY, or fit the model itself")
        changed = [group for group, part in found.items() if group not in known or not _same(known[group], part)]
        failed = {group: error for group, error in getattr(self, "failed_", {}).items() if group not in changed}
        solved = {group: models[group] for group in found if group in models and group not in changed}
        for group in changed:
            model = models.get(group)
            try:
                fresh = clone(self.estimator) if model is None else _copy(model)
                solved[group] = fresh.fit(found[group])
            except ViewletError as error:
                failed[group] = error
        self.models_ = {group: solved[group] for group in found if group in solved}
        self.failed_ = {group: failed[group] for group in found if group in failed}
        self.refreshed_ = tuple(changed)
        self._known = found
        self._fitted_from = source

    def _groups_in(self, data: Any) -> list[Hashable]:
        if self.by is None:
            raise SchemaError("which group is each row of? give `groups`, or name their columns: PerGroup(..., by=...)")
        names = [self.by] if isinstance(self.by, str) else list(self.by)
        columns = [column_of(data, name) for name in names]
        if missing := [name for name, column in zip(names, columns, strict=True) if column is None]:
            raise SchemaError(f"the data has no column {missing[0]!r} to tell its groups by")
        listed = [column.tolist() if hasattr(column, "tolist") else list(column) for column in columns]
        return list(zip(*listed, strict=True)) if len(names) > 1 else listed[0]


def _rows(data: Any, names: Sequence[str], places: list[int]) -> Any:
    """Some rows of the data, of the columns that a model wants."""
    if column_of(data, names[0]) is None if names else True:
        array = data if isinstance(data, np.ndarray) else np.array([list(row) for row in data], dtype=object)
        return array[places]
    columns = {name: column_of(data, name) for name in names}
    if missing := [name for name, column in columns.items() if column is None]:
        raise DataError(f"the data has no column {missing[0]!r}, which the model was fitted with")
    listed = {name: column.tolist() if hasattr(column, "tolist") else list(column) for name, column in columns.items()}
    return {name: [values[place] for place in places] for name, values in listed.items()}


def _copy(model: CofactorEstimator) -> CofactorEstimator:
    """A model that starts where another is, so that an error leaves the other as it was."""
    fresh = clone(model)
    fresh.__dict__.update(model.__dict__)
    return fresh


def _same(left: CofactorTable, right: CofactorTable) -> bool:
    if left is right:
        return True
    if isinstance(left, CofactorMoments) and isinstance(right, CofactorMoments):
        return left.element == right.element
    return (
        left.count == right.count
        and left.variables == right.variables
        and np.array_equal(left.sums, right.sums)
        and np.array_equal(left.matrix, right.matrix)
        and np.array_equal(left.centred, right.centred)
    )
