"""A = A1 A2 A3 under changes of A2 (Figure 6): factorised propagation, first-order deltas and recomputation.

python -m bench.rings_matrix --sizes 256,512,1024,2048,4096

A change of one row, or of rank r, is u vᵀ or a sum of r of them. Factorised, it is (A1 u)(vᵀ A3), vectors all the way;
first-order multiplies A1 δA2 A3 as matrices; recomputation multiplies all three. Once with matrices in the stores of
view trees (the reference engine: dictionaries, one entry per cell), once with NumPy arrays and BLAS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.rings_record import OUT, Recorder, best_seconds, recording
from bench.run import names
from viewlet.rings import FLOAT_RING
from viewlet.viewtree.order import VariableOrder, chain
from viewlet.viewtree.product_update import ProductUpdate, product_update
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import build_tree

ORDER = VariableOrder((chain("X1", "X4", "X3", "X2"),), {"A1": ("X1", "X2"), "A2": ("X2", "X3"), "A3": ("X3", "X4")})
"""A1 meets A2 first, as in the paper. In the other order a row without factors would be fast, and a column slow."""

Matrix = Any


def main(
    sizes: Annotated[str, typer.Option(help="n of n x n arrays")] = "256,512,1024,2048,4096",
    store_sizes: Annotated[str, typer.Option(help="n of n x n matrices in stores")] = "16,32,64,128",
    ranks: Annotated[str, typer.Option(help="ranks of updates")] = "1,2,4,8,16,32,64,96,128,192,256,384,512",
    rank_size: Annotated[int, typer.Option(help="n of the arrays of rank-r updates")] = 2048,
    store_rank_size: Annotated[int, typer.Option(help="n of the stored matrices of rank-r updates")] = 64,
    repeats: Annotated[int, typer.Option(help="runs of which the fastest counts")] = 5,
    out: Annotated[Path, typer.Option(help="where results go")] = OUT,
    calibration: Annotated[bool, typer.Option(help="measure the machine's unit")] = True,
    quick: Annotated[bool, typer.Option(help="tiny sizes, to see that it works")] = False,
) -> None:
    """Measure one-row updates over n, and rank-r updates over r."""
    if quick:
        sizes, store_sizes, ranks, rank_size, store_rank_size, repeats = "64,128", "4,8", "1,2,8,64", 128, 8, 2
    with recording("matrix", out, calibration and not quick, sizes=sizes, ranks=ranks) as recorder:
        for n in map(int, names(sizes)):
            arrays(recorder, n, 1, repeats)
        for n in map(int, names(store_sizes)):
            stores(recorder, n, 1, max(1, repeats // 2))
        for rank in map(int, names(ranks)):
            if rank <= rank_size:
                arrays(recorder, rank_size, rank, max(1, repeats // 2), "rank")
            if rank <= store_rank_size:
                stores(recorder, store_rank_size, rank, 1, "rank")


def change(random: np.random.Generator, n: int, rank: int) -> tuple[Matrix, Matrix]:
    """u and v of a change u vᵀ: of one row where the rank is 1."""
    left = random.uniform(-1, 1, (n, rank))
    if rank == 1:
        left = np.zeros((n, 1))
        left[int(random.integers(n)), 0] = 1.0
    return left, random.uniform(-1, 1, (n, rank))


def arrays(recorder: Recorder, n: int, rank: int, repeats: int, vary: str = "n") -> None:
    random = np.random.default_rng(n)
    first, middle, last = (random.uniform(-1, 1, (n, n)) for _ in range(3))
    left, right = change(random, n, rank)
    result = first @ middle @ last

    def one_by_one() -> Matrix:
        for i in range(rank):
            np.add(result, np.outer(first @ left[:, i], right[:, i] @ last), out=result)
        return result

    def together() -> Matrix:
        np.add(result, (first @ left) @ (right.T @ last), out=result)
        return result

    def first_order() -> Matrix:
        if rank == 1:  # the delta has one row, which only one column of A1 meets
            row = int(left.argmax())
            partial = np.outer(first[:, row], right[:, 0])
        else:
            partial = first @ (left @ right.T)
        np.add(result, partial @ last, out=result)
        return result

    def recompute() -> Matrix:
        return (first @ (middle + left @ right.T)) @ last

    ways = {"factorised": one_by_one, "first-order": first_order, "recompute": recompute}
    if rank > 1:
        ways["factorised, all at once"] = together
    expected = recompute()
    for name, work in ways.items():
        result = first @ middle @ last
        found = work()
        assert np.allclose(found, expected, atol=1e-6 * n), f"{name} is wrong"
        seconds = best_seconds(work, repeats)
        recorder.add(place="arrays", line=name, n=n, rank=rank, vary=vary, seconds=seconds)


def stores(recorder: Recorder, n: int, rank: int, repeats: int, vary: str = "n") -> None:
    random = np.random.default_rng(n)
    matrices = {name: random.uniform(-1, 1, (n, n)) for name in ("A1", "A2", "A3")}
    left, right = change(random, n, rank)
    delta = left @ right.T
    entries = {name: dict(np.ndenumerate(matrix)) for name, matrix in matrices.items()}
    parts = [_product(left[:, i], right[:, i]) for i in range(rank)]
    cells = {at: value for at, value in np.ndenumerate(delta) if value}
    changed = dict(np.ndenumerate(matrices["A2"] + delta))
    maintained = _tree(entries)
    expected = matrices["A1"] @ (matrices["A2"] + delta) @ matrices["A3"]
    maintained.update_products("A2", parts)
    _check(maintained, expected, "factorised")
    _check(_updated(_tree(entries), cells), expected, "first-order")

    ways = {
        "factorised": lambda: maintained.update_products("A2", parts),
        "first-order": lambda: maintained.update("A2", cells),
        "recompute": lambda: _tree(entries | {"A2": changed}),
    }
    for name, work in ways.items():
        recorder.add(place="stores", line=name, n=n, rank=rank, vary=vary, seconds=best_seconds(work, repeats))


def _product(left: Matrix, right: Matrix) -> ProductUpdate[float]:
    """A change of A2 as the product of a column and a row, without zeros."""
    rows, columns = ({(i,): float(x) for i, x in enumerate(vector) if x} for vector in (left, right))
    return product_update((("X2",), rows), (("X3",), columns))


def _tree(entries: dict[str, dict[tuple[int, ...], float]]) -> MaintainedTree[float]:
    return MaintainedTree(build_tree(ORDER, ("X1", "X4")), FLOAT_RING, {}, {"A2"}, entries)


def _updated(tree: MaintainedTree[float], cells: dict[tuple[int, ...], float]) -> MaintainedTree[float]:
    tree.update("A2", cells)
    return tree


def _check(tree: MaintainedTree[float], expected: Matrix, name: str) -> None:
    found = np.zeros_like(expected)
    for (row, column), value in tree.result.entries.items():
        found[row, column] = value
    assert np.allclose(found, expected), f"{name} is wrong"


if __name__ == "__main__":
    typer.run(main)
