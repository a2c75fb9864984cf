"""What is in force in a database, and what is on its way to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from viewlet.runtime.durable.batch_ids import BatchIds


@dataclass(frozen=True, slots=True)
class CommittedState:
    """What a commit replaces at once.

    `epoch` counts batches; `version` counts declarations too, so that equal versions mean equal contents; `batches` are
    those with an id.
    """

    epoch: int = 0
    version: int = 0
    batches: BatchIds = field(default_factory=BatchIds)


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch or a declaration under way: it leads to `after`, from a journal at `position`.

    `finish` and `take_back` may be called again after an exception in them.
    """

    after: CommittedState
    position: int
    finish: Callable[[], None]
    take_back: Callable[[], None]
