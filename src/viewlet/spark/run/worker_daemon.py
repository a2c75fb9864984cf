"""Where Python workers come from in sessions that Viewlet starts: a process that has loaded what they all need.

Spark forks a worker from its daemon whenever it wants one, and lets workers go that had nothing to do for a minute. One
that is forked from here has NumPy, Arrow and Numba at hand at once.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

LOADED = ("pyarrow", "viewlet.spark.run.tasks", "viewlet.spark.run.generated", "viewlet.runtime.columns")

if __name__ == "__main__":
    from pyspark.daemon import manager

    for name in LOADED:
        with suppress(Exception):  # whoever needs it says what is wrong
            import_module(name)
    manager()
