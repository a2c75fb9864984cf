"""Plans that are launched as a whole: a back end that can record launches runs the steps of a plan without Python.

The first update with a plan runs step by step, which compiles kernels; the second one is recorded and launched, and so
are all later ones. A plan is recorded if all its steps are thin operations and passes: an inverse is looked at before
it is used, and a view that is recomputed takes new memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewlet.linalg.backends.contract import Backend, Recording, Thin
from viewlet.linalg.execute import Executor
from viewlet.linalg.expression import Inverse
from viewlet.linalg.schedule import Compute, Recompute
from viewlet.linalg.strategy import Plan
from viewlet.linalg.values import Array, Units


class Replays:
    """The recorded plans of a run."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._recorded: dict[tuple[int, ...], tuple[Plan, Recording | None]] = {}
        """By plan, and which of its factors are unit vectors; there is a recording from the second run on."""
        self._arrays: tuple[Array, ...] = ()
        """The stored arrays, whose memory recordings use."""

    def run(self, plan: Plan, executor: Executor, factors: Mapping[Any, Thin]) -> None:
        """Runs the steps of a plan, recorded or one by one."""
        recorder = self._backend.recorder
        if recorder is None or executor.pending.cap or not _is_recordable(plan):
            executor.run(plan.steps, factors, plan.trigger.guards)
            return
        self._check(tuple(executor.stored.values()))
        key = (id(plan), *(isinstance(factor, Units) for factor in factors.values()))
        if key not in self._recorded:
            self._recorded[key] = plan, None
            executor.run(plan.steps, factors, plan.trigger.guards)
            return
        recording = self._recorded[key][1]
        if recording is None:
            plain = Executor(executor.backend, executor.stored, executor.sizes, executor.guards, {})
            recording = recorder.record(lambda given: plain.run(plan.steps, given), factors)
            self._recorded[key] = plan, recording
        executor.touched |= {update.view for update in plan.trigger.updates if not update.view.dynamic}
        recording.replay(factors)
        for each, put in executor.exact.items():
            put(executor.stored[each])

    def _check(self, arrays: tuple[Array, ...]) -> None:
        """Recordings hold while the arrays are the same."""
        if len(arrays) != len(self._arrays) or any(
            new is not old for new, old in zip(arrays, self._arrays, strict=True)
        ):
            self.clear()
            self._arrays = arrays

    def clear(self) -> None:
        """Forgets all recordings."""
        self._recorded.clear()
        self._arrays = ()


def _is_recordable(plan: Plan) -> bool:
    return not any(
        isinstance(step, Recompute) or (isinstance(step, Compute) and isinstance(step.node, Inverse))
        for step in plan.steps
    )
