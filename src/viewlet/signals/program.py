"""A query as it runs: its operators in order, each with its state. Views and finished tables run the same programs.

events of the sources ──► operator ──► operator ──► samples of the query
                             │            │
                           state        state        a row for every slot
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.batches import Array, Batch, Events, Samples, Stretch, no_samples, together
from viewlet.signals.form import form_of
from viewlet.signals.nodes import Sample, Signal, Source, inputs, sources
from viewlet.signals.operators import operator_of
from viewlet.signals.operators.contract import Operator
from viewlet.signals.rows import present
from viewlet.signals.state import Saved, State


@dataclass(frozen=True, slots=True)
class Step:
    """An operator, the steps that its inputs come from, and its state."""

    operator: Operator
    inputs: tuple[int, ...]
    state: State
    nothing: tuple[Samples, ...] = ()
    """An empty batch for each input."""
    is_sampling: bool = False
    """It puts events on a grid."""


def _with_indexes(samples: Any) -> Any:
    return samples.take(slice(None)) if isinstance(samples, Stretch) else samples


def samples_events(node: Signal) -> bool:
    """It samples a signal that is not sampled yet."""
    return isinstance(node, Sample) and form_of(node.source).grid is None


class Program:
    """The steps of a query. Expressions that occur twice run once."""

    def __init__(self, query: Signal) -> None:
        self.sources: tuple[Source, ...] = sources(query)
        self._steps: list[Step] = []
        places: dict[Signal, int] = {source: place for place, source in enumerate(self.sources)}
        self._result = self._add(query, places)

    def _add(self, node: Signal, places: dict[Signal, int]) -> int:
        if node not in places:
            came = tuple(self._add(each, places) for each in inputs(node))
            operator = operator_of(node)
            forms = map(form_of, inputs(node))
            nothing = tuple(no_samples(form.width, form.is_complex) for form in forms)
            self._steps.append(Step(operator, came, State(operator.fields), nothing, samples_events(node)))
            places[node] = len(self.sources) + len(self._steps) - 1
        return places[node]

    def reserve(self, slots: int) -> None:
        """Makes room for so many groups."""
        for step in self._steps:
            step.state.reserve(slots)

    def run(self, events: Sequence[Events]) -> Batch:
        """The samples that follow from new events of each source; the rows of a source are sorted."""
        found: list[Batch] = list(events)
        for step in self._steps:
            made = step.operator.run(step.state, *(found[place] for place in step.inputs))
            found.append(made if len(found) == self._result else present(made))
        return found[self._result]

    def run_samples(self, samples: Samples | Stretch) -> Batch:
        """Like `run`, for samples that are already on the grid; the operator that samples the source is skipped."""
        found: list[Any] = [samples] * len(self.sources)
        for step in self._steps:
            if step.is_sampling:
                found.append(found[step.inputs[0]])
                continue
            if not step.operator.takes_stretches:
                for place in step.inputs:
                    found[place] = _with_indexes(found[place])
            made = step.operator.run(step.state, *(found[place] for place in step.inputs))
            found.append(made if len(found) == self._result else present(made))
        result: Batch = _with_indexes(found[self._result])
        return result

    def flush(self) -> Batch | None:
        """The samples that waited for more; None if no operator makes any wait."""
        found: list[Batch | None] = [None] * len(self.sources)
        for step in self._steps:
            given = [found[place] for place in step.inputs]
            parts = []
            if any(each is not None for each in given):  # of two signals, one may have nothing left
                pairs = zip(given, step.nothing, strict=True)
                parts.append(step.operator.run(step.state, *(none if each is None else each for each, none in pairs)))
            if (rest := step.operator.flush(step.state)) is not None:
                parts.append(rest)
            made = together(parts) if parts else None
            found.append(made if made is None or len(found) == self._result else present(made))
        return found[self._result]

    # -- state ---------------------------------------------------------------------------------------------------------

    def reset(self, slots: Array) -> None:
        """Makes the groups of some slots new."""
        for step in self._steps:
            step.state.reset(slots)

    def save(self, slots: Array) -> list[Saved]:
        """What is known of some slots."""
        return [step.state.save(slots) for step in self._steps]

    def restore(self, saved: Sequence[Saved]) -> None:
        """Takes back what has happened to some slots since; may be called again."""
        for step, each in zip(self._steps, saved, strict=True):
            step.state.restore(each)

    def states(self) -> Iterator[State]:
        """The state of every operator, in order."""
        return (step.state for step in self._steps)

    @property
    def size(self) -> int:
        """The bytes of all arrays of state."""
        held = [array for state in self.states() for array in state.arrays.values()]
        return int(np.sum([array.nbytes for array in held], dtype=np.int64)) if held else 0
