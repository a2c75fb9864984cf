"""What runs on executors, once for each block: a pass, a product of two blocks, writing a block, making one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from viewlet.linalg.backends.contract import Thin
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.values import Units
from viewlet.spark.matrices import block_state
from viewlet.spark.matrices.block_files import BlockReader, Place, write_block
from viewlet.spark.matrices.block_state import held
from viewlet.spark.matrices.change import restrict
from viewlet.spark.matrices.history import Layout, Stored
from viewlet.spark.matrices.recipes import Recipe
from viewlet.spark.run.state.partition import Broadcast


@dataclass(frozen=True, slots=True)
class Order:
    """What all tasks of a pass are told: P X and P' Y with the old P, then P += U V', which makes it version `token`.

    Y and U are sent to each task for its rows, unless they are unit vectors. `dropped` are matrices that are no more.
    """

    matrix: Stored
    forward: Thin | None
    backward: Units | None
    left: Units | None
    right: Thin | None
    token: str | None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """P X for the rows of the block, and its part of P' Y; of unit vectors, those in `chosen`."""

    ahead: Any | None
    behind: Any | None
    chosen: Any | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a block."""

    place: Place
    sent: Broadcast[Order]

    def __call__(self, part: int, payload: tuple[Any, Any]) -> Answer:
        """`payload` are the rows of U and of Y."""
        order = self.sent.value
        if order.dropped:
            block_state.remove(self.place, order.dropped)
        left, backward = payload
        begin, end = order.matrix.layout.range(part)
        chosen = None
        if order.backward is not None:
            chosen = (order.backward.places >= begin) & (order.backward.places < end)
            backward = Units(end - begin, order.backward.places[chosen] - begin) if chosen.any() else None
        update = None
        if order.right is not None:
            update = restrict(left if order.left is None else order.left, order.right, begin, end)
        with held(self.place, order.matrix, part) as block:
            found: list[tuple[Any, Any]] = []

            def sweep(array: Any) -> None:
                found.append(_processor(str(array.dtype)).sweep(array, update, order.forward, backward))

            if order.token is None:
                sweep(block.array)
            else:
                block.change(order.token, sweep)
        ahead, behind = found[0]
        return Answer(ahead, None if behind is None else np.ascontiguousarray(behind), chosen)


@dataclass(frozen=True, slots=True)
class LocalProduct:
    """P_i' Q_i of the blocks of two matrices that are divided alike; the sum over all is P' Q."""

    place: Place
    left: Stored
    right: Stored

    def __call__(self, part: int, _: object) -> Any:
        with held(self.place, self.left, part) as first:
            if self.left.name == self.right.name:
                return first.array.T @ first.array
            with held(self.place, self.right, part) as second:
                return first.array.T @ second.array


@dataclass(frozen=True, slots=True)
class Norm:
    """The Frobenius norm of a block."""

    place: Place
    matrix: Stored

    def __call__(self, part: int, _: object) -> float:
        with held(self.place, self.matrix, part) as block:
            return float(np.linalg.norm(block.array))


@dataclass(frozen=True, slots=True)
class Save:
    """Writes a block to the checkpoint directory."""

    place: Place
    matrix: Stored

    def __call__(self, part: int, _: object) -> None:
        with held(self.place, self.matrix, part) as block:
            write_block(self.place.files, self.matrix.history.token, part, block.array)


@dataclass(frozen=True, slots=True)
class ComputeBlock:
    """Computes a block by a recipe, and writes it; says whether its numbers are finite."""

    place: Place
    recipe: Broadcast[Recipe]
    layout: Layout
    dtype: str
    token: str

    def __call__(self, part: int, _: object) -> bool:
        files = self.place.files
        block = self.recipe.value.rows(BlockReader(files), *self.layout.range(part)).astype(self.dtype, copy=False)
        write_block(files, self.token, part, block)
        return bool(np.isfinite(block).all())


@dataclass(frozen=True, slots=True)
class Invert:
    """Computes the inverse of a matrix whose last version is in files, by LAPACK on one machine, and writes it.

    Says whether its numbers are finite; None if there is no inverse.
    """

    place: Place
    matrix: Stored
    token: str

    def __call__(self, _: int, payload: object) -> bool | None:
        files, layout = self.place.files, self.matrix.layout
        try:
            found = np.linalg.inv(BlockReader(files).rows(self.matrix, 0, layout.rows))
        except np.linalg.LinAlgError:
            return None
        for part, (begin, end) in enumerate(layout.ranges):
            write_block(files, self.token, part, found[begin:end])
        return bool(np.isfinite(found).all())


@dataclass(frozen=True, slots=True)
class Remove:
    """Removes what the machine has of all matrices of a checkpoint."""

    place: Place

    def __call__(self, part: int, _: object) -> None:
        block_state.remove(self.place, None)


@lru_cache(maxsize=4)
def _processor(dtype: str) -> NumpyBackend:
    """What computes in one task: compiled passes in one thread, or NumPy."""
    from viewlet.runtime.jit import ENABLED

    if not ENABLED:
        return NumpyBackend(dtype)
    from viewlet.linalg.backends.compiled_backend import CompiledBackend

    return CompiledBackend(dtype, threads=1)
