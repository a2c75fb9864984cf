"""Reading view trees that are spread over partitions.

Payloads are added at the driver. The rows of a factorised result are enumerated there too, one partition after the
other. Only the factors are transferred, which may represent far more rows than could be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from viewlet.rings.ring import Lift, Ring
from viewlet.spark.run.execution.tree_task import Question, tree_of
from viewlet.spark.run.units.tree_node import TreeNode
from viewlet.types import Row
from viewlet.viewtree.ring_relation import summing, without_zeros
from viewlet.viewtree.tree_state import RowReader

if TYPE_CHECKING:
    from viewlet.spark.run.engine import Engine


def _entries(node: TreeNode) -> Mapping[Row, Any]:
    return dict(node.tree_state.entries())


def _sizes(node: TreeNode) -> dict[str, int]:
    return node.tree_state.sizes()


def _bytes(node: TreeNode) -> int:
    return node.tree_state.bytes()


def _rows(node: TreeNode) -> RowReader:
    rows: RowReader = node.row_state
    return rows


def _count(node: TreeNode) -> int:
    return _rows(node).count


@dataclass(frozen=True, slots=True)
class _Contents:
    names: tuple[str, ...]

    def __call__(self, node: TreeNode) -> dict[str, bytes]:
        return {name: node.contents(name) for name in self.names}


@dataclass(frozen=True, slots=True)
class _Aggregate:
    ring: Ring[Any]
    lifts: Mapping[str, Lift[Any]]

    def __call__(self, node: TreeNode) -> Any:
        return _rows(node).aggregate(self.ring, self.lifts)


class SpreadTree:
    """A distributed tree, read like a local one (see `viewtree.tree_state.RowReader`)."""

    engine_name = "spark"

    def __init__(self, engine: Engine, unit: str, ring: Ring[Any] | None, source: str) -> None:
        self._engine, self._unit, self._ring = engine, unit, ring
        self.source = source
        self._known: tuple[str, Mapping[Row, Any]] | None = None

    def entries(self) -> Mapping[Row, Any]:
        """The payloads of all partitions added up."""
        version = self._engine.checkpoint.history.token(self._unit)
        if self._known is None or self._known[0] != version:
            assert self._ring is not None
            total: dict[Row, Any] = {}
            sum_into = summing(self._ring)
            for part in self._ask(_entries):
                for row, payload in part.items():
                    sum_into(total, row, payload)
            self._known = version, without_zeros(self._ring, total)
        return self._known[1]

    @property
    def count(self) -> int:
        return sum(self._ask(_count))

    def rows(self) -> Iterator[tuple[Row, int]]:
        """Partition by partition; the driver has the pieces of one at a time."""
        names = tuple(self._engine.code(self._unit).views)
        for number in range(self._engine.partitions):
            contents = self._engine.ask_tree(self._unit, _Contents(names), number)[0]
            yield from self._restored(contents).rows()

    def _restored(self, contents: Mapping[str, bytes]) -> RowReader:
        code = self._engine.code(self._unit)
        node = tree_of(code.evaluated(code.views))
        for name, blob in contents.items():
            node.restore(name, blob)
        return _rows(node)

    def aggregate(self, ring: Ring[Any], lifts: Mapping[str, Lift[Any]]) -> Any:
        return reduce(ring.add, self._ask(_Aggregate(ring, lifts)), ring.zero)

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for part in self._ask(_sizes):
            for name, size in part.items():
                found[name] = found.get(name, 0) + size
        return found

    def bytes(self) -> int:
        return sum(self._ask(_bytes))

    def _ask(self, question: Question) -> list[Any]:
        return self._engine.ask_tree(self._unit, question)
