"""Two signals on one grid, for arithmetic between them (section 7.4.3).

| the signals have                  | what happens                                                   |
|-----------------------------------|----------------------------------------------------------------|
| the same period and offset        | nothing                                                        |
| the same period, other offsets    | the second is shifted by the difference                        |
| different periods                 | the coarser one is resampled on the grid of the finer          |
| a grid on one side only           | the non-uniform one is sampled on it, without interpolation    |
| no grid                           | they wait: sampling the outcome samples both                   |
"""

from __future__ import annotations

from viewlet.signals.errors import SignalError
from viewlet.signals.form import form_of
from viewlet.signals.grid import Grid
from viewlet.signals.nodes import Combine, Interpolation, Offset, Sample, Scale, Shift, Signal


def align(left: Signal, right: Signal) -> tuple[Signal, Signal]:
    """Two signals with the same grid, or two without one."""
    first, second = form_of(left).grid, form_of(right).grid
    if first == second:
        return left, right
    if first is None:
        assert second is not None
        return sample_inside(left, second, None), right
    if second is None:
        return left, sample_inside(right, first, None)
    if first.period == second.period:
        return left, Shift(right, first.offset - second.offset)
    if first.period < second.period:
        return left, _finer(right, first)
    return _finer(left, second), right


def _finer(signal: Signal, grid: Grid) -> Signal:
    policy = form_of(signal).interpolation
    if policy is None:
        raise SignalError(
            f"one signal has samples {grid}, the other {form_of(signal).grid} and no interpolation: sample() it with "
            "one, or resample() it"
        )
    return Sample(signal, grid, policy)


def sample_inside(signal: Signal, grid: Grid, interpolation: Interpolation | None) -> Signal:
    """sample(x op y) = sample(x) op sample(y), for signals that are combined before they are sampled."""
    if form_of(signal).grid is None:
        match signal:
            case Combine(left, right, operation):
                first, second = (sample_inside(each, grid, interpolation) for each in (left, right))
                return Combine(first, second, operation)
            case Scale(source, number) if _waits(source):
                return Scale(sample_inside(source, grid, interpolation), number)
            case Offset(source, number) if _waits(source):
                return Offset(sample_inside(source, grid, interpolation), number)
            case Shift(source, ticks) if _waits(source):
                return Shift(sample_inside(source, grid.shifted(-ticks)[0], interpolation), ticks)
    return Sample(signal, grid, interpolation)


def known_values(signal: Signal, grid: Grid) -> Signal:
    """A signal whose values are known where it has events: functions of time, and what is combined, on a grid."""
    return sample_inside(signal, grid, None) if _waits(signal) and form_of(signal).grid is None else signal


def _waits(signal: Signal) -> bool:
    """Its values are known only at beats: functions of time, or what is combined."""
    match signal:
        case Combine():
            return True
        case Scale(source) | Offset(source) | Shift(source):
            return _waits(source)
    return form_of(signal).is_functional
