"""What all estimators share: parameters as scikit-learn has them, a source that can be read again, clear refusals."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from viewlet.errors import DataError, SchemaError, ViewletError
from viewlet.ml.source import Columns, read_one
from viewlet.rings.cofactor_table import CofactorTable

Floats = npt.NDArray[np.float64]
Self = TypeVar("Self", bound="Estimator")
Learner = TypeVar("Learner", bound="CofactorEstimator")


class NotFittedError(ViewletError, ValueError, AttributeError):
    """An estimator was used before `fit`."""


class ParameterError(ViewletError, ValueError):
    """A parameter of an estimator has a value that is not allowed."""


class Estimator:
    """The base class of all models: their parameters, by the conventions of scikit-learn.

    The parameters are the arguments of the constructor. They are stored under their names and checked by `fit`.
    """

    _fitted_from: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, also those of nested estimators, as `estimator__alpha`."""
        found = {name: getattr(self, name) for name in self._parameters()}
        if deep:
            for name, value in list(found.items()):
                if isinstance(value, Estimator):
                    found |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return found

    def set_params(self: Self, **parameters: Any) -> Self:
        """Sets parameters by name; they take effect at the next `fit` or `refresh`."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}, only {self._parameters()}")
            owner, _, inner = name.partition("__")
            if inner:
                getattr(self, owner).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params(deep=False).items())})"

    def _source(self) -> Any:
        self._check_fitted()
        return self._fitted_from

    def _check_fitted(self) -> None:
        if not hasattr(self, "_fitted_from"):
            raise NotFittedError(f"this {type(self).__name__} has learned nothing yet: call fit with a view first")

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]


class CofactorEstimator(Estimator, ABC):
    """The base class of models that learn from the cofactors of all rows; a failed fit leaves the model unchanged."""

    def fit(self: Learner, source: Any, y: None = None) -> Learner:
        """Fits the model to the cofactors of a view, a cofactor table or a view tree, which `refresh` reads again."""
        if y is not None:
            raise ParameterError("fit takes cofactors, which have the label among their variables: name it as `label`")
        self._take(read_one(source), source)
        return self

    def refresh(self: Learner) -> Learner:
        """Reads the source again and refits the model; the cost depends on the number of features only."""
        source = self._source()
        self._take(read_one(source), source)
        return self

    @abstractmethod
    def _learn(self, cofactors: CofactorTable) -> dict[str, Any]:
        """What it makes of cofactors: the attributes to set. None is set before all are known."""

    def _take(self, cofactors: CofactorTable, source: Any) -> None:
        learned = self._learn(cofactors)
        for name, value in learned.items():
            setattr(self, name, value)
        self._fitted_from = source


def clone(estimator: Self) -> Self:
    """An estimator with the same parameters that has learned nothing."""
    parameters = estimator.get_params(deep=False)
    return type(estimator)(
        **{name: clone(value) if isinstance(value, Estimator) else value for name, value in parameters.items()}
    )


def checked_rows(table: CofactorTable, least: int, purpose: str) -> int:
    if table.count < least:
        rows = "no rows" if not table.count else "1 row" if table.count == 1 else f"{table.count} rows"
        raise DataError(f"{purpose} needs at least {least} row{'s' if least > 1 else ''}, and the view has {rows}")
    return table.count


def chosen(columns: Columns, wanted: Sequence[str] | None, without: str | None = None) -> list[str]:
    """The variables to learn from: those asked for, or all but the label."""
    if wanted is None:
        return [name for name in columns if name != without]
    if isinstance(wanted, str):
        raise ParameterError(f"features are a list of variables, not the string {wanted!r}")
    if unknown := [name for name in wanted if name not in columns]:
        raise SchemaError(f"{unknown[0]!r} is not a variable of the cofactors, which have {sorted(columns)}")
    if without in wanted:
        raise SchemaError(f"the label {without!r} is among the features: it would predict itself")
    if repeated := [name for i, name in enumerate(wanted) if name in wanted[:i]]:
        raise ParameterError(f"feature {repeated[0]!r} is given twice")
    return list(wanted)
