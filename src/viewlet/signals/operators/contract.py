"""The contract of operators: stateful kernels over the columns of a batch.

    run(state, *inputs)    the samples that follow from what has come so far, in order
    flush(state)           those that would wait for more

`run` is called once for a batch, with the rows of all groups. The samples of a group depend on what came for it, never
on where batches ended: a kernel computes each of them by the same operations in the same order, whatever the batch.
"""

from __future__ import annotations

from typing import Any, Protocol

from viewlet.signals.batches import Batch
from viewlet.signals.state import Field, State


class Operator(Protocol):
    """One node of a query, as it runs."""

    takes_stretches: bool
    """It takes samples without a gap as a `Stretch` too."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """What it keeps for each group."""

    def run(self, state: State, *inputs: Any) -> Batch: ...

    def flush(self, state: State) -> Batch | None:
        """What is left at the end of a finished table; None if nothing ever is."""


class Stateless:
    """The base class of operators that keep nothing."""

    takes_stretches = False
    fields: tuple[Field, ...] = ()

    def flush(self, state: State) -> Batch | None:
        return None
