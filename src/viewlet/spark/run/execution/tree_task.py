"""The task that asks a partition of a view tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewlet.errors import InternalError
from viewlet.spark.run.execution.tasks import PartitionTask
from viewlet.spark.run.state.partition import Context, held
from viewlet.spark.run.units.node import Node
from viewlet.spark.run.units.tree_node import TreeNode

Question = Callable[[TreeNode], Any]


@dataclass(frozen=True, slots=True)
class TreeRequest(PartitionTask[Any]):
    """A request to a partition of a view tree."""

    context: Context
    unit: str
    question: Question

    def answer(self, partition: int) -> Any:
        with held(self.context, self.unit, partition) as state:
            return self.question(tree_of(state.node))


def tree_of(node: Node) -> TreeNode:
    """The node of a unit that is a view tree."""
    if not isinstance(node, TreeNode):
        raise InternalError(f"a {type(node).__name__} is no view tree")
    return node
