"""The back end on Spark: stored matrices are blocks of rows on executors, thin values are arrays at the driver.

    pass over P      X and V are broadcast; U and Y are sent by rows; P X comes back by rows, P' Y as a sum per block
    P Q, P + Q, P'   made block by block from files of the checkpoint directory
    P⁻¹              by LAPACK on one executor, which reads and writes files of the checkpoint directory

A pass sends and receives about n times the number of factors for every executor, whatever the size of P.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet, finalize

import numpy as np

from viewlet.errors import StateError
from viewlet.linalg.backends.contract import Progress, Recorder, Thin
from viewlet.linalg.backends.numpy_backend import NumpyBackend
from viewlet.linalg.machine import Machine
from viewlet.linalg.values import Units, checked_matrix
from viewlet.runtime.durable.files import is_url, local_path
from viewlet.runtime.durable.log import Record
from viewlet.runtime.durable.store import StateStore, open_location
from viewlet.runtime.private_folders import temporary_folder
from viewlet.spark.matrices.block_files import FOLDERS, Place, folder_of, read_block, write_block
from viewlet.spark.matrices.blocks import Blocks, FlippedBlocks
from viewlet.spark.matrices.change import Add, Change, Put, read_head, to_record
from viewlet.spark.matrices.history import History, Layout, LoggedChange, Stored, new_token
from viewlet.spark.matrices.recipes import (
    Concatenation,
    Linear,
    Outer,
    Recipe,
    Resized,
    ScaledIdentity,
    Times,
    TimesTransposed,
    Transposed,
    TransposedTimes,
)
from viewlet.spark.matrices.tasks import Answer, ComputeBlock, Invert, LocalProduct, Norm, Order, Pass, Remove, Save
from viewlet.spark.run.execution.cluster import Cluster, SparkCluster
from viewlet.spark.run.java import session_of

CHANGE = 111
"""The kind of records that hold changes of matrices."""
SMALL = 1 << 18
"""Matrices with so many entries are one block, and travel to the driver where they are an operand."""
THIN = 64
"""So do matrices with so few rows or columns."""
MANY_CHANGES = 500
"""Changes of a matrix after which it is written, however small they were."""
ROUND_TRIP = 0.05
"""Seconds that a stage takes, whatever it does."""
FACTS = "matrices"


@dataclass(slots=True)
class Traffic:
    """What passes have sent between the driver and the executors: bytes of factors, and of products."""

    passes: int = 0
    sent: int = 0
    received: int = 0
    stages: int = 0


class SparkMatrices:
    """The matrices of one run on a Spark session, or a master such as `"local[*]"`.

    `checkpoint` is a directory that all machines can reach, or a URL; a run that is started there again without inputs
    continues from its last update. Without one, a temporary folder of this machine is used. `partitions` is the number
    of blocks of a large matrix, by default the number of cores. `sync=False` lets a power failure lose updates.
    """

    name = "spark"
    recorder: Recorder | None = None
    is_exact = False
    factors = False
    is_durable = True

    def __init__(
        self,
        spark: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        partitions: int | None = None,
        dtype: Any = np.float64,
        sync: bool = True,
        cluster: Cluster | None = None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._session = None if cluster is not None else session_of(spark)
        self._cluster: Cluster = SparkCluster(self._session) if cluster is None else cluster
        where = os.fspath(temporary_folder("matrices") if checkpoint is None else checkpoint)
        self._store: StateStore = open_location(where, sync)
        location = where.rstrip("/") if is_url(where) else str(local_path(where).resolve())
        self._place = Place(location, self._cluster.state_folder, sync)
        self._files = self._place.files
        self._parts = partitions or self._cores()
        self._thin = NumpyBackend(self.dtype)
        self._live: WeakSet[Blocks] = WeakSet()
        self._dropped: list[str] = []
        self.traffic = Traffic()
        self.progress: Progress | None = None
        """What the checkpoint directory holds of an earlier run."""
        self._recover()

    def close(self) -> None:
        """Removes what machines keep of the matrices, and lets others open the directory."""
        with suppress(Exception):
            self._cluster.run(Remove(self._place), [None] * self._parts, "remove matrices")
        self._store.close()

    def _cores(self) -> int:
        return 2 if self._session is None else max(1, int(self._session.sparkContext.defaultParallelism))

    def _executors(self) -> int:
        if self._session is None:
            return 1
        context = self._session.sparkContext._jsc.sc()
        return 1 if context.isLocal() else max(1, int(context.getExecutorIds().size()))

    # -- the contract of back ends -------------------------------------------------------------------------------------

    def machine(self) -> Machine:
        """The rates of this machine, and the time of a stage."""
        return replace(self._thin.machine(), round_trip=ROUND_TRIP)

    def checked(self, value: Any, name: str) -> Any:
        """A matrix of finite numbers."""
        return value if isinstance(value, Blocks) else checked_matrix(value, name, self.dtype, (None, None))

    def is_native(self, value: Any) -> bool:
        """Everything that users give is converted by NumPy."""
        return False

    def index(self, units: Units) -> Any:
        """The places of unit vectors."""
        return units.places

    def thin(self, factor: Any) -> Thin:
        """The factor itself."""
        return factor

    def array(self, data: Any, *, copy: bool) -> Any:
        """A stored matrix from an array at the driver, which writes its blocks to the checkpoint directory."""
        if isinstance(data, Blocks):
            return self.copy(data) if copy else data
        if isinstance(data, FlippedBlocks):
            return self._made(Transposed(self._saved(data.blocks)), *data.shape)
        dense = np.ascontiguousarray(self._thin.dense(data), self.dtype)
        layout, token = self._layout(*dense.shape), new_token()
        for part, (begin, end) in enumerate(layout.ranges):
            write_block(self._files, token, part, dense[begin:end])
        return self._new(layout, History(token))

    def numpy(self, array: Any) -> Any:
        """All numbers, at the driver."""
        if isinstance(array, FlippedBlocks):
            return self.numpy(array.blocks).T
        if not isinstance(array, Blocks):
            return array
        saved = self._saved(array)
        blocks = [
            read_block(self._files, saved.history.base, saved.layout, saved.dtype, part)
            for part in range(saved.layout.parts)
        ]
        return np.concatenate(blocks)

    def sweep(
        self, matrix: Any, update: tuple[Thin, Thin] | None, forward: Thin | None, backward: Thin | None
    ) -> tuple[Any, Any]:
        """P X and P' Y with the old P, then P += U V', as one stage; the change is in the log before it begins."""
        if not isinstance(matrix, Blocks):
            return self._thin.sweep(matrix, update, forward, backward)
        ahead, behind = self._here(forward), self._here(backward)
        left, right = (None, None) if update is None else (self._here(update[0]), self._here(update[1]))
        before = matrix.history
        after = before if update is None else self._logged(matrix, Add(left, right))
        order = Order(
            matrix.stored,
            ahead,
            behind if isinstance(behind, Units) else None,
            left if isinstance(left, Units) else None,
            right,
            None if update is None else after.token,
            tuple(self._dropped),
        )
        payloads = [(_rows(left, *rows), _rows(behind, *rows)) for rows in matrix.layout.ranges]
        answers = self._pass(order, payloads)
        matrix.history = after
        self._dropped.clear()
        if len(after.changes) >= MANY_CHANGES:
            self._saved(matrix)
        first = None if ahead is None else np.concatenate([answer.ahead for answer in answers])
        return first, _sum(answers, behind, matrix)

    def _pass(self, order: Order, payloads: list[tuple[Any, Any]]) -> list[Answer]:
        sent = self._cluster.share(order)
        try:
            answers: list[Answer] = self._cluster.run(Pass(self._place, sent), payloads, "pass over a matrix")
        finally:
            _discard(sent)
        copies = min(self._executors(), len(payloads))
        self.traffic.passes += 1
        self.traffic.stages += 1
        self.traffic.sent += copies * (_bytes(order.forward) + _bytes(order.right))
        self.traffic.sent += sum(_bytes(left) + _bytes(back) for left, back in payloads)
        self.traffic.received += sum(_bytes(answer.ahead) + _bytes(answer.behind) for answer in answers)
        return answers

    def multiply(self, left: Any, right: Any) -> Any:
        """A product; of two large matrices a matrix in blocks, else an array at the driver."""
        left, right = self._operand(left), self._operand(right)
        if _is_large(left) and _is_large(right):
            return self._product(left, right)
        if _is_large(left):
            return self._applied(left, right)
        if _is_large(right):
            return self._applied(right.T, self._thin.dense(left).T).T
        rows, columns = left.shape[0], right.shape[1]
        if self._layout(rows, columns).parts > 1 and left.shape[1] <= THIN and not isinstance(right, Units):
            return self._made(Outer(self._thin.dense(left), np.ascontiguousarray(right.T)), rows, columns)
        return self._thin.multiply(left, right)

    def combine(self, terms: Sequence[tuple[float, Any]]) -> Any:
        """The sum of numbers times matrices."""
        if not any(_is_large(part) for _, part in terms):
            return self._thin.combine(terms)
        stored = tuple((factor, self._saved(self.array(part, copy=False))) for factor, part in terms)
        return self._made(Linear(stored), *terms[0][1].shape)

    def stack(self, parts: Sequence[Any], *, vertical: bool) -> Any:
        """Matrices side by side or on top of each other."""
        if not any(_is_large(part) for part in parts):
            return self._thin.stack(parts, vertical=vertical)
        stored = tuple(self._saved(self.array(part, copy=False)) for part in parts)
        rows = sum(part.shape[0] for part in parts) if vertical else parts[0].shape[0]
        columns = parts[0].shape[1] if vertical else sum(part.shape[1] for part in parts)
        return self._made(Concatenation(stored, vertical), rows, columns)

    def identity(self, size: int) -> Any:
        """The identity matrix, in blocks if it is large."""
        large = self._layout(size, size).parts > 1
        return self._made(ScaledIdentity(size, 1.0), size, size) if large else self._thin.identity(size)

    def zeros(self, rows: int, columns: int) -> Any:
        """A matrix of zeros, in blocks if it is large."""
        large = self._layout(rows, columns).parts > 1
        return self._made(ScaledIdentity(columns, 0.0), rows, columns) if large else self._thin.zeros(rows, columns)

    def invert(self, array: Any) -> Any:
        """The inverse by LAPACK: of a large matrix on one executor, of a small one at the driver."""
        if isinstance(array, FlippedBlocks) and array.blocks.layout.parts > 1:
            return self.invert(array.blocks).T
        if not isinstance(array, Blocks) or array.layout.parts == 1:
            return self._thin.invert(self.numpy(array))
        token = new_token()
        (finite,) = self._cluster.run(Invert(self._place, self._saved(array), token), [None], "inverse of a matrix")
        self.traffic.stages += 1
        if finite is None:
            raise np.linalg.LinAlgError("the matrix is singular")
        return self._new(array.layout, History(token), is_finite=finite)

    def strengths(self, array: Any) -> tuple[float, float]:
        """The largest and the smallest singular value of a small matrix."""
        return self._thin.strengths(self.numpy(array))

    def symmetrise(self, array: Any) -> None:
        """(P + P') / 2."""
        if not isinstance(array, Blocks):
            self._thin.symmetrise(array)
            return
        flipped = self._made(Transposed(self._saved(array)), *array.shape)
        terms = ((0.5, self._saved(array)), (0.5, flipped.stored))
        array.history = self._made(Linear(terms), *array.shape).history

    def norm(self, array: Any) -> float:
        """The Frobenius norm; of a matrix in blocks, from the norms of the blocks."""
        if isinstance(array, FlippedBlocks):
            return self.norm(array.blocks)
        if not isinstance(array, Blocks):
            return self._thin.norm(array)
        parts = self._cluster.run(Norm(self._place, array.stored), [None] * array.layout.parts, "norm of a matrix")
        self.traffic.stages += 1
        return float(np.linalg.norm(parts))

    def copy(self, array: Any) -> Any:
        """A matrix of its own; of one in blocks it has the history, and no numbers move."""
        if isinstance(array, Blocks):
            return self._new(array.layout, array.history)
        return self.array(array, copy=True) if isinstance(array, FlippedBlocks) else self._thin.copy(array)

    def is_finite(self, array: Any) -> bool:
        """Whether all numbers are finite; tasks say so of what they make."""
        if isinstance(array, FlippedBlocks):
            array = array.blocks
        return array.is_finite if isinstance(array, Blocks) else self._thin.is_finite(array)

    def commit(self, progress: Progress) -> None:
        """What the run has now is what it continues from; what no version needs any more is removed."""
        self._write(progress)
        if self._store.checkpoint_is_due:
            for array in progress.matrices.values():
                self._saved(array)
            self._write(progress)
            self._store.checkpoint(lambda writer: None)
            self._measure(progress)
        self._remove_files()

    # -- one matrix ----------------------------------------------------------------------------------------------------

    def put(self, matrix: Blocks, change: Put) -> None:
        """Replaces entries when the matrix is next read."""
        matrix.history = self._logged(matrix, change)

    def resize(self, matrix: Blocks, axis: int, count: int, without: int | None) -> Blocks:
        """The matrix with more rows or columns, or without one of them, made by the executors."""
        rows, columns = (count, matrix.shape[1]) if axis == 0 else (matrix.shape[0], count)
        return self._made(Resized(self._saved(matrix), axis, count, without), rows, columns)

    def _logged(self, matrix: Blocks, change: Change) -> History:
        """The history with one more change, which is in the log."""
        token = new_token()
        record = Record(CHANGE, self._store.manifest.epoch + 1, to_record(change, token, matrix.history.token))
        log, (at,) = self._store.append([record])
        return matrix.history.followed_by(LoggedChange(token, log, at, record.size))

    def _saved(self, matrix: Any) -> Stored:
        """The matrix after its last version is in files."""
        blocks: Blocks = matrix
        if blocks.history.changes:
            self._cluster.run(Save(self._place, blocks.stored), [None] * blocks.layout.parts, "write a matrix")
            self.traffic.stages += 1
            blocks.history = History(blocks.history.token)
        return blocks.stored

    def _new(self, layout: Layout, history: History, *, is_finite: bool = True) -> Blocks:
        found = Blocks(self, layout, self.dtype, history, is_finite=is_finite)
        self._live.add(found)
        finalize(found, self._dropped.append, found.name)
        return found

    def _layout(self, rows: int, columns: int) -> Layout:
        large = rows * columns > SMALL and min(rows, columns) > THIN
        return Layout(rows, columns, max(1, min(self._parts, rows)) if large or rows > SMALL else 1)

    # -- whole matrices ------------------------------------------------------------------------------------------------

    def _made(self, recipe: Recipe, rows: int, columns: int) -> Blocks:
        layout, token = self._layout(rows, columns), new_token()
        sent = self._cluster.share(recipe)
        try:
            task = ComputeBlock(self._place, sent, layout, self.dtype.name, token)
            finite = self._cluster.run(task, [None] * layout.parts, "make a matrix")
        finally:
            _discard(sent)
        self.traffic.stages += 1
        return self._new(layout, History(token), is_finite=all(finite))

    def _product(self, left: Any, right: Any) -> Any:
        rows, columns = left.shape[0], right.shape[1]
        if isinstance(left, FlippedBlocks) and isinstance(right, FlippedBlocks):
            return self._product(right.blocks, left.blocks).T
        if isinstance(left, FlippedBlocks):
            if self._layout(rows, columns).parts == 1 and left.blocks.layout.ranges == right.layout.ranges:
                return self._local_product(left.blocks, right)
            return self._made(TransposedTimes(self._saved(left.blocks), self._saved(right)), rows, columns)
        if isinstance(right, FlippedBlocks):
            return self._made(TimesTransposed(self._saved(left), self._saved(right.blocks)), rows, columns)
        return self._made(Times(self._saved(left), self._saved(right)), rows, columns)

    def _local_product(self, left: Blocks, right: Blocks) -> Any:
        """P' Q where it is small: every block has its part, and the driver adds them up in order."""
        task = LocalProduct(self._place, left.stored, right.stored)
        parts = self._cluster.run(task, [None] * left.layout.parts, "product of matrices")
        self.traffic.stages += 1
        return sum(parts[1:], start=parts[0])

    def _applied(self, matrix: Any, thin: Any) -> Any:
        """The product of a matrix in blocks and a thin array."""
        if isinstance(matrix, FlippedBlocks):
            return self.sweep(matrix.blocks, None, None, thin)[1]
        return self.sweep(matrix, None, thin, None)[0]

    def _operand(self, value: Any) -> Any:
        """A matrix in blocks if it is large, and an array at the driver else."""
        if isinstance(value, Blocks | FlippedBlocks) and self._layout(*value.shape).parts == 1:
            return self.numpy(value)
        return value

    def _here(self, factor: Any) -> Any:
        return self.numpy(factor) if isinstance(factor, Blocks | FlippedBlocks) else factor

    # -- commits -------------------------------------------------------------------------------------------------------

    def _write(self, progress: Progress) -> None:
        facts = {
            name: [*array.shape, array.layout.parts, array.history.base, array.history.token]
            for name, array in progress.matrices.items()
        }
        body = {FACTS: facts, "program": progress.program, "updates": progress.updates, "type": self.dtype.name}
        self._store.commit([], self._store.manifest.epoch + 1, progress.batches, body)
        if not self._store.snapshot_bytes:
            self._measure(progress)

    def _measure(self, progress: Progress) -> None:
        """A new base is worth writing when the log is larger than it."""
        self._store.snapshot_bytes = sum(array.nbytes for array in progress.matrices.values())

    def _remove_files(self) -> None:
        needed = {folder_of(blocks.history.base) for blocks in self._live}
        with suppress(OSError):  # they take room, no more
            for name in self._files.list():
                if name.startswith(FOLDERS) and name not in needed:
                    self._files.remove(name)

    def _recover(self) -> None:
        manifest = self._store.manifest
        facts: Mapping[str, Any] | None = manifest.offsets.get(FACTS)
        if facts is None:
            if manifest.logs or manifest.snapshot:
                self._store.close()
                raise StateError(f"{self._place.checkpoint} is the directory of a database, not of a matrix program")
            return
        if manifest.offsets["type"] != self.dtype.name:
            self._store.close()
            raise StateError(f"{self._place.checkpoint} has matrices of {manifest.offsets['type']}: give this dtype")
        before: dict[str, tuple[str, LoggedChange]] = {}
        for log, record in self._store.located_records():
            head = read_head(bytes(record.payload))
            before[head["token"]] = head["before"], LoggedChange(head["token"], log, record.at, record.size)
        matrices = {}
        for name, (rows, columns, parts, base, token) in facts.items():
            changes: list[LoggedChange] = []
            while token != base:
                token, change = before[token]
                changes.append(change)
            matrices[name] = self._new(Layout(rows, columns, parts), History(base, tuple(reversed(changes))))
        offsets = manifest.offsets
        self.progress = Progress(matrices, offsets["program"], offsets["updates"], manifest.batches)
        self._store.remove_left_over()


def _is_large(value: Any) -> bool:
    return isinstance(value, Blocks | FlippedBlocks)


def _rows(factor: Any, begin: int, end: int) -> Any:
    return None if factor is None or isinstance(factor, Units) else np.ascontiguousarray(factor[begin:end])


def _bytes(value: Any) -> int:
    return 0 if value is None else value.places.nbytes if isinstance(value, Units) else int(value.nbytes)


def _sum(answers: list[Answer], backward: Any, matrix: Blocks) -> Any:
    """P' Y from the parts of all blocks, added up in order; rows that were read are put side by side."""
    if backward is None:
        return None
    if not isinstance(backward, Units):
        parts: list[Any] = [answer.behind for answer in answers]
        return sum(parts[1:], start=parts[0])
    found = np.zeros((matrix.shape[1], len(backward.places)), matrix.dtype)
    for answer in answers:
        if answer.behind is not None:
            found[:, answer.chosen] = answer.behind
    return found


def _discard(sent: Any) -> None:
    """A broadcast value that no task reads any more."""
    destroy = getattr(sent, "destroy", None)
    if destroy is not None:
        destroy()
