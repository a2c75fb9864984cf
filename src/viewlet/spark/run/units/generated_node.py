"""A kernel of generated code: views in flat arrays, statements as compiled functions. See `node` for what it must do.

The arrays may be files that several processes use, one at a time (`attach_again`). A batch that one process has begun
can be finished by another, or rolled back (see `node.SharedNode`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from viewlet.changes import Change, ColumnChange
from viewlet.codegen.blocks import BlockPlan
from viewlet.codegen.node import CompiledNode, Contents, Images, Undo
from viewlet.errors import InternalError
from viewlet.runtime.columns import to_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.spark.run.exchange.wire import has_parts
from viewlet.spark.run.exchange.wire_columns import decode_contents, encode_contents, partitions_of
from viewlet.spark.run.units import batch_file
from viewlet.spark.run.units.generated_result import GeneratedResult, bits
from viewlet.spark.run.units.node import REPLACED, tells_effects
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, WorkerBlock
from viewlet.spark.run.units.unit import ProgramCode
from viewlet.spark.run.units.unit_result import OWN, ResultCode
from viewlet.triggers.program import Statement
from viewlet.types import Row, Table

Blob = bytes | memoryview
Done = tuple[Undo, Images]


def block_plan(code: PlanCode) -> BlockPlan:
    """The statements of a plan, wherever they run, in the order they run in."""
    moves: list[tuple[str, str]] = []
    for block in (*code.mappers.values(), *code.blocks):
        if isinstance(block, WorkerBlock):
            moves += [(departure.target, departure.source) for departure in block.departures]
        else:
            moves += [(step.target, step.source) for step in block.steps if isinstance(step, Departure)]
    return BlockPlan(code.key, tuple(statements_of(code)), code.temporaries, tuple(moves))


def statements_of(code: PlanCode) -> list[Statement]:
    found: list[Statement] = []
    for block in (*code.mappers.values(), *code.blocks):
        steps = block.steps if isinstance(block, DriverBlock) else block.statements
        found += [step for step in steps if isinstance(step, Statement)]
    return found


class GeneratedNode:
    """The views of a unit in one partition or at the driver, in flat arrays."""

    def __init__(
        self,
        code: ProgramCode,
        views: Iterable[str],
        dictionary: StringDictionary | None = None,
        make_store: Callable[[Layout], FlatStore] = FlatStore,
    ) -> None:
        if code.module is None:
            raise InternalError(f"{code.name} has no generated code")
        self._code = code
        here = set(views)
        self._views = {name: view for name, view in (*code.views.items(), *code.local.items()) if name in here}
        self._node = CompiledNode(code.module, dictionary, make_store)
        self._columns = {name: frozenset(code.module.delta_columns.get(name, ())) for name in code.tables}
        self._positions = {
            id(statement): i for plan in code.plans.values() for i, statement in enumerate(statements_of(plan))
        }
        self._plan = ""
        self._program = code.program
        self._results: dict[str, GeneratedResult] = {}
        """Those that have been asked for, by their digests."""

    def compile_all(self, plan: PlanCode) -> None:
        """Compiles what a plan runs anywhere, so that all processes of this machine find it in the cache."""
        self._node.compile_all(plan.key, [self._positions[id(statement)] for statement in statements_of(plan)])

    def columns_read(self, table: str) -> frozenset[int] | None:
        return self._columns[table]

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return to_columns(table, rows, self._columns[table.name], self._node.dictionary, sign, encoded, partial=True)

    def begin(self, code: PlanCode) -> None:
        self._node.end_batch()
        self._plan = code.key

    def go_on(self, code: PlanCode) -> None:
        self._plan = code.key

    def rollback(self) -> bool:
        self._node.take_back()
        return True

    @property
    def done(self) -> Done:
        """What the batch has done to each view, and rows before they were changed, where they are needed."""
        return self._node.undo, self._node.images

    def progress(self, before: str | None) -> bytes:
        return batch_file.to_bytes(before, *(self.done if before is not None else ([], {})))

    def attach_again(self) -> None:
        """Another process has changed the arrays."""
        for store in self._node.stores.values():
            if store.is_shared:
                store.attach_again()

    def take_over(self, progress: bytes) -> str | None:
        before, undo, images = batch_file.from_bytes(progress)
        self._node.undo[:] = undo
        self._node.images = images
        return before

    def change(self, table: str, change: Change) -> None:
        node = self._node
        given = change.columns(self._code.tables[table], self._columns[table], node.dictionary)
        node.add_change(table, lambda i: bits(given.words[i]), given.multiplicity)

    def record(self) -> dict[str, list[bytes]]:
        """What was done to each view, and to no more of it than has changed."""
        found: dict[str, list[bytes]] = {}
        for name, contents, replaced in self._node.undo:
            if replaced:
                found[f"{REPLACED}{name}"] = [self.contents(name)]
            elif len(contents):
                found.setdefault(name, []).append(encode_contents(self._node, name, contents))
        return found

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        if record and not tells_effects(record, self._views):
            self._redo_inputs(plan, record)
            return
        self.begin(plan)
        for name, blobs in record.items():
            if name.startswith(REPLACED):
                self.restore(name.removeprefix(REPLACED), blobs[0])
            else:
                self.put(name, blobs)

    def _redo_inputs(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """The reference kernel runs the statements, on copies of the views."""
        reference = self._code.evaluated(self._views)
        for name in self._views:
            reference.restore(name, self.contents(name))
        reference.redo(plan, record)
        for name in self._views:
            self.restore(name, reference.contents(name))

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        store = self._store(name)
        self._node.arrive(store, [decode_contents(self._node, store, blob) for blob in blobs if len(blob)])

    def run(self, statements: Iterable[Statement]) -> None:
        self._node.run(self._plan, [self._positions[id(statement)] for statement in statements])

    def contents(self, name: str) -> bytes:
        store = self._store(name)
        return encode_contents(self._node, store, self._node.contents(store))

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        store = self._store(name)
        contents = self._node.contents(store)
        if not len(contents):
            return {}
        numbers = partitions_of(self._node, store, contents, positions, partitions)
        parts = contents.parted(numbers, partitions)
        return {number: encode_contents(self._node, store, part) for number, part in parts.items()}

    def restore(self, name: str, blob: Blob) -> None:
        if len(blob) and not has_parts(blob):
            self._node.replace(name, decode_contents(self._node, name, blob))
            return
        self._node.stores[name].clear()
        if len(blob):
            self._node.add(name, decode_contents(self._node, name, blob))

    def result_of(self, other: ResultCode | None = None) -> GeneratedResult:
        digest, program = (OWN, self._program) if other is None else (other.key.digest, other.program)
        if digest not in self._results:
            sent = {*self._code.views, *self._code.local} - self._views.keys()
            self._results[digest] = GeneratedResult(self._node, program, other is None, sent)
        return self._results[digest]

    def keep_results(self, digests: Collection[str]) -> None:
        self._results = {key: each for key, each in self._results.items() if key in digests}
        self._node.unwatch()
        for each in self._results.values():
            each.watch_again()

    @contextmanager
    def along_with(self, contents: Mapping[str, Blob]) -> Iterator[None]:
        """The module has stores for all views; those of others are empty, and memory of this process."""
        try:
            for name, blob in contents.items():
                self.restore(name, blob)
            yield
        finally:
            for name in contents:
                self._node.stores[name].clear()

    @contextmanager
    def compared_with(self, now: Mapping[str, Blob], before: Mapping[str, Blob], has_run: bool) -> Iterator[None]:
        decoded = {name: self._decoded(name, blob) for name, blob in before.items()}
        with self.along_with(now), self._node.compared_with(decoded, has_run):
            yield

    def _decoded(self, name: str, blob: Blob) -> Contents:
        if len(blob):
            return decode_contents(self._node, name, blob)
        return self._node.contents_of(name, self._node.stores[name].pool[:0])

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        """Reads only the keys that the batch has touched."""
        for keys in self._node.touched(name):
            counts = self._node.counts(name, keys)
            wrong = counts < 0 if at_most is None else (counts < 0) | (counts > at_most)
            if wrong.any():
                first = int(np.flatnonzero(wrong)[0])
                types = self._node.key_types(name)
                found: list[Any] = [
                    self._node.decode(column[first : first + 1], type)[0]
                    for column, type in zip(keys, types, strict=True)
                ]
                return tuple(found), int(counts[first])
        return None

    def sizes(self) -> Mapping[str, int]:
        return {name: len(self._node.stores[name]) for name in self._views}

    def bytes(self) -> int:
        return sum(self._node.stores[name].nbytes() for name in self._views)

    def _store(self, name: str) -> str:
        if name in self._views:
            return name
        if name not in self._code.plans[self._plan].temporaries:
            raise InternalError(f"{name} is neither a view nor a temporary of the plan for {self._plan}")
        return self._node.module.temporaries[self._plan, name]
