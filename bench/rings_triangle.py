"""Cofactors over the triangles of a graph (appendix B), with and without an indicator projection.

python -m bench.rings_triangle --edges 20000

    V@C[A, B] = ⊕C S(B, C) ⊗ T(C, A)             pairs that any C connects: up to the square of the edges
    V@C[A, B] = ⊕C S(B, C) ⊗ T(C, A) ⊗ ∃A,B R    pairs that are edges of R: never more than those

The three relations hold the same edges, drawn with a skew, and arrive in batches in turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.rings_data import skewed
from bench.rings_engines import tree_engine, types_of
from bench.rings_record import OUT, Recorder, clock, recording
from bench.streams import round_robin
from viewlet.rings.cofactor import CofactorRing
from viewlet.rings.cofactor_table import cofactor_table
from viewlet.viewtree.indicator import with_indicators
from viewlet.viewtree.order import VariableOrder, chain
from viewlet.viewtree.ring_tree import ViewTree, build_tree

RELATIONS = {"R": ("A", "B"), "S": ("B", "C"), "T": ("C", "A")}
POINTS = 20


def main(
    edges: Annotated[int, typer.Option(help="edges of each relation")] = 20_000,
    nodes: Annotated[int, typer.Option(help="nodes of the graph")] = 4_000,
    skew: Annotated[float, typer.Option(help="of the nodes that edges meet")] = 0.6,
    batch: Annotated[int, typer.Option(help="rows of a batch")] = 1000,
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit")] = True,
    quick: Annotated[bool, typer.Option(help="tiny sizes, to see that it works")] = False,
) -> None:
    """Measure both trees over the same stream, and compare their answers."""
    if quick:
        edges, nodes, batch = 300, 60, 100
    graph = _graph(edges, nodes, skew)
    tree = build_tree(VariableOrder((chain("A", "B", "C"),), RELATIONS))
    answers = []
    with recording("triangle", out, calibration and not quick, edges=edges, nodes=nodes, skew=skew) as recorder:
        for line, chosen in (("without indicator", tree), ("with indicator", with_indicators(tree))):
            answers.append(measure(recorder, line, chosen, graph, batch))
        assert all(np.allclose(left, right, rtol=1e-9) for left, right in zip(*answers, strict=True)), "answers differ"
        recorder.add(line="check", same=True, count=int(answers[0][0]))


def _graph(edges: int, nodes: int, skew: float) -> dict[str, list[Any]]:
    random = np.random.default_rng(5)
    drawn = [skewed(random, nodes, 2 * edges, skew) for _ in range(2)]
    pairs = np.unique(np.stack(drawn, axis=1), axis=0)
    random.shuffle(pairs)
    pairs = pairs[:edges]
    return {name: [pairs[:, 0].copy(), pairs[:, 1].copy()] for name in RELATIONS}


def measure(recorder: Recorder, line: str, tree: ViewTree, graph: dict[str, list[Any]], batch: int) -> Any:
    ring = CofactorRing(("A", "B", "C"))
    engine = tree_engine(tree, ring, types_of(ring.continuous))
    for sign in (1, -1):  # compiles what the stream will call
        for name, columns in graph.items():
            engine.apply_columns(name, [column[:10] for column in columns], np.full(10, sign, np.int64))
    sizes = {name: len(columns[0]) for name, columns in graph.items()}
    total, done, mark, seconds = sum(sizes.values()), 0, 0, 0.0
    progress = []
    for (piece,) in round_robin(sizes, batch):
        columns = [column[piece.begin : piece.end] for column in graph[piece.table]]
        started = clock()
        engine.apply_columns(piece.table, columns, np.ones(piece.end - piece.begin, np.int64))
        seconds += clock() - started
        done += piece.end - piece.begin
        if done * POINTS >= mark * total:
            rows = engine.sizes()
            pairs = max(count for name, count in rows.items() if name.startswith("V@"))
            progress.append([done, round(seconds, 6), pairs])
            mark = done * POINTS // total + 1
    table = cofactor_table(ring, engine.payload)
    recorder.add(
        line=line, tuples=done, seconds=seconds, tuples_per_second=done / seconds,
        rows=sum(engine.sizes().values()), largest_view=progress[-1][2], bytes=engine.bytes(), progress=progress,
    )  # fmt: skip
    return table.count, table.sums, table.matrix


if __name__ == "__main__":
    typer.run(main)
