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

from viewlet.signals.backlog import Backlog
from viewlet.signals.batches import Array, Batch, Events, Samples, Stretch, no_samples, together
from viewlet.signals.form import Form, form_of, materialised
from viewlet.signals.nodes import AsOf, Sample, Signal, Source, inputs, sources, walk
from viewlet.signals.operators import operator_of
from viewlet.signals.operators.as_of import LastValue
from viewlet.signals.operators.contract import Operator
from viewlet.signals.rows import present
from viewlet.signals.state import Saved, State


@dataclass(frozen=True, slots=True)
class Step:
    """An operator, the steps that its inputs come from, and its state."""

    operator: Operator
    inputs: tuple[int, ...]
    state: State
    nothing: tuple[Batch, ...] = ()
    """An empty batch for each input."""
    is_sampling: bool = False
    """It puts events on a grid."""


def _with_indexes(samples: Any) -> Any:
    return samples.take(slice(None)) if isinstance(samples, Stretch) else samples


def samples_events(node: Signal) -> bool:
    """It samples a signal that is not sampled yet."""
    return isinstance(node, Sample) and form_of(node.source).grid is None


def _nothing(form: Form) -> Batch:
    """An empty batch of a signal."""
    none = no_samples(form.width, form.is_complex)
    return none if form.grid else Events(none.slot, none.index, none.value, none.slot if form.has_end else None)


class Program:
    """The steps of a query. Expressions that occur twice run once."""

    def __init__(self, query: Signal) -> None:
        self.query = query
        self.sources: tuple[Source, ...] = sources(query)
        materialised(form_of(query), "a view or a run")
        self._steps: list[Step] = []
        places: dict[Signal, int] = {source: place for place, source in enumerate(self.sources)}
        self._result = self._add(query, places)

    def _add(self, node: Signal, places: dict[Signal, int]) -> int:
        if node not in places:
            came = tuple(self._add(each, places) for each in inputs(node))
            operator = operator_of(node)
            nothing = tuple(_nothing(form_of(each)) for each in inputs(node))
            self._steps.append(Step(operator, came, State(operator.fields), nothing, samples_events(node)))
            places[node] = len(self.sources) + len(self._steps) - 1
        return places[node]

    # -- samples that may still change ---------------------------------------------------------------------------------

    @property
    def last_value_sources(self) -> frozenset[int]:
        """The sources of signals of which some operator takes the last value: its samples may still change."""
        read = [source for node in walk(self.query) if isinstance(node, AsOf) for source in sources(node.right)]
        return frozenset(map(self.sources.index, read))

    def show_all(self) -> None:
        """From now on samples take the last values that are known, and do not wait for later ones."""
        for step in self._steps:
            if isinstance(step.operator, LastValue):
                step.operator.at_once = True

    def follow(self, other: Program, slots: Array) -> None:
        """Some slots are as in another program of the same query, whose samples wait; no other samples wait here."""
        for step, known in zip(self._steps, other._steps, strict=True):
            for name, held in known.state.arrays.items():
                step.state.arrays[name][slots] = held[slots]
            if isinstance(step.operator, LastValue):
                samples, values = known.state.waiting or (Backlog(), Backlog())
                step.state.waiting = samples.of_slots(slots), values
            elif known.state.waiting or step.state.waiting:
                before = step.state.waiting or (Backlog(),) * len(known.state.waiting)
                pairs = zip(before, known.state.waiting, strict=True)
                step.state.waiting = tuple(own.without(slots).plus(new.of_slots(slots)) for own, new in pairs)

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
