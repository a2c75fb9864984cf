"""A view tree over a ring in one place, as a kernel (see `node.Node`).

At the driver, and where changes of tables are, it turns rows of tables into rows of the relations of the join and
splits them; this needs no state. At the workers it keeps a whole tree over the rows of its partition. The tree is
created on first use, so a node that only splits has none.

`FlatTreeNode` runs generated code (see `flat_tree_node`); this one serves rings without a compiled form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from viewlet.changes import Change, rows_to_arrow
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.one_stage import Blob, OneStageNode, change_name
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.triggers.program import Statement
from viewlet.types import Column
from viewlet.viewtree.ring_plan import RingPlan
from viewlet.viewtree.state_text import of_rows, to_rows
from viewlet.viewtree.tree_state import ReferenceTree, TreeState, reference_tree

ROWS_AT_ONCE = 1 << 16
"""Rows of a factorised result that are put together at a time."""


class TreeNode(OneStageNode):
    """A view tree on dictionaries as a kernel; `views` has the names of its stored views outside the tree."""

    def __init__(self, plan: RingPlan, views: Mapping[str, str], never_negative: bool = False) -> None:
        schemas = plan.query.schemas
        super().__init__({change_name(name): len(schema) for name, schema in schemas.items()})
        self._plan = plan
        self._views = views
        self._never_negative = never_negative
        """No row is there less than zero times."""
        self._relations = {change_name(name): name for name in schemas}
        self._tree_state: TreeState | None = None
        self._restored: dict[str, Blob] = {}

    @property
    def tree_state(self) -> TreeState:
        """The tree."""
        if self._tree_state is None:
            self._tree_state = self._made()
        if self._restored:
            contents = {store: self._restored.get(name, b"") for name, store in self._views.items()}
            tables = {store: bytes_table(blob) if len(blob) else None for store, blob in contents.items()}
            self._restore_tables(tables)
            self._restored = {}
        return self._tree_state

    def _made(self) -> TreeState:
        """An empty tree."""
        return reference_tree(self._plan)

    @property
    def row_state(self) -> Any:
        """The tree of a factorised result, which is a `RowTreeState`."""
        return self.tree_state

    # -- a batch ----------------------------------------------------------------------------------------------------

    def begin(self, code: PlanCode) -> None:
        self._changes, self._received = {}, {}
        if self._tree_state is not None:
            self._tree_state.commit()

    def rollback(self) -> bool:
        """Rolls the batch back; False if the tree has to be rebuilt instead."""
        return self._tree_state is None or self._tree_state.rollback()

    def change(self, table: str, change: Change) -> None:
        for projection in self._plan.projections[table]:
            self._changes[change_name(projection.relation.name)] = projection.counted(change.rows().items())

    def run(self, statements: Iterable[Statement]) -> None:
        """Adds what was put to the tree, one relation after the other."""
        for name in self._received:
            self.tree_state.add(self._relations[name], self._sent(name))

    # -- contents ---------------------------------------------------------------------------------------------------

    def contents(self, name: str) -> bytes:
        if name in self._relations:
            return self._encoded(name, self._changes.get(name, {}).items())
        if self._tree_state is None and not self._restored:
            return b""
        self.tree_state  # noqa: B018 - what was restored is in it from here on
        table = self._table(self._views[name])
        return table_bytes(table) if table is not None and table.num_rows else b""

    def restore(self, name: str, blob: Blob) -> None:
        """All views are restored together, when the tree is used the next time."""
        self._restored[name] = blob

    def _table(self, store: str) -> Any:
        """A stored view as an Arrow table; None if it is empty."""
        entries = self._reference.payloads()[store]
        return to_arrow(to_rows(entries), len(self._plan.tree.nodes[store].keys), 1) if entries else None

    def _restore_tables(self, tables: Mapping[str, Any]) -> None:
        """Gives an empty tree what `_table` has told of all its stored views."""
        nodes = self._plan.tree.nodes
        self._reference.restore(
            {
                store: {} if table is None else of_rows(from_arrow(table, len(nodes[store].keys)))
                for store, table in tables.items()
            }
        )

    @property
    def _reference(self) -> ReferenceTree:
        tree = self._tree_state
        assert isinstance(tree, ReferenceTree)
        return tree

    # -- rows of a factorised result: a `ListingNode` ---------------------------------------------------------------

    def result_tables(self, columns: Sequence[Column], places: Sequence[int]) -> Iterator[Any]:
        """In the process that has the state nothing changes before they are read."""
        chosen = [columns[place] for place in places]
        shown = [self._plan.query.shown[place] for place in places]
        listed = self.row_state.rows()
        while True:
            rows = list(islice(listed, ROWS_AT_ONCE))
            weighted = [(tuple(row[i] for i in shown), weight) for row, weight in rows]
            yield rows_to_arrow(chosen, weighted, with_multiplicity=True)
            if len(rows) < ROWS_AT_ONCE:
                return

    def result_count(self) -> int | None:
        """Without listing them."""
        found: int = self.row_state.count
        return found if self._never_negative else None

    def sizes(self) -> Mapping[str, int]:
        return self.tree_state.sizes()

    def bytes(self) -> int:
        return self.tree_state.bytes()
