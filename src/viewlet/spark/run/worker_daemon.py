"""The daemon that forks Python workers in sessions that Viewlet starts, with the common libraries already loaded.

Spark forks workers from its daemon on demand, and ends workers that were idle for a minute. A worker forked from this
daemon has NumPy, Arrow and Numba loaded. These objects are never garbage, so they are exempt from the collector, which
would otherwise scan them after every task.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Any

LOADED = (
    "pyarrow",
    "viewlet.spark.run.execution.tasks",
    "viewlet.spark.run.units.generated_node",
    "viewlet.runtime.columns",
)

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
        with suppress(Exception):  # the module that needs it raises the error
            import_module(name)
    gc.freeze()
    daemon.manager()
