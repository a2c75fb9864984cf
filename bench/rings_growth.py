"""Constant time: what a batch costs when there is ten times the data.

python -m bench.rings_growth --retailer-scales 1,10 --housing-scales 2,20

The engines are filled, then batches go in and out again, so that each is measured with the same data in place. On
Housing batches of every relation, on Retailer batches of Inventory, with the same places, days and products at each
scale: with more of them the rows of a batch would have less in common.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.rings_data import Workload, housing_data, retailer_data
from bench.rings_engines import tree_engine, types_of
from bench.rings_record import OUT, clock, recording
from bench.run import names
from viewlet.rings.cofactor import CofactorRing
from viewlet.viewtree.ring_tree import build_tree


def main(
    retailer_scales: Annotated[str, typer.Option(help="times 100,000 rows of Inventory")] = "1,10",
    housing_scales: Annotated[str, typer.Option(help="houses, shops and restaurants per postcode")] = "2,20",
    postcodes: Annotated[int, typer.Option(help="postcodes of Housing")] = 25_000,
    batch: Annotated[int, typer.Option(help="rows of a batch")] = 1000,
    batches: Annotated[int, typer.Option(help="batches that are timed, each in and out")] = 100,
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit")] = True,
    quick: Annotated[bool, typer.Option(help="tiny sizes, to see that it works")] = False,
) -> None:
    """Measure at each scale."""
    if quick:
        retailer_scales, housing_scales, postcodes, batch, batches = "0.01,0.1", "1,2", 50, 50, 3
    with recording("growth", out, calibration and not quick, batch=batch, batches=batches) as recorder:
        for scale in map(int, names(housing_scales)):
            workload = housing_data(scale, postcodes)
            engine = filled(workload, batch)
            for relation in workload.relations:
                recorder.add(scale=scale, **measure(engine, workload, relation, batch, batches))
        sizes = [float(size) for size in names(retailer_scales)]
        for size in sizes:
            workload = retailer_data(size, dimensions=max(sizes))
            recorder.add(scale=size, **measure(filled(workload, batch), workload, "Inventory", batch, batches))


def measure(engine: Any, workload: Workload, relation: str, batch: int, batches: int) -> dict[str, Any]:
    given = workload.columns[relation]
    random = np.random.default_rng(2)
    seconds = []
    for _ in range(batches + 1):
        places = random.integers(0, len(given[0]), batch)
        columns = [column[places] for column in given]
        seconds.append(sum(_timed(engine, relation, columns, np.full(batch, sign, np.int64)) for sign in (1, -1)))
    median = float(np.median(seconds[1:]))  # the first one is for the caches
    return {
        "workload": workload.name, "relation": relation, "tuples": workload.tuples, "batch": batch,
        "nanoseconds_per_tuple": round(1e9 * median / (2 * batch), 1), "bytes": engine.bytes(),
    }  # fmt: skip


def _timed(engine: Any, relation: str, columns: list[Any], times: Any) -> float:
    started = clock()
    engine.apply_columns(relation, columns, times)
    return clock() - started


def filled(workload: Workload, batch: int) -> Any:
    engine = tree_engine(build_tree(workload.order), CofactorRing(workload.attributes), types_of(workload.attributes))
    for relation, begin, end in workload.batches(batch):
        columns = [column[begin:end] for column in workload.columns[relation]]
        engine.apply_columns(relation, columns, np.ones(end - begin, np.int64))
    return engine


if __name__ == "__main__":
    typer.run(main)
