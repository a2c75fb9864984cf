"""A view tree over a ring in one place, as a kernel (see `node.Node`).

At the driver, and where changes of tables are, it turns rows of tables into rows of the relations of the join and
splits them; this needs no state. At the workers it keeps a whole tree over the rows of its partition. The tree is
created on first use, so a node that only splits has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.changes import Change
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.one_stage import Blob, OneStageNode, change_name
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.triggers.program import Statement
from viewlet.viewtree.ring_plan import RingPlan
from viewlet.viewtree.state_text import of_rows, to_rows
from viewlet.viewtree.tree_state import ReferenceTree, TreeState, reference_tree

if TYPE_CHECKING:
    from viewlet.codegen.rings.generated_tree import GeneratedTree


class TreeNode(OneStageNode):
    """A view tree as a kernel; `views` has the names of its stored views outside the tree."""

    def __init__(self, plan: RingPlan, views: Mapping[str, str], generated: bool) -> None:
        schemas = plan.query.schemas
        super().__init__({change_name(name): len(schema) for name, schema in schemas.items()})
        self._plan = plan
        self._views = views
        self._is_generated = generated
        self._relations = {change_name(name): name for name in schemas}
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

    def begin(self, code: PlanCode) -> None:
        self._changes, self._received = {}, {}
        if self._tree_state is not None:
            self._tree_state.commit()

    def rollback(self) -> bool:
        """Rolls the batch back, which only generated code can do; False if the tree has to be rebuilt instead."""
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
        return tree_contents(self._plan, self.tree_state, self._views[name])

    def restore(self, name: str, blob: Blob) -> None:
        """All views are restored together, when the tree is used the next time."""
        self._restored[name] = blob

    def sizes(self) -> Mapping[str, int]:
        return self.tree_state.sizes()

    def bytes(self) -> int:
        return self.tree_state.bytes()


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
