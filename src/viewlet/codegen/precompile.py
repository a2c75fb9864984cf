"""Compiling the functions of a generated module in a second process, for the disk cache both share.

Numba compiles one function at a time, however many cores there are. A module with several long triggers is compiled in
half the time if another process compiles some of them; this process then loads them from the cache.

    python -m viewlet.codegen.precompile module.py '{"arrays": 12, "functions": {"on_orders": ["int64", "float64"]}}'

A function without types of columns takes the state and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.codegen.module_cache import load_module
from viewlet.runtime.control import CONTROL_WORDS
from viewlet.runtime.jit import ENABLED, numba

_START = 100
"""Lines of functions that are compiled while a second process starts."""


def share(lengths: Mapping[str, int]) -> list[str]:
    """The functions for the other process: about half of all lines, if there are enough of them."""
    if not ENABLED or (os.cpu_count() or 1) < 2 or sum(lengths.values()) < 5 * _START:
        return []
    chosen: list[str] = []
    mine = others = 0
    for name in sorted(lengths, key=lambda name: -lengths[name]):
        if mine <= others + _START:
            mine += lengths[name]
        else:
            others += lengths[name]
            chosen.append(name)
    return chosen


class Helper:
    """The second process; functions that it did not compile, for whatever reason, are compiled here."""

    def __init__(self, module: Path, arrays: int, functions: Mapping[str, Sequence[str] | None]) -> None:
        task = json.dumps({"arrays": arrays, "functions": dict(functions)})
        command = [sys.executable, "-P", "-m", "viewlet.codegen.precompile", str(module), task]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> None:
        self._process.wait()


def compile_functions(module: Path, arrays: int, functions: Mapping[str, Sequence[str] | None]) -> None:
    """Calls functions on no rows, which is enough for Numba to compile them; those without columns are not called."""
    code: Any = load_module(module)
    state, control, none = np.zeros(2 * arrays, np.int64), np.zeros(CONTROL_WORDS, np.int64), np.zeros(0, np.int64)
    for name, types in functions.items():
        if types is None:
            compile_alone(getattr(code, name))
            continue
        getattr(code, name)(0, 0, False, none, *(np.zeros(0, type) for type in types), state, control)


def compile_alone(function: Any) -> None:
    """Compiles a function of the state and the control words without calling it."""
    if not function.signatures:
        words: Any = numba.typeof(np.zeros(1, np.int64))
        function.compile((words, words))


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    compile_functions(Path(sys.argv[1]), given["arrays"], given["functions"])
