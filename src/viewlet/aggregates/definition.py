"""From a class of the user to an `Aggregate`: what the class has to say of itself, checked when it is registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.aggregates.aggregate import Aggregate, Layout
from viewlet.changes.values import Misfit
from viewlet.errors import DataError, SchemaError, ViewletError
from viewlet.types import SqlType
from viewlet.visible import described

TypeOf = Callable[[str], SqlType]
"""The SQL type that a text names; raises a `ViewletError` for others."""
ANY = "ANY"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def aggregate_name(name: object) -> str:
    """The name of an aggregate as the binder sees it: names in SQL are folded to lower case."""
    if not isinstance(name, str) or not _NAME.fullmatch(name.lower()):
        raise SchemaError(
            "an aggregate is named by letters, digits and _, beginning with a letter, not by " + described(name)
        )
    return name.lower()


def define_aggregate(name: str, given: object, type_of: TypeOf) -> Aggregate:
    """The aggregate that a class, or an object of one, describes; raises a `SchemaError` that says what it lacks."""
    code = _instance(name, given)
    _check_methods(name, code)
    arguments = _arguments(name, code, type_of)
    returns = _returns(name, code, type_of)
    layout = _layout(name, code)
    _check_parameters(name, code, len(arguments))
    try:
        zero = layout.fit(code.zero())
    except Misfit as problem:
        raise _refused(name, f"zero() does not return a state: {problem}") from None
    except Exception as error:
        raise _refused(name, f"zero() raised {type(error).__name__}: {error}") from error
    made = Aggregate(name, code, arguments, returns, layout, zero)
    try:
        made.value(zero)
    except DataError as error:
        raise SchemaError(f"{error} (for the state of no rows, which zero() returns)") from error
    return made


def _refused(name: str, why: str) -> SchemaError:
    return SchemaError(f"aggregate {name!r}: {why}")


def _instance(name: str, given: object) -> Any:
    if not isinstance(given, type):
        return given
    try:
        return given()
    except Exception as error:
        hint = "register an object of it if it takes parameters"
        raise _refused(name, f"{given.__name__}() raised {type(error).__name__}: {error}; {hint}") from error


def _check_methods(name: str, code: Any) -> None:
    for method in ("zero", "result"):
        if not callable(getattr(code, method, None)):
            raise _refused(name, f"its class has no method {method}()")
    by_value = callable(getattr(code, "add", None))
    by_merging = callable(getattr(code, "merge", None)) and callable(getattr(code, "lift", None))
    if not by_value and not by_merging:
        raise _refused(name, "its class has no method add(state, value), nor lift(value) and merge(left, right)")


def _arguments(name: str, code: Any, type_of: TypeOf) -> tuple[SqlType | None, ...]:
    written = getattr(code, "arguments", (ANY,))
    if isinstance(written, str):
        written = (written,)
    if not isinstance(written, tuple | list) or not written or not all(isinstance(each, str) for each in written):
        raise _refused(name, f"arguments are SQL types such as ('DOUBLE',), or 'ANY', not {described(written)}")
    return tuple(None if each.upper() == ANY else _type(name, "arguments", each, type_of) for each in written)


def _returns(name: str, code: Any, type_of: TypeOf) -> SqlType:
    written = getattr(code, "returns", None)
    if not isinstance(written, str):
        raise _refused(name, f"returns is the SQL type of the result, such as 'BIGINT', not {described(written)}")
    return _type(name, "returns", written, type_of)


def _type(name: str, where: str, text: str, type_of: TypeOf) -> SqlType:
    try:
        return type_of(text)
    except ViewletError as error:
        raise _refused(name, f"{where}: {error}") from error


def _layout(name: str, code: Any) -> Layout:
    written = getattr(code, "state", None)
    hint = "state is the layout of a state: a NumPy type such as 'int64', or ('float64', 3) for an array"
    if written is None:
        raise _refused(name, hint)
    try:
        dtype = np.dtype(written)
    except Exception:
        raise _refused(name, f"{hint}; not {described(written)}") from None
    base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    if base.kind not in "biuf" or base.itemsize > 8 or 0 in shape:
        raise _refused(name, f"{hint}; not {described(written)}")
    return Layout(base, tuple(shape))


def _check_parameters(name: str, code: Any, count: int) -> None:
    """Methods take the state and as many values as there are arguments."""
    wanted = {"add": 1 + count, "remove": 1 + count, "update": 2 + count, "lift": count, "merge": 2, "inverse": 1}
    for method, number in {**wanted, "zero": 0, "result": 1}.items():
        function = getattr(code, method, None)
        if function is None:
            continue
        if not callable(function):
            raise _refused(name, f"{method} is no method")
        try:
            inspect.signature(function).bind(*range(number))
        except TypeError:
            raise _refused(name, f"{method}() has to take {number} arguments, for {count} of the aggregate") from None
        except ValueError:
            continue  # a function without a signature, such as one written in C
