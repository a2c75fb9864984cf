"""A kernel of generated code: views in flat arrays, statements as compiled functions. See `kernel` for what it must do.

The code of a plan is written when the plan is first needed. It is one module with that of all plans before it, because
a view has the indexes that any of them asks for; the rows are moved to the new stores then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.algebra.evaluate import State, evaluate
from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.changes import Changes
from viewlet.codegen.blocks import BlockModule, BlockPlan, temporary, write_blocks
from viewlet.codegen.node import CompiledNode
from viewlet.errors import InternalError
from viewlet.rings import Dyadic
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.spark.run.code import DriverBlock, PlanCode, WorkerBlock
from viewlet.spark.run.words import decode_contents, encode_contents, partitions_of
from viewlet.triggers.program import Program, Statement, ViewDefinition
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table

Blob = bytes | memoryview


def block_plan(code: PlanCode) -> BlockPlan:
    """The statements of a plan, wherever they run, in the order they run in."""
    statements: list[Statement] = []
    moves: list[tuple[str, str]] = []
    for block in (*code.mappers.values(), *code.blocks):
        if isinstance(block, WorkerBlock):
            statements += block.statements
            moves += [(departure.target, departure.source) for departure in block.departures]
        elif isinstance(block, DriverBlock):
            for step in block.steps:
                if isinstance(step, Statement):
                    statements.append(step)
                elif hasattr(step, "source"):
                    moves.append((step.target, step.source))
    return BlockPlan(code.key, tuple(statements), code.temporaries, tuple(moves))


class GeneratedNode:
    """Views in flat arrays, statements by generated code; `everywhere` are the views of all places, not only of this.

    What a number is (a count of rows, a sum, a double) is found by looking at all statements of a plan, wherever they
    run, so that what one place sends another understands.
    """

    def __init__(
        self,
        views: Mapping[str, ViewDefinition],
        everywhere: Mapping[str, ViewDefinition],
        tables: Mapping[str, Table],
        make_store: Callable[[Layout], FlatStore] = FlatStore,
    ) -> None:
        self._views = dict(views)
        self._everywhere = dict(everywhere)
        self._tables = dict(tables)
        self._make_store = make_store
        self._plans: dict[str, BlockPlan] = {}
        self._positions: dict[tuple[str, Statement], int] = {}
        self._plan = ""
        self._node = self._made()
        self._watched: dict[str, tuple[Program, Changes]] = {}
        self._untold = False  # something was done to the views that no `result_change` has told

    def _made(self, dictionary: StringDictionary | None = None) -> CompiledNode:
        return CompiledNode(self._module(), dictionary, self._make_store)

    def _module(self) -> BlockModule:
        return write_blocks("a partition", list(self._everywhere.values()), list(self._plans.values()))

    def prepare(self, code: PlanCode) -> None:
        """Makes sure that there is code for a plan."""
        if code.key in self._plans:
            return
        plan = self._plans[code.key] = block_plan(code)
        self._positions |= {(code.key, statement): i for i, statement in enumerate(plan.statements)}
        before, self._node = self._node, self._made(self._node.dictionary)
        for name in self._views:
            self._node.add(name, before.contents(name))

    def begin(self, code: PlanCode) -> None:
        self.prepare(code)
        if self._plan:
            self._node.end_batch(self._plan, self._plans[self._plan].temporaries, self._tables)
        self._plan = code.key
        if self._untold:
            self._watched = {name: (program, self.result(program)) for name, (program, _) in self._watched.items()}
            self._untold = False

    def rollback(self) -> None:
        self._node.take_back()
        self._untold = True

    def change(self, table: str, changes: Changes) -> None:
        types = [column.type for column in self._tables[table].columns]
        rows = list(changes)
        multiplicity = np.fromiter(changes.values(), np.int64, len(rows))
        node = self._node
        node.add_change(table, lambda i: node.encode(types[i], [row[i] for row in rows]), multiplicity)

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        store = self._store(name)
        for blob in blobs:
            if len(blob):
                self._node.add(store, decode_contents(self._node, store, blob))

    def run(self, statements: Iterable[Statement]) -> None:
        self._untold = True
        self._node.run(self._plan, [self._positions[self._plan, statement] for statement in statements])

    def contents(self, name: str) -> bytes:
        store = self._store(name)
        return encode_contents(self._node, store, self._node.contents(store))

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        store = self._store(name)
        contents = self._node.contents(store)
        if not len(contents):
            return {}
        numbers = partitions_of(self._node, store, contents, positions, partitions)
        return {
            int(number): encode_contents(self._node, store, contents.where(numbers == number))
            for number in np.unique(numbers)
        }

    def restore(self, name: str, blob: Blob) -> None:
        self._untold = True
        self._node.stores[name].clear()
        if len(blob):
            self._node.add(name, decode_contents(self._node, name, blob))

    def result(self, program: Program) -> Changes:
        wanted = {node.name for node in walk(program.result) if isinstance(node, View)}
        state = State({}, {}, {name: self._as_map(name) for name in wanted})
        found = evaluate(program.result, program.query.output, state)
        return {row: int(number) for row, number in found.items()}  # type: ignore[arg-type]

    def _as_map(self, name: str) -> MapStore:
        view = self._views[name]
        copy = MapStore([field.name for field in view.fields], view.presence)
        contents, types = self._node.contents(name), self._node.key_types(name)
        keys = [self._node.decode(words, type) for words, type in zip(contents.keys, types, strict=True)]
        rows = list(zip(*keys, strict=True)) if keys else [()] * len(contents)
        for key, (_, numbers) in zip(rows, self._node.stores[name].items(), strict=True):
            copy.add(key, tuple(Dyadic.of(n) if isinstance(n, float) else n for n in numbers))
        return copy

    def watch(self, program: Program) -> None:
        if program.name not in self._watched:
            self._watched[program.name] = program, self.result(program)

    def result_change(self, name: str) -> Changes:
        program, before = self._watched[name]
        after = self.result(program)
        self._watched[name] = program, after
        self._untold = len(self._watched) > 1
        return {row: n for row in before.keys() | after.keys() if (n := after.get(row, 0) - before.get(row, 0))}

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        contents, types = self._node.contents(name), self._node.key_types(name)
        (counts,) = contents.numbers[0]
        wrong = counts < 0 if at_most is None else (counts < 0) | (counts > at_most)
        if not wrong.any():
            return None
        first = contents.where(np.flatnonzero(wrong)[:1])
        keys: list[Any] = [self._node.decode(words, type) for words, type in zip(first.keys, types, strict=True)]
        return tuple(key[0] for key in keys), int(first.numbers[0][0][0])

    def size(self) -> int:
        return sum(len(self._node.stores[name]) for name in self._views)

    def _store(self, name: str) -> str:
        if name in self._views:
            return name
        if name not in self._plans[self._plan].temporaries:
            raise InternalError(f"{name} is neither a view nor a temporary of the plan for {self._plan}")
        return temporary(self._plan, name)
