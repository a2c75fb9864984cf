"""The protocol of engines for view trees, and its reference implementation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from viewlet.algebra.ring_query import FactorisedPayload
from viewlet.changes import ColumnChange
from viewlet.rings.ring import Lift, Ring, times
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.store import UndoLog
from viewlet.types import Row
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.product_update import expand, product_update
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_plan import Projection, RingPlan
from viewlet.viewtree.state_text import of_rows, to_rows

Counted = Mapping[Row, int]
Part = tuple[tuple[str, ...], Counted]
"""A factor of a product: variables, and rows with multiplicities."""
NOT_GENERATED = "no code is generated for it: it runs on the interpreter"


class TreeReader(Protocol):
    """The result of a view tree, wherever the tree is."""

    engine_name: str
    source: str
    """The generated code that runs it, or what runs it instead."""

    def entries(self) -> Mapping[Row, Any]:
        """The payloads of the result, by the keys of the root."""

    def sizes(self) -> dict[str, int]:
        """Keys per stored view."""

    def bytes(self) -> int:
        """The bytes of the stored views, if known."""


class RowReader(TreeReader, Protocol):
    """The rows of a factorised result, wherever its tree is."""

    @property
    def count(self) -> int: ...

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Rows over the listed variables, with multiplicities."""

    def aggregate(self, ring: Ring[Any], lifts: Mapping[str, Lift[Any]]) -> Any: ...


class TreeState(TreeReader, Protocol):
    """The state of a tree in this process, changed by rows of its relations."""

    def load(self, relations: Mapping[str, Counted]) -> None:
        """Starts from the given relations; one on generated code has to be empty."""

    def watch(self) -> None:
        """From now on what adds a change knows which keys of the result it may change."""

    def entries_at(self, keys: Iterable[Row]) -> Mapping[Row, Any]:
        """The payloads of the result at some keys of the root, and perhaps at others."""

    def add(self, relation: str, change: Counted) -> Iterable[Row] | None:
        """Adds a change; returns the keys of the result that it may have changed, None if they are not known."""

    def add_products(self, relation: str, products: Sequence[Sequence[Part]], tell: bool) -> Iterable[Row] | None:
        """Adds a union of products; with `tell`, returns the keys that may have changed, as `add` does."""

    def commit(self) -> None:
        """Makes the changes since the last commit permanent."""

    def rollback(self) -> bool:
        """Rolls back the changes since the last commit, if it can; may be called again if it was interrupted."""

    def save(self, writer: StateWriter) -> dict[str, object]:
        """Writes the stored views; returns which parts there are and what they hold."""

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        """Continues from what `save` wrote, if the stored views are the same."""


class RowTreeState(TreeState, RowReader, Protocol):
    """The state of a factorised result in this process."""


@runtime_checkable
class TakesColumns(Protocol):
    """A tree that takes rows as columns of words."""

    def add_columns(self, projection: Projection, change: ColumnChange) -> Iterable[Row] | None:
        """Adds rows of a table; returns the keys that may have changed, as `add` does."""


class ReferenceTree:
    """A tree on dictionaries; a batch is undone by the log that the tree was made with."""

    engine_name = "interpreter"
    source = NOT_GENERATED

    def __init__(self, maintained: MaintainedTree[Any], logged: bool = False) -> None:
        self.maintained = maintained
        self._logged = logged

    def load(self, relations: Mapping[str, Counted]) -> None:
        ring = self.maintained.ring
        self.maintained.load(
            {name: {row: times(ring, n) for row, n in rows.items()} for name, rows in relations.items()}
        )

    def add(self, relation: str, change: Counted) -> Iterable[Row] | None:
        return self.maintained.apply({relation: change.items()})

    def add_products(self, relation: str, products: Sequence[Sequence[Part]], tell: bool) -> Iterable[Row] | None:
        ring = self.maintained.ring
        updates = [
            product_update(*((schema, {row: times(ring, n) for row, n in rows.items()}) for schema, rows in parts))
            for parts in products
        ]
        changed = self.maintained.update_products(relation, updates)
        return expand(changed, self.maintained.tree.root.keys, ring) if tell else None

    def commit(self) -> None:
        """Whoever has the log commits it."""
        self.maintained.forget_origins()

    def rollback(self) -> bool:
        """Whoever has the log, if there is one, has rolled it back."""
        return self._logged

    def watch(self) -> None:
        """It always knows."""

    def entries(self) -> Mapping[Row, Any]:
        return self.maintained.result.entries

    def entries_at(self, keys: Iterable[Row]) -> Mapping[Row, Any]:
        return self.entries()

    def payloads(self) -> dict[str, Mapping[Row, Any]]:
        """The payloads of every stored view: all there is to know between two batches."""
        return {name: store.entries for name, store in self.maintained.stores.items()}

    def restore(self, state: Mapping[str, Mapping[Row, Any]]) -> None:
        """Continues from earlier `payloads`."""
        self.maintained.restore(state)

    def save(self, writer: StateWriter) -> dict[str, object]:
        arities = {name: len(self.maintained.tree.nodes[name].keys) for name in self.maintained.stores}
        for name, entries in self.payloads().items():
            writer.rows(name, to_rows(entries), arities[name], 1)
        return dict(arities)

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.restore({name: of_rows(reader.rows(name, arity)) for name, arity in layout.items()})
        return True

    def sizes(self) -> dict[str, int]:
        return {name: len(store) for name, store in self.maintained.stores.items()}

    def bytes(self) -> int:
        return 0


class ReferenceRows(ReferenceTree):
    """A factorised result on dictionaries."""

    def __init__(self, factorised: FactorisedResult, logged: bool = False) -> None:
        super().__init__(factorised.maintained, logged)
        self._factorised = factorised

    def sizes(self) -> dict[str, int]:
        """Values per stored view: a key of one has many."""
        stores = self.maintained.stores.items()
        return {name: sum(payload.size for payload in store.entries.values()) for name, store in stores}

    @property
    def count(self) -> int:
        return self._factorised.count

    def rows(self) -> Iterator[tuple[Row, int]]:
        return self._factorised.rows()

    def aggregate(self, ring: Ring[Any], lifts: Mapping[str, Lift[Any]]) -> Any:
        return self._factorised.aggregate(ring, lifts)


def reference_tree(plan: RingPlan, log: UndoLog | None = None) -> ReferenceTree:
    """The tree of a plan on dictionaries, still empty."""
    payload = plan.query.payload
    if isinstance(payload, FactorisedPayload):
        result = FactorisedResult(plan.tree, payload.variables, plan.updatable, log=log)
        return ReferenceRows(result, logged=log is not None)
    tree = MaintainedTree(plan.tree, plan.ring, updatable=plan.updatable, log=log)
    return ReferenceTree(tree, logged=log is not None)
