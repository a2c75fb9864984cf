"""The protocol of engines for view trees, and its reference implementation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from viewlet.algebra.ring_query import FactorisedPayload
from viewlet.changes import ColumnChange
from viewlet.errors import InternalError
from viewlet.rings.ring import Lift, Ring, times
from viewlet.triggers.store import UndoLog
from viewlet.types import Row
from viewlet.viewtree.factored_update import expand, factored
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_plan import Projection, RingPlan

Counted = Mapping[Row, int]
Part = tuple[tuple[str, ...], Counted]
"""A factor of a product: variables, and rows with multiplicities."""
NOT_GENERATED = "no code is generated for it: it runs on the interpreter"


class Keeper(Protocol):
    """The state of a tree, changed by rows of its relations."""

    engine_name: str
    source: str
    takes_columns: bool

    def load(self, relations: Mapping[str, Counted]) -> None:
        """Starts from the given relations; a keeper of generated code has to be empty."""

    def add(self, relation: str, change: Counted) -> Iterable[Row] | None:
        """Adds a change; returns the keys of the result that it may have changed, None if they are not known."""

    def add_products(self, relation: str, products: Sequence[Sequence[Part]], tell: bool) -> Iterable[Row] | None:
        """Adds a union of products; with `tell`, returns the keys that may have changed, as `add` does."""

    def add_columns(self, projection: Projection, change: ColumnChange) -> None:
        """Adds rows of a table, given as columns of words, if it `takes_columns`."""

    def commit(self) -> None:
        """Makes the changes since the last commit permanent."""

    def rollback(self) -> bool:
        """Rolls back the changes since the last commit, if it can; may be called again if it was interrupted."""

    def entries(self) -> Mapping[Row, Any]:
        """The payloads of the result, by the keys of the root."""

    def sizes(self) -> dict[str, int]:
        """Keys per stored view."""

    def bytes(self) -> int:
        """The bytes of the stored views, if known."""


@runtime_checkable
class TakesOver(Protocol):
    """An engine that can continue from the state of the reference engine."""

    def take_over(self, nodes: Mapping[str, Mapping[Row, Any]]) -> None:
        """`nodes` has the payloads of every stored view."""


class KeepsRows(Keeper, Protocol):
    """The keeper of a factorised result."""

    @property
    def count(self) -> int: ...

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Rows over the listed variables, with multiplicities."""

    def aggregate(self, ring: Ring[Any], lifts: Mapping[str, Lift[Any]]) -> Any: ...


class ReferenceTree:
    """A tree on dictionaries; a batch is undone by the log that the tree was made with."""

    engine_name = "interpreter"
    source = NOT_GENERATED
    takes_columns = False

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
            factored(*((schema, {row: times(ring, n) for row, n in rows.items()}) for schema, rows in parts))
            for parts in products
        ]
        changed = self.maintained.update_factored(relation, updates)
        return expand(changed, self.maintained.tree.root.keys, ring) if tell else None

    def add_columns(self, projection: Projection, change: ColumnChange) -> None:
        raise InternalError("the interpreter takes rows, not columns")

    def commit(self) -> None:
        """Whoever has the log commits it."""

    def rollback(self) -> bool:
        """Whoever has the log, if there is one, has rolled it back."""
        return self._logged

    def entries(self) -> Mapping[Row, Any]:
        return self.maintained.result.entries

    def state(self) -> dict[str, Mapping[Row, Any]]:
        """The payloads of every stored view: all there is to know between two batches."""
        return {name: store.entries for name, store in self.maintained.stores.items()}

    def restore(self, state: Mapping[str, Mapping[Row, Any]]) -> None:
        """Continues from an earlier `state`."""
        self.maintained.restore(state)

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
    """The keeper of a plan on dictionaries, still empty."""
    payload = plan.query.payload
    if isinstance(payload, FactorisedPayload):
        result = FactorisedResult(plan.tree, payload.variables, plan.updatable, log=log)
        return ReferenceRows(result, logged=log is not None)
    tree = MaintainedTree(plan.tree, plan.ring, updatable=plan.updatable, log=log)
    return ReferenceTree(tree, logged=log is not None)
