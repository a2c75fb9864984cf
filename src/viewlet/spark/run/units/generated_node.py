"""A kernel of generated code: views in flat arrays, statements as compiled functions. See `node` for what it must do.

The arrays may be files that several processes use, one at a time (`attach_again`). A batch that one process has begun
can be finished by another, or rolled back (see `node.SharedNode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.changes import Change, Changes, ColumnChange
from viewlet.codegen.blocks import BlockPlan
from viewlet.codegen.node import CompiledNode, Contents, Undo
from viewlet.errors import InternalError
from viewlet.runtime.arrow_columns import arrow_column
from viewlet.runtime.columns import to_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.spark.run.exchange.wire_columns import decode_contents, encode_contents, numbers_of, partitions_of
from viewlet.spark.run.units import batch_file
from viewlet.spark.run.units.node import REPLACED, tells_effects
from viewlet.spark.run.units.plan_code import Departure, DriverBlock, PlanCode, WorkerBlock
from viewlet.spark.run.units.unit import ProgramCode
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.result import evaluate_result
from viewlet.triggers.result_view import counting_field, result_store
from viewlet.triggers.store import MapStore
from viewlet.types import Row, Table

Blob = bytes | memoryview
Done = tuple[Undo, Changes]


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
        self._is_watched = False
        self._shown: str | None = None
        """The view whose rows make the watched result, each on its own, if there is one."""
        self._before: Changes = {}

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
        self._before = {}
        if self._is_watched and self._shown is None:
            self._before = self._whole_result()

    def go_on(self, code: PlanCode) -> None:
        self._plan = code.key

    def rollback(self) -> bool:
        self._node.take_back()
        return True

    @property
    def done(self) -> Done:
        """What the batch has done to each view, and the rows of the result before it."""
        return self._node.undo, self._before

    def progress(self, before: str | None) -> bytes:
        return batch_file.to_bytes(before, *(self.done if before is not None else ([], {})))

    def attach_again(self) -> None:
        """Another process has changed the arrays."""
        for store in self._node.stores.values():
            if store.is_shared:
                store.attach_again()

    def take_over(self, progress: bytes) -> str | None:
        before, undo, self._before = batch_file.from_bytes(progress)
        self._node.undo[:] = undo
        return before

    def change(self, table: str, change: Change) -> None:
        node = self._node
        given = change.columns(self._code.tables[table], self._columns[table], node.dictionary)
        node.add_change(table, lambda i: _bits(given.words[i]), given.multiplicity)

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
        if len(blob):
            self._node.replace(name, decode_contents(self._node, name, blob))
        else:
            self._node.stores[name].clear()

    def result(self) -> Changes:
        rows = self._node.read(self._program.query)
        return self._whole_result() if rows is None else rows

    def result_arrow(self, places: Sequence[int] | None = None) -> tuple[list[Any], Any] | None:
        """Columns of the rows, or all, as Arrow, with their multiplicities; None where they are computed one by one."""
        query = self._program.query
        found = self._node.read_columns(query)
        if found is None:
            return None
        return self._arrow(*found, places)

    def result_count(self) -> int | None:
        """How many rows there are, without making Arrow of them; None where they are computed one by one."""
        counted = counting_field(self._program)
        if counted is not None and self._program.query.limit is None:
            return self._node.stores[counted.name].rows_with(counted.field)
        found = self._node.read_columns(self._program.query)
        if found is None or (found[1] < 0).any():
            return None
        return int(found[1].sum())

    def change_arrow(self) -> tuple[list[Any], Any] | None:
        """What the batch has done to the rows, like `result_arrow`."""
        if not self._is_watched:
            raise InternalError("nobody watches the result")
        if self._shown is None:
            return None
        found = self._node.read_change(self._program.query, self._shown, self._key_columns(self._shown))
        if found is None:
            return None
        listed, is_net = found
        return self._arrow(*(listed if is_net else _net(*listed)))

    def _key_columns(self, shown: str) -> list[int]:
        """Where the result has the keys of the view that it is made of; none unless it has all of them."""
        program = self._program
        atoms = (node for node in walk(program.result) if isinstance(node, View) and node.name == shown)
        keys, output = next(atoms).args, program.query.output
        return [output.index(key) for key in keys] if set(keys) <= set(output) else []

    def _arrow(
        self, columns: Sequence[Any], weights: Any, places: Sequence[int] | None = None
    ) -> tuple[list[Any], Any]:
        types, dictionary = [var.type for var in self._program.query.output], self._node.dictionary
        wanted = range(len(types)) if places is None else places
        return [arrow_column(types[place], columns[place], dictionary) for place in wanted], weights

    def _whole_result(self) -> Changes:
        """All rows, whatever the LIMIT."""
        program = self._program
        wanted = {node.name for node in walk(program.result) if isinstance(node, View)}
        return evaluate_result(program, {name: self._as_map(name, self._node.contents(name)) for name in wanted})

    def _as_map(self, name: str, contents: Contents) -> MapStore:
        """Rows of a view, each key once, as the evaluator reads them."""
        view = self._views[name]
        types = self._node.key_types(name)
        keys = [self._node.decode(words, type) for words, type in zip(contents.keys, types, strict=True)]
        rows = list(zip(*keys, strict=True)) if keys else [()] * len(contents)
        kinds = self._node.stores[name].layout.kinds
        numbers = [numbers_of(kind, words) for kind, words in zip(kinds, contents.numbers, strict=True)]
        found = MapStore([field.name for field in view.fields], view.presence)
        found.assign(dict(zip(rows, zip(*numbers, strict=True), strict=True)))
        return found

    def watch(self) -> None:
        if not self._is_watched:
            self._is_watched, self._shown = True, self._row_by_row(self._program)

    def _row_by_row(self, program: Program) -> str | None:
        """The view whose touched rows tell how a result has changed."""
        shown = result_store(program)
        if shown is None:
            return None
        layout = self._node.stores[shown].layout
        # What a sum of doubles was cannot be told from what it is and what was added.
        return shown if layout.arity and "double" not in layout.kinds else None

    def result_change(self) -> Changes:
        if not self._is_watched:
            raise InternalError("nobody watches the result")
        before, after = self._before, {}
        if self._shown is None:
            after = self._whole_result()
        else:
            was, is_now = (self._as_map(self._shown, rows) for rows in self._node.changed(self._shown))
            before = evaluate_result(self._program, {self._shown: was})
            after = evaluate_result(self._program, {self._shown: is_now})
        return {row: n for row in before.keys() | after.keys() if (n := after.get(row, 0) - before.get(row, 0))}

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


def _net(columns: Sequence[Any], weights: Any) -> tuple[list[Any], Any]:
    """Columns of words with the multiplicities of equal rows added up, without rows that are there zero times."""
    import pyarrow as pa

    names = [str(i) for i in range(len(columns))]
    words = [_bits(column + 0.0 if column.dtype == np.float64 else column) for column in columns]  # -0.0 equals 0.0
    table = pa.table([*words, weights], names=[*names, "weight"])
    total = table.group_by(names).aggregate([("weight", "sum")])
    total = total.filter(pa.compute.not_equal(total.column("weight_sum"), 0))
    found = [total.column(name).to_numpy() for name in names]
    is_double = [column.dtype == np.float64 for column in columns]
    typed = [column.view(np.float64) if double else column for column, double in zip(found, is_double, strict=True)]
    return typed, total.column("weight_sum").to_numpy()


def _bits(column: Any) -> Any:
    """Keys are words; doubles among them are their bits."""
    return column.view(np.int64) if column.dtype == np.float64 else column
