"""The task that asks a partition of a view tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewlet.errors import InternalError, ViewletError
from viewlet.spark.run.state.partition import Context, held
from viewlet.spark.run.units.node import Node
from viewlet.spark.run.units.tree_node import TreeNode

Question = Callable[[TreeNode], Any]


@dataclass(frozen=True, slots=True)
class AskTree:
    """A request to a partition of a view tree; `payload` names the partition if it is not the number of the task."""

    context: Context
    unit: str
    question: Question

    def __call__(self, number: int, payload: int | None) -> Any:
        try:
            with held(self.context, self.unit, number if payload is None else payload) as state:
                return self.question(tree_of(state.node))
        except ViewletError as error:
            return error


def tree_of(node: Node) -> TreeNode:
    """The node of a unit that is a view tree."""
    if not isinstance(node, TreeNode):
        raise InternalError(f"a {type(node).__name__} is no view tree")
    return node
