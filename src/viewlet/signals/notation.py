"""Signal queries as text: what a directory keeps of them. Functions are names, never code.

>>> from viewlet.signals.nodes import Scale, Source
>>> text = to_text(Scale(Source("readings", ("sensor",), "t", ("temp",)), 2.0))
>>> from_text(text).factor
2.0
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from viewlet.signals import nodes
from viewlet.signals.errors import MissingFunctionError, SignalError
from viewlet.signals.grid import Grid
from viewlet.visible import described

_FRACTION = re.compile(r"-?\d{1,1000}(/\d{1,1000})?")
"""As Python prints it: a power of ten could take for ever."""
_NODES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        *nodes.Signal.__args__,
        nodes.Interpolation,
        nodes.Stage,
        Grid,
    )
}


def to_text(node: nodes.Signal) -> str:
    """The expression as JSON."""
    return json.dumps(_to_json(node), separators=(",", ":"))


def from_text(text: str) -> nodes.Signal:
    """The expression that `to_text` wrote."""
    try:
        found = _from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError) as error:
        raise SignalError(f"{text!r:.60} is not the text of a signal query: {error}") from error
    if not isinstance(found, nodes.Signal):
        raise SignalError(f"{text!r:.60} is not the text of a signal query")
    return found


def _to_json(value: object) -> object:
    match value:
        case Fraction():
            return {"fraction": str(value)}
        case complex():
            return {"complex": [value.real, value.imag]}
        case tuple():
            return [_to_json(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            parts = {each.name: _to_json(getattr(value, each.name)) for each in fields(value)}  # type: ignore[arg-type]
            return {"node": type(value).__name__, **parts}


def _from_json(value: Any) -> Any:
    match value:
        case {"fraction": str(text)} if _FRACTION.fullmatch(text):
            return Fraction(text)
        case {"fraction": other}:
            raise ValueError(f"{other!r:.60} is not a fraction of two whole numbers")
        case {"complex": [real, imaginary]}:
            return complex(real, imaginary)
        case {"node": name, **parts}:
            return _NODES[name](**{str(field): _from_json(part) for field, part in parts.items()})
        case list():
            return tuple(_from_json(each) for each in value)
        case _:
            return value


# -- functions by name ----------------------------------------------------------------------------------------------


Function = Callable[..., Any] | str
"""A function or class that can be imported, or its name `module:function`."""


_NAMED: set[str] = set()
"""What this program has named: text can call nothing else."""


def register_functions(*functions: Function) -> None:
    """Lets views of a directory or a checkpoint call functions and classes of this program.

    A query that is read from text, which may be somebody else's, calls only what was registered, or what a query of
    this process was built with.
    """
    for each in functions:
        name_of(each, "register_functions()")


def accept(names: Iterable[str]) -> None:
    """Lets this process call functions whose names have been checked."""
    _NAMED.update(names)


def check_function(name: str) -> None:
    """Refuses a function that only a text names; the functions of NumPy on single values are known to all."""
    if name in _NAMED:
        return
    if name.startswith("numpy:") and isinstance(getattr(np, name.removeprefix("numpy:"), None), np.ufunc):
        return
    raise MissingFunctionError(
        f"a query calls {name!r}, which this program has not named: if it is yours, call "
        "viewlet.signals.register_functions() with it first"
    )


def name_of(function: object, what: str) -> str:
    """The name `module:function` by which another process finds a function or class."""
    full = _name_of(function, what)
    _NAMED.add(full)
    return full


def _name_of(function: object, what: str) -> str:
    if isinstance(function, str):
        if _found(function) is None:
            raise SignalError(
                f"there is no function {function!r}: its module has to be importable here, and to have it"
            )
        return function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None and name is None and type(function).__name__ == "ufunc":
        module, name = "numpy", function.__name__  # type: ignore[attr-defined]
    full = f"{module}:{name}"
    if not callable(function) or module is None or name is None or _found(full) is not function:
        raise SignalError(
            f"{what} takes a function that can be imported by its name, not {described(function)}: define it with def "
            "at the top of a module"
        )
    return full


def names_of(functions: Function | Mapping[int, Function], what: str) -> str:
    """The name of a function, or of several by number: `1=module:f,2=module:g`."""
    if not isinstance(functions, Mapping):
        return name_of(functions, what)
    if not functions or not all(isinstance(number, int) for number in functions):
        raise SignalError(f"{what} takes functions by whole numbers, as in {{1: f, 2: g}}")
    return ",".join(f"{number}={name_of(each, what)}" for number, each in functions.items())


def resolve_all(names: str) -> Any:
    """What `names_of` named: a function of times and arguments, or one whose first argument chooses among several."""
    if "=" not in names:
        return resolve(names)
    found = {int(number): resolve(name) for number, name in (each.split("=") for each in names.split(","))}

    def choose(times: Any, chosen: Any, *arguments: Any) -> Any:
        value = np.full(len(times), np.nan)
        for number, function in found.items():
            rows = np.flatnonzero(chosen == number)
            if len(rows):
                value[rows] = function(times[rows], *(each[rows] for each in arguments))
        return value

    return choose


def resolve(name: str) -> Any:
    """The function or class of a name, which the program has named."""
    check_function(name)
    found = _found(name)
    if found is None:
        raise MissingFunctionError(
            f"there is no function {name!r}: its module has to be importable here, and to have it"
        )
    return found


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found if callable(found) else None
