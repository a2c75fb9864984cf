"""A view tree on generated code in one place, as a kernel: its views are flat arrays, its changes are columns.

    columns of tables ──► columns of relations, split by partition ──► Arrow ──► columns of words ──► tree

Nothing is done row by row in Python. Code is generated for the conditions and computed variables of a relation, if
there are enough rows to pay for compiling it; otherwise its rows are made one by one, and travel as columns, too.

The arrays may be files that several processes use (see `node.SharedNode`). The log with which a batch is rolled back is
one of them, so that no more than its length has to be written at the end of a stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.algebra.ring_query import JoinedRelation
from viewlet.changes import Change, ColumnChange
from viewlet.changes.word_codec import Codes
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.columns import Column
from viewlet.codegen.rings.compiled_tree import Progress
from viewlet.codegen.rings.computed_relations import ComputedRelation
from viewlet.codegen.rings.generated_tree import GeneratedRows, GeneratedTree, generated_tree, relation_words
from viewlet.codegen.rings.portable import restore_tables, to_table
from viewlet.runtime.arithmetic import NULL
from viewlet.runtime.arrow_columns import arrow_column, held_column, held_words
from viewlet.runtime.columns import to_columns
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.durable.rows import from_arrow, is_text
from viewlet.runtime.memory import Memories, on_heap
from viewlet.spark.run.exchange.wire import bytes_table, split_table, table_bytes, weighted_table
from viewlet.spark.run.units.one_stage import Blob, change_name
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.spark.run.units.tree_node import ROWS_AT_ONCE, TreeNode
from viewlet.triggers.program import Statement
from viewlet.types import Column as TableColumn
from viewlet.types import Table
from viewlet.viewtree.ring_plan import Projection, RingPlan

MULTIPLICITIES = "value0"
COMPUTED_FROM = 10_000
"""Rows of a change from which generated code computes relations with conditions or scalars."""


class FlatTreeNode(TreeNode):
    """A view tree on generated code as a kernel; its arrays live in `memory`, and are used as they are there."""

    def __init__(
        self,
        plan: RingPlan,
        views: Mapping[str, str],
        never_negative: bool = False,
        dictionary: StringDictionary | None = None,
        memory: Memories = on_heap,
    ) -> None:
        super().__init__(plan, views, never_negative)
        self._dictionary = StringDictionary() if dictionary is None else dictionary
        self._memory = memory
        self._joined = {change_name(relation.name): relation for relation in plan.query.relations}
        self._given = StringDictionary()
        """The strings of changes that are split here."""
        self._computed: dict[str, ComputedRelation | None] = {}
        self._leaving: dict[str, Any] = {}
        self._arrived: dict[str, list[Any]] = {}

    @property
    def tree_state(self) -> GeneratedTree:
        tree = super().tree_state
        assert isinstance(tree, GeneratedTree)
        return tree

    def _made(self) -> GeneratedTree:
        return generated_tree(self._plan, self._dictionary, self._memory)

    # -- a batch ----------------------------------------------------------------------------------------------------

    def columns_read(self, table: str) -> frozenset[int]:
        return self._plan.columns_read(table)

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return to_columns(table, rows, self.columns_read(table.name), self._given, sign, encoded, partial=True)

    def begin(self, code: PlanCode) -> None:
        super().begin(code)
        self._leaving, self._arrived, self._given = {}, {}, StringDictionary()

    def change(self, table: str, change: Change) -> None:
        for projection in self._plan.projections[table]:
            name, held = change_name(projection.relation.name), change.held_columns(projection.read)
            words = None if held is None else self._words(projection, held)
            if held is None or words is None:
                self._changes[name] = projection.counted(change.rows().items())
            else:
                self._leaving[name] = _arrow(projection.relation, *words, held.dictionary)

    def _words(self, projection: Projection, change: ColumnChange) -> tuple[list[Column], Column] | None:
        """The rows of a relation in the change of its table; None if they are to be made one by one."""
        if projection.taken is not None:
            return relation_words(projection, change)
        if len(change) < COMPUTED_FROM or not isinstance(change.dictionary, StringDictionary):
            return None
        name = projection.relation.name
        if name not in self._computed:
            try:
                self._computed[name] = ComputedRelation(projection.relation)
            except NotCompilable:
                self._computed[name] = None
        computed = self._computed[name]
        return None if computed is None else computed.words(change, change.dictionary)

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        table = self._leaving.get(name)
        if table is None:
            return super().split(name, positions, partitions)
        return split_table(table, positions, partitions) if table.num_rows else {}

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        self._arrived.setdefault(name, []).extend(bytes_table(blob) for blob in blobs if len(blob))

    def run(self, statements: Iterable[Statement]) -> None:
        for name, tables in self._arrived.items():
            for table in _alike(tables):
                self._add(self._joined[name], table)

    def _add(self, relation: JoinedRelation, table: Any) -> None:
        """Adds rows of a relation to the tree."""
        tree = self.tree_state
        if any(map(is_text, table.schema)):
            tree.add(relation.name, {row: times for row, (times,) in from_arrow(table, len(relation.variables))})
            return
        pairs = zip(relation.variables, table.columns[:-1], strict=True)
        words = [(each, column, held_words(each.scalar.type, column, self._dictionary)) for each, column in pairs]
        for variable, column, found in words:
            if found.dtype == np.int64 and np.count_nonzero(found == NULL) != column.null_count:
                raise tree.refusal(variable.name)
        times = _writable(table.column(MULTIPLICITIES).to_numpy())
        tree.add_words(relation, [_writable(found) for _, _, found in words], times)

    # -- contents ---------------------------------------------------------------------------------------------------

    def contents(self, name: str) -> bytes:
        if name in self._leaving:
            table = self._leaving[name]
            return table_bytes(table) if table.num_rows else b""
        return super().contents(name)

    def _table(self, store: str) -> Any:
        return to_table(self.tree_state.compiled, store)

    def _restore_tables(self, tables: Mapping[str, Any]) -> None:
        assert isinstance(self._tree_state, GeneratedTree)
        restore_tables(self._tree_state.compiled, tables)

    # -- rows of a factorised result --------------------------------------------------------------------------------

    def result_tables(self, columns: Sequence[TableColumn], places: Sequence[int]) -> Iterator[Any]:
        """From a copy of the arrays: others may change them meanwhile."""
        tree = self.tree_state
        assert isinstance(tree, GeneratedRows)
        return self._tables(tree.detached(), [columns[place] for place in places], places)

    def _tables(self, tree: GeneratedRows, columns: Sequence[TableColumn], places: Sequence[int]) -> Iterator[Any]:
        shown = [place for place in self._plan.query.shown if place is not None]
        for words, multiplicities in tree.columns([shown[place] for place in places], ROWS_AT_ONCE):
            pairs = zip(columns, words, strict=True)
            arrays = [arrow_column(column.type, each, self._dictionary) for column, each in pairs]
            yield weighted_table(columns, arrays, multiplicities)

    # -- arrays that processes share --------------------------------------------------------------------------------

    def progress(self, before: str | None) -> bytes:
        return json.dumps({"before": before} | asdict(self.tree_state.compiled.progress)).encode()

    def attach(self) -> None:
        """Attaches to the arrays that there are."""
        self.tree_state  # noqa: B018 - the tree is made on first use

    def attach_again(self) -> None:
        self.tree_state.compiled.attach_again()

    def take_over(self, progress: bytes) -> str | None:
        told = json.loads(progress)
        before: str | None = told.pop("before")
        self.tree_state.compiled.take_over(Progress(**told))
        return before

    def bytes(self) -> int:
        """Without scratch space."""
        return sum(store.nbytes() for store in self.tree_state.compiled.held.values())


def _arrow(relation: JoinedRelation, columns: Sequence[Column], multiplicity: Column, dictionary: Codes) -> Any:
    """Rows of a relation, as `rows.to_arrow` writes them."""
    pairs = zip(relation.variables, columns, strict=True)
    arrays = [held_column(variable.scalar.type, words, dictionary) for variable, words in pairs]
    names = [f"key{i}" for i in range(len(arrays))]
    return pa.table([*arrays, pa.array(multiplicity)], names=[*names, MULTIPLICITIES])


def _alike(tables: Sequence[Any]) -> list[Any]:
    """Tables put together; those that hold values in different ways stay apart."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for table in tables:
        found.setdefault(tuple((field.type, is_text(field)) for field in table.schema), []).append(
            table.replace_schema_metadata(None)
        )
    return [pa.concat_tables(alike) if len(alike) > 1 else alike[0] for alike in found.values()]


def _writable(words: Any) -> Any:
    """Numba takes a read-only array for another type."""
    return np.require(words, requirements=["C", "W"])
