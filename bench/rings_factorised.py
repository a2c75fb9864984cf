"""The natural join of Housing, factorised and listed, while the scale and with it the join grow (Figure 8).

python -m bench.rings_factorised --scales 1,2,4,8,12,16,20

The relations grow with the scale, their join with its cube. Factorised, the join is kept as the values of each relation
by postcode; listed, as rows, whose keys are all 27 attributes. Both take in the same stream of batches. A listing that
would have too many rows is extrapolated with the cube of the scale, from the largest one that was measured.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.rings_data import Workload, housing_data
from bench.rings_engines import result_engine, tree_engine, types_of
from bench.rings_record import OUT, Recorder, clock, recording
from bench.run import names
from viewlet.rings import INTEGER_RING
from viewlet.viewtree.ring_tree import build_tree

ENUMERATED = 100_000
"""Rows that are read to see how long one takes."""


def main(
    scales: Annotated[str, typer.Option(help="houses, shops and restaurants per postcode")] = "1,2,4,8,12,16,20",
    postcodes: Annotated[int, typer.Option(help="postcodes")] = 25_000,
    batch: Annotated[int, typer.Option(help="rows of a batch")] = 1000,
    most_rows: Annotated[int, typer.Option(help="rows of the largest listing to measure")] = 2_000_000,
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit")] = True,
    quick: Annotated[bool, typer.Option(help="tiny sizes, to see that it works")] = False,
) -> None:
    """Measure both at each scale."""
    if quick:
        scales, postcodes, batch, most_rows = "1,2,3", 30, 50, 300
    with recording("factorised", out, calibration and not quick, batch=batch, postcodes=postcodes) as recorder:
        largest: dict[str, Any] = {}
        for scale in map(int, names(scales)):
            workload = housing_data(scale, postcodes)
            count = factorised(recorder, workload, scale, batch)
            if count <= most_rows:
                largest = listing(recorder, workload, scale, batch, count)
            elif largest:
                growth = (scale / largest["scale"]) ** 3
                recorder.add(
                    line="listing", scale=scale, tuples=workload.tuples, join_rows=count, extrapolated=True,
                    bytes=largest["bytes"] * growth, seconds=largest["seconds"] * growth,
                )  # fmt: skip


def factorised(recorder: Recorder, workload: Workload, scale: int, batch: int) -> int:
    engine = result_engine(build_tree(workload.order), workload.attributes, types_of(workload.attributes))
    seconds = _fill(engine, workload, batch)
    count = int(engine.count)
    started = clock()
    read = sum(1 for _ in islice(engine.rows(), ENUMERATED))
    delay = (clock() - started) / read
    recorder.add(
        line="factorised", scale=scale, tuples=workload.tuples, join_rows=count, seconds=seconds,
        bytes=engine.bytes(), values=int(engine.size), microseconds_per_row=round(1e6 * delay, 3),
    )  # fmt: skip
    return count


def listing(recorder: Recorder, workload: Workload, scale: int, batch: int, count: int) -> dict[str, Any]:
    tree = build_tree(workload.order, workload.attributes)
    engine = tree_engine(tree, INTEGER_RING, types_of(workload.attributes))
    seconds = _fill(engine, workload, batch)
    rows = engine.sizes()[tree.root.name]
    assert rows <= count, "more distinct rows than rows"
    return recorder.add(
        line="listing", scale=scale, tuples=workload.tuples, join_rows=count, distinct_rows=rows, seconds=seconds,
        bytes=engine.bytes(),
    )  # fmt: skip


def _fill(engine: Any, workload: Workload, batch: int) -> float:
    """Seconds for the whole stream; what is compiled for it is compiled before."""
    for relation, columns in workload.columns.items():
        head = [column[:2] for column in columns]
        for sign in (1, -1):
            engine.apply_columns(relation, head, np.full(2, sign, np.int64))
    started = clock()
    for relation, begin, end in workload.batches(batch):
        columns = [column[begin:end] for column in workload.columns[relation]]
        engine.apply_columns(relation, columns, np.ones(end - begin, np.int64))
    return clock() - started


if __name__ == "__main__":
    typer.run(main)
