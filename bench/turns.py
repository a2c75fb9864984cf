"""One of two source trees that are measured in turns: a process that runs one pass of a stream whenever it is told to.

    python bench/turns.py '{"workload": "tpch", "query": "q06", "scale": 0.1}'

It is started by its path, with the tree to be measured on PYTHONPATH, so that trees that do not have this file yet can
be measured too. A line on its input asks for a pass; a line of its output has the tuples and the seconds of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ENDLESS = 10_000
"""Passes; the other side of the pipe ends them."""


def main() -> None:
    from bench import measure, worker

    run_stream, output = measure.run_stream, sys.stdout
    sys.stdout = sys.stderr

    def one_pass(*given: Any) -> Any:
        if not sys.stdin.readline():
            raise SystemExit
        run = run_stream(*given)
        print(json.dumps([run.tuples, run.seconds]), file=output, flush=True)
        return run

    measure.run_stream = one_pass
    worker.measure(worker.Spec(**json.loads(sys.argv[1]) | {"repeats": ENDLESS, "timeout": 1e9}))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which is in another tree
    main()
