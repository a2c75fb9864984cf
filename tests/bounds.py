"""Kernels under bounds checks: as plain Python, on arrays that refuse every index outside of them.

NumPy takes a negative index for one from the end and cuts slices that are too long; compiled code without checks reads
and writes what lies there. `Checked` arrays refuse both.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np


class Checked(np.ndarray):
    """An array whose indexes have to lie in it."""

    def __getitem__(self, key: Any) -> Any:
        _check(key, self.shape)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _check(key, self.shape)
        super().__setitem__(key, value)


def _check(key: Any, shape: tuple[int, ...]) -> None:
    for each, size in zip(key if isinstance(key, tuple) else (key,), shape, strict=False):
        match each:
            case slice():
                ends = [end for end in (each.start, each.stop) if end is not None]
            case np.ndarray() if each.ndim:
                ends = [] if each.dtype == np.bool_ or not each.size else [each.min(), each.max() + 1]
            case None:
                return
            case _:
                ends = [each, each + 1]
        if any(not 0 <= end <= size for end in ends):
            raise IndexError(f"{key!r} is outside of an array of shape {shape}")


def _mapped(value: Any, kind: type) -> Any:
    if isinstance(value, np.ndarray):
        return value.view(kind)
    return tuple(_mapped(each, kind) for each in value) if type(value) is tuple else value


def kernels_of(module: ModuleType) -> set[str]:
    """The functions of a module that Python calls and Numba compiles."""
    body = ast.parse(inspect.getsource(module)).body
    return {
        each.name
        for each in body
        if isinstance(each, ast.FunctionDef)
        and any(isinstance(name, ast.Name) and name.id == "entry" for name in each.decorator_list)
    }


@contextmanager
def checked_kernels(package: str) -> Iterator[tuple[set[str], set[str]]]:
    """Runs all kernels of a package on checked arrays; gives the names of the kernels, and of those that have run."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(package)]
    own = {(module, name) for module in modules for name in kernels_of(module)}
    every, called = {name for _, name in own}, set[str]()

    def checked(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def run(*arguments: Any) -> Any:
            called.add(name)
            return _mapped(kernel(*(_mapped(each, Checked) for each in arguments)), np.ndarray)

        return run

    before = []
    for module, name in own:
        kernel = getattr(module, name)
        wrapped = checked(name, kernel)
        for user in modules:
            for alias, value in list(vars(user).items()):
                if value is kernel:
                    before.append((user, alias, kernel))
                    setattr(user, alias, wrapped)
    try:
        yield every, called
    finally:
        for user, alias, kernel in before:
            setattr(user, alias, kernel)
