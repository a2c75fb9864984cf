"""The design matrix of data to predict: the only place that creates one-hot columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError, SchemaError
from viewlet.ml.estimator import Floats
from viewlet.ml.source import variable_of
from viewlet.rings.cofactor_table import Column
from viewlet.visible import described


def design_matrix(data: Any, names: Sequence[str], columns: Sequence[Column], ignore_unknown: bool) -> Floats:
    """One row for each row of `data`, one column for each of `columns`, which are of the variables `names`.

    >>> design_matrix({"x": [2, 3], "c": ["a", "b"]}, ["x", "c"], ["x", ("c", "a"), ("c", "b")], False).tolist()
    [[2.0, 1.0, 0.0], [3.0, 0.0, 1.0]]
    """
    values = {name: _column(data, name, place, len(names)) for place, name in enumerate(names)}
    lengths = {len(column) for column in values.values()}
    if len(lengths) > 1:
        raise DataError(f"columns have different lengths: {sorted(lengths)}")
    found = np.zeros((lengths.pop() if lengths else 0, len(columns)))
    places: dict[str, dict[Any, int]] = {}
    for place, column in enumerate(columns):
        if isinstance(column, tuple):
            places.setdefault(column[0], {})[column[1]] = place
        else:
            found[:, place] = numbers(values[column], column)
    for name, categories in places.items():
        _mark(found, values[name], name, categories, ignore_unknown)
    return found


def numbers(values: Any, name: str) -> Floats:
    """A column as doubles; NULL and NaN are refused."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} has values that are no numbers") from error
    if not np.isfinite(found).all():
        raise DataError(f"column {name!r} has a NULL, a NaN or an infinity in row {int(np.argmin(np.isfinite(found)))}")
    return found


def column_of(data: Any, name: str) -> Any:
    """A named column of a mapping, a pandas or Polars frame or an Arrow table; None if it does not exist."""
    if hasattr(data, "column_names"):
        return data.column(name).to_pylist() if name in data.column_names else None
    known = data if isinstance(data, Mapping) else getattr(data, "columns", None)
    return None if known is None or name not in known else data[name]


def _column(data: Any, name: str, place: int, width: int) -> list[Any]:
    if isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names"):
        found = column_of(data, name)
        if found is None:
            raise SchemaError(f"the data has no column {name!r}, which the model was fitted with")
    else:
        found = _positional(data, width)[:, place]
    as_list: list[Any] = found.tolist() if hasattr(found, "tolist") else list(found)
    return as_list


def _positional(data: Any, width: int) -> Any:
    array = data if isinstance(data, np.ndarray) else np.array([list(row) for row in data], dtype=object)
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise DataError(f"expected rows of {width} values, one for each feature, not an array of shape {array.shape}")
    return array


def _mark(found: Floats, values: Sequence[Any], name: str, categories: Mapping[Any, int], ignore_unknown: bool) -> None:
    rows, places = [], []
    for row, value in enumerate(values):
        place = categories.get(value)
        if place is not None:
            rows.append(row)
            places.append(place)
        elif not ignore_unknown:
            raise DataError(
                f"{described(value)} is not a category of {name!r} that the model has seen; "
                f"with handle_unknown='ignore' it is predicted as none of them"
            )
    found[rows, places] = 1.0


def variables_of(columns: Sequence[Column]) -> list[str]:
    """The variables that columns stand for, each once, in order."""
    return list(dict.fromkeys(variable_of(column) for column in columns))
