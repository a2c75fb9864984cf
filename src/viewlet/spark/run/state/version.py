"""Reading a unit in the version that a context names, however much later.

The version is in the state of this machine, or it is computed from the snapshot and the log that the context knows. A
later snapshot removes these files. It holds the version too if no batch lies between; otherwise the version is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from viewlet.errors import StateError
from viewlet.runtime.durable.read_only import open_for_reading
from viewlet.spark.run.state.checkpoint import Checkpoint
from viewlet.spark.run.state.partition import Context, History, shown
from viewlet.spark.run.units.node import Node, informed

T = TypeVar("T")


def read_version(context: Context, unit: str, partition: int, question: Callable[[Node], T]) -> T:
    """What a unit in a partition answers to a question, in the version of a context."""
    try:
        with shown(context, unit, partition) as node, informed(node, context.sent):
            return question(node)
    except (StateError, OSError) as error:
        found = _history_now(context, unit)
        if found is None:
            raise StateError(
                f"the rows of {unit!r} that this data frame shows are no longer in {context.checkpoint}: batches and a "
                "snapshot have come since; call to_spark() again, or cache() the frame before the batches"
            ) from error
        if found == context.history:
            raise
    with shown(replace(context, history=found), unit, partition) as node, informed(node, context.sent):
        return question(node)


def _history_now(context: Context, unit: str) -> History | None:
    """How the files that the checkpoint has by now lead to the version of a context; None if they do not."""
    checkpoint = Checkpoint(context.checkpoint, store=open_for_reading(context.checkpoint))
    saved = checkpoint.snapshot()
    if saved is not None:
        checkpoint.take_up(saved.facts)
    for _ in checkpoint.records():
        """The checkpoint collects the steps."""
    return checkpoint.history.up_to(unit, context.history.token(unit))
