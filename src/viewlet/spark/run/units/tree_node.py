"""A view tree over a ring in one place, as a kernel (see `node.Node`).

At the driver, and where changes of tables are, it turns rows of tables into rows of the relations of the join and
splits them; this needs no state. At the workers it keeps a whole tree over the rows of its partition. The tree is
created on first use, so a node that only splits has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change, ColumnChange
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.triggers.program import Statement
from viewlet.types import Row, Table
from viewlet.viewtree.ring_plan import RingPlan
from viewlet.viewtree.state_text import of_rows, to_rows
from viewlet.viewtree.tree_state import ReferenceTree, TreeState, reference_tree

if TYPE_CHECKING:
    from viewlet.codegen.rings.generated_tree import GeneratedTree

Blob = bytes | memoryview
Counted = dict[Row, int]


def change_name(relation: str) -> str:
    """The name under which the change of a relation travels."""
    return f"Δ{relation}"


class TreeNode:
    """A view tree as a kernel; `views` has the names of its stored views outside the tree."""

    def __init__(self, plan: RingPlan, views: Mapping[str, str], generated: bool) -> None:
        self._plan = plan
        self._views = views
        self._is_generated = generated
        self._schemas = plan.query.schemas
        self._relations = {change_name(name): name for name in self._schemas}
        self._changes: dict[str, Counted] = {}
        self._received: dict[str, Counted] = {}
        self._tree_state: TreeState | None = None
        self._restored: dict[str, Blob] = {}

    @property
    def tree_state(self) -> TreeState:
        """The tree."""
        if self._tree_state is None:
            self._tree_state = _generated(self._plan) if self._is_generated else reference_tree(self._plan)
        if self._restored:
            contents = {store: self._restored.get(name, b"") for name, store in self._views.items()}
            restore_tree(self._plan, self._tree_state, contents)
            self._restored = {}
        return self._tree_state

    @property
    def row_state(self) -> Any:
        """The tree of a factorised result, which is a `RowTreeState`."""
        return self.tree_state

    # -- a batch ----------------------------------------------------------------------------------------------------

    def compile_all(self, plan: PlanCode) -> None:
        """Workers compile, once for each machine."""

    def columns_read(self, table: str) -> frozenset[int] | None:
        return None

    def to_columns(self, table: Table, rows: Any, sign: int, encoded: bool) -> ColumnChange | None:
        return None

    def begin(self, code: PlanCode) -> None:
        self._changes, self._received = {}, {}
        if self._tree_state is not None:
            self._tree_state.commit()

    def go_on(self, code: PlanCode) -> None:
        """A batch has one stage, which `begin` begins."""

    def rollback(self) -> bool:
        """Rolls the batch back, which only generated code can do; False if the tree has to be rebuilt instead."""
        return self._tree_state is None or self._tree_state.rollback()

    def change(self, table: str, change: Change) -> None:
        for projection in self._plan.projections[table]:
            self._changes[projection.relation.name] = projection.counted(change.rows().items())

    def record(self) -> dict[str, list[bytes]]:
        return {}

    def redo(self, plan: PlanCode, record: Mapping[str, Sequence[Blob]]) -> None:
        """The driver has nothing of a tree."""

    def put(self, name: str, blobs: Sequence[Blob]) -> None:
        relation = self._relations[name]
        total = self._received.setdefault(relation, {})
        for blob in blobs:
            for row, (times,) in from_arrow(bytes_table(blob), len(self._schemas[relation])):
                total[row] = total.get(row, 0) + times

    def run(self, statements: Iterable[Statement]) -> None:
        """Adds what was put to the tree, one relation after the other."""
        for relation, rows in self._received.items():
            self.tree_state.add(relation, {row: times for row, times in rows.items() if times})

    # -- contents ---------------------------------------------------------------------------------------------------

    def contents(self, name: str) -> bytes:
        if name in self._relations:
            return self._encoded(name, self._changes.get(self._relations[name], {}).items())
        if self._tree_state is None and not self._restored:
            return b""
        return tree_contents(self._plan, self.tree_state, self._views[name])

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        parts: dict[int, list[tuple[Row, int]]] = {}
        for row, times in self._changes.get(self._relations[name], {}).items():
            number = partition_of((row[i] for i in positions), partitions)
            parts.setdefault(number, []).append((row, times))
        return {number: self._encoded(name, rows) for number, rows in parts.items()}

    def _encoded(self, name: str, rows: Iterable[tuple[Row, int]]) -> bytes:
        found = [(row, (times,)) for row, times in rows]
        return table_bytes(to_arrow(found, len(self._schemas[self._relations[name]]), 1)) if found else b""

    def restore(self, name: str, blob: Blob) -> None:
        """All views are restored together, when the tree is used the next time."""
        self._restored[name] = blob

    def size(self) -> int:
        return sum(self.tree_state.sizes().values())

    def bytes(self) -> int:
        return self.tree_state.bytes()

    def misfit(self, name: str, at_most: int | None) -> tuple[Row, int] | None:
        return None


def _generated(plan: RingPlan) -> TreeState:
    from viewlet.codegen.rings.generated_tree import generated_tree
    from viewlet.runtime.dictionary import StringDictionary

    return generated_tree(plan, StringDictionary())


def tree_contents(plan: RingPlan, tree_state: TreeState, store: str) -> bytes:
    """A stored view as bytes; none if it is empty."""
    if isinstance(tree_state, ReferenceTree):
        entries = tree_state.payloads()[store]
        return table_bytes(to_arrow(to_rows(entries), len(plan.tree.nodes[store].keys), 1)) if entries else b""
    generated: GeneratedTree = tree_state  # type: ignore[assignment]
    from viewlet.codegen.rings.portable import to_table

    words = to_table(generated.compiled, store)
    return table_bytes(words) if words.num_rows else b""


def restore_tree(plan: RingPlan, tree_state: TreeState, contents: Mapping[str, Blob]) -> None:
    """Gives an empty tree what `tree_contents` has told of all its stored views."""
    tables: dict[str, Any] = {store: bytes_table(blob) if len(blob) else None for store, blob in contents.items()}
    if isinstance(tree_state, ReferenceTree):
        arities = {store: len(plan.tree.nodes[store].keys) for store in tables}
        tree_state.restore(
            {
                store: {} if table is None else of_rows(from_arrow(table, arities[store]))
                for store, table in tables.items()
            }
        )
        return
    generated: GeneratedTree = tree_state  # type: ignore[assignment]
    from viewlet.codegen.rings.portable import restore_tables

    restore_tables(generated.compiled, tables)
