"""Where Python workers come from in sessions that Viewlet starts: a process that has loaded what they all need.

Spark forks a worker from its daemon whenever it wants one, and lets workers go that had nothing to do for a minute. One
that is forked from here has NumPy, Arrow and Numba at hand at once. None of that is ever garbage: workers need not look
at it after every task.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Any

LOADED = ("pyarrow", "viewlet.spark.run.tasks", "viewlet.spark.run.generated", "viewlet.runtime.columns")

if __name__ == "__main__":
    from pyspark import daemon

    serve = daemon.worker

    def worker(sock: Any, authenticated: bool) -> int:
        """Java may go while a worker talks to it: that is the end of a session, and nothing to print."""
        try:
            return int(serve(sock, authenticated))
        except BrokenPipeError:
            return 1

    daemon.worker = worker
    for name in LOADED:
        with suppress(Exception):  # whoever needs it says what is wrong
            import_module(name)
    gc.freeze()
    daemon.manager()
