"""All arrays of a program behind one argument.

Compiled functions take the state as a table of addresses and make the arrays they need from it, so that a function with
a hundred stores still has a handful of arguments; Numba's compile time grows with their number. As plain Python, the
state is the list of the arrays themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from viewlet.runtime.jit import ENABLED

_chosen: Any = import_module("viewlet.runtime.intrinsics" if ENABLED else "viewlet.runtime.plain")
bundle = _chosen.bundle
bundle_lines = _chosen.bundle_lines
put = _chosen.put
call_back = _chosen.call_back
words = _chosen.words
floats = _chosen.floats
numbers = _chosen.numbers
hashes = _chosen.hashes
flags = _chosen.flags
chains = _chosen.chains
