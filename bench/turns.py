"""One of two source trees that are measured in turns: a process that runs one pass of a stream whenever it is told to.

    python bench/turns.py '{"workload": "tpch", "query": "q06", "scale": 0.1}'

It is started by its path, with the tree to be measured on PYTHONPATH, so that trees that do not have this file yet can
be measured too. A line on its input asks for a pass; a line of its output has the tuples and the seconds of it. With
`"engine": "spark"` the view is on Spark, with the master that comes after, and a pass is one batch.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

ENDLESS = 10_000
"""Passes; the other side of the pipe ends them."""

MOST_BATCHES = 200


def main() -> None:
    from bench import worker

    spec, output = worker.Spec(**json.loads(sys.argv[1]) | {"repeats": ENDLESS, "timeout": 1e9}), sys.stdout
    sys.stdout = sys.stderr
    if spec.engine == "spark":
        on_spark(spec, sys.argv[2], output)
    else:
        in_process(spec, output)


def wait_for_turn() -> None:
    if not sys.stdin.readline():
        raise SystemExit


def answer(output: TextIO, tuples: int, seconds: float) -> None:
    print(json.dumps([tuples, seconds]), file=output, flush=True)


def in_process(spec: Any, output: TextIO) -> None:
    """Passes over the whole stream on the compiled engine."""
    from bench import measure, worker

    run_stream = measure.run_stream

    def one_pass(*given: Any) -> Any:
        wait_for_turn()
        run = run_stream(*given)
        answer(output, run.tuples, run.seconds)
        return run

    measure.run_stream = one_pass
    worker.measure(spec)


def on_spark(spec: Any, master: str, output: TextIO) -> None:
    """Batches of Arrow rows, handed in at the driver, for a view that has been loaded."""
    from bench.sources import find_query
    from bench.spark_views import ARROW, MeasuredView, Plan, clocked
    from workloads.tpch import load_tpch

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["VIEWLET_STATE"] = str(Path(scratch, "state"))
        import viewlet

        spark = viewlet.spark_session(master, **{"spark.driver.memory": "2g"})
        plan = Plan((spec.batch,), (ARROW,), MOST_BATCHES, 2)
        files = load_tpch(spec.scale, Path(spec.data))
        work, state = Path(scratch, "work"), Path(scratch, "state")
        work.mkdir()
        with MeasuredView(spark, files, find_query("tpch", spec.query), plan, work, state) as view:
            view.load()
            while True:
                wait_for_turn()
                answer(output, spec.batch, clocked(view._prepared(spec.batch, ARROW)))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which is in another tree
    main()
