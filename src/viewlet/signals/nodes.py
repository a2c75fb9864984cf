"""Signal queries as expressions.

    signal ::= Source                 events of a table, by key
             | Scale | Offset         a constant times, or added to, every value
             | Shift                  later by some ticks
             | Select | Where         a function of the values; the samples whose values satisfy one
             | Sample                 the values at the beats of a grid, between events by interpolation
             | Downsample             every n-th beat
             | Lfilter | Sos | Fir    digital filters
             | Filter                 a digital filter of the user's
             | Ewm | Integral | Difference
             | Aggregate              a sum, mean, power or energy over hopping windows
             | Window                 a pipeline of array operators over hopping windows
             | Whole                  filters in both directions, over finished tables
             | AsOf                   a signal with the last value of another at or before each sample
             | Combine                two signals where both have a sample: their sum, ..., or both values side by side

A `Source` is non-uniform: its events are at any time. `Sample` makes it uniform: samples at the beats of a grid, by
index. `form.py` says which form an expression has, and `notation.py` writes it as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from viewlet.signals.grid import Grid

Number = float | complex


@dataclass(frozen=True, slots=True)
class Source:
    """The events of a table: a value at a time, or from `time` up to `end`, one at a time for each key."""

    table: str
    key: tuple[str, ...]
    time: str
    values: tuple[str, ...]
    end: str | None = None
    is_complex: bool = False
    """The two values are the real and the imaginary part of one."""
    is_timestamp: bool = True
    ticks: int | None = None
    """How many units of the time column there are in a second, if it counts those."""
    overlap: str = "error"
    lateness: int = 0
    late: str = "refuse"
    function: str = ""
    """The name of a function of times and values, where the values are its arguments (functional payloads)."""
    idle: int = 0
    """Ticks of silence after which a group restarts; 0 if it never does."""
    payload: str = ""
    """The name of the arithmetic of its values (`payloads.Payload`), if they have one of their own."""


@dataclass(frozen=True, slots=True)
class Scale:
    """y = factor * x."""

    source: Signal
    factor: Number


@dataclass(frozen=True, slots=True)
class Offset:
    """y = x + constant."""

    source: Signal
    constant: Number


@dataclass(frozen=True, slots=True)
class Shift:
    """y(t) = x(t - ticks)."""

    source: Signal
    ticks: Fraction


@dataclass(frozen=True, slots=True)
class Select:
    """y = f(x), with a function on arrays of values; `width` components come out, or as many as went in."""

    source: Signal
    function: str
    width: int | None = None
    is_complex: bool | None = None
    """Of what comes out; None if as what went in."""


@dataclass(frozen=True, slots=True)
class Where:
    """The samples for which a function on arrays of values is true."""

    source: Signal
    function: str


@dataclass(frozen=True, slots=True)
class Interpolation:
    """How missing samples are computed; references further apart than `max_gap` ticks are not used together."""

    kind: str
    max_gap: Fraction
    value: float = 0.0
    """Of the kind `constant`."""
    name: str = ""
    """The class of an interpolation of the user's."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The signal at the beats of a grid: where an event is active, and between events if there is an interpolation."""

    source: Signal
    grid: Grid
    interpolation: Interpolation | None = None


@dataclass(frozen=True, slots=True)
class Downsample:
    """The samples whose index is a multiple of `factor`."""

    source: Signal
    factor: int


@dataclass(frozen=True, slots=True)
class Lfilter:
    """a[0] y[n] = sum of b[i] x[n-i] - sum of a[i] y[n-i], the convention of `scipy.signal.lfilter`."""

    source: Signal
    b: tuple[float, ...]
    a: tuple[float, ...]
    start: str = "zero"
    missing: str = "zero"


@dataclass(frozen=True, slots=True)
class Sos:
    """Second-order sections one after the other, as `scipy.signal.sosfilt`; a section is b0, b1, b2, a0, a1, a2."""

    source: Signal
    sections: tuple[tuple[float, ...], ...]
    start: str = "zero"
    missing: str = "zero"


@dataclass(frozen=True, slots=True)
class Fir:
    """y[n] = sum of taps[i] x[n-i]; by FFT in blocks of `block` samples if that is not 0."""

    source: Signal
    taps: tuple[Number, ...]
    start: str = "zero"
    missing: str = "zero"
    block: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
    """A digital filter of the user's, by name (`filters.DigitalFilter`)."""

    source: Signal
    name: str


@dataclass(frozen=True, slots=True)
class Ewm:
    """The exponentially weighted mean, as `pandas.Series.ewm(alpha=..., adjust=...).mean()`."""

    source: Signal
    alpha: float
    adjust: bool = True


@dataclass(frozen=True, slots=True)
class Integral:
    """The sum of all samples so far, times `step`; of the trapezia between neighbours if `trapezoid`."""

    source: Signal
    step: float
    trapezoid: bool = True


@dataclass(frozen=True, slots=True)
class Difference:
    """y[n] = (x[n] - x[n - lag]) / step, where both are there."""

    source: Signal
    lag: int = 1
    step: float = 1.0


@dataclass(frozen=True, slots=True)
class Aggregate:
    """At every index n that is a multiple of `hop`: `operation` over the samples with indexes n - size < i <= n."""

    source: Signal
    operation: str
    size: int
    hop: int
    least: int = 1
    """How many samples have to be there."""


@dataclass(frozen=True, slots=True)
class Stage:
    """An array operator of a window's pipeline (`stages.py`), with its arguments."""

    operation: str
    arguments: tuple[Argument, ...] = ()


Argument = int | float | complex | str | bool | None | tuple["Argument", ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Arrays of `size` samples, `hop` apart, times `window`; through `stages`, and back to samples by `finish`."""

    source: Signal
    size: int
    hop: int
    window: tuple[float, ...] = ()
    missing: str = "invalid"
    stages: tuple[Stage, ...] = ()
    finish: Stage | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """An operator that needs every sample of a group at once (`operators/whole.py`): over finished tables only."""

    source: Signal
    operation: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Combine:
    """x op y for the samples of two signals with the same key and index; `join` is the components of both."""

    left: Signal
    right: Signal
    operation: str


@dataclass(frozen=True, slots=True)
class AsOf:
    """x joined with the last value of y at or before each of its beats, if that is at most `max_gap` ticks old."""

    left: Signal
    right: Signal
    max_gap: Fraction


Signal = (
    Source
    | Scale
    | Offset
    | Shift
    | Select
    | Where
    | Sample
    | Downsample
    | Lfilter
    | Sos
    | Fir
    | Filter
    | Ewm
    | Integral
    | Difference
    | Aggregate
    | Window
    | Whole
    | Combine
    | AsOf
)


def inputs(node: Signal) -> tuple[Signal, ...]:
    """The signals that an expression is made of."""
    match node:
        case Source():
            return ()
        case Combine(left, right) | AsOf(left, right):
            return left, right
        case _:
            return (node.source,)


def walk(node: Signal) -> Iterator[Signal]:
    """An expression, and all that it is made of."""
    yield node
    for each in inputs(node):
        yield from walk(each)


def is_causal(node: Signal) -> bool:
    """No operator waits for the end of the signal."""
    return not any(isinstance(each, Whole) for each in walk(node))


def sources(node: Signal) -> tuple[Source, ...]:
    """The events that an expression reads, each once."""
    return tuple(dict.fromkeys(each for each in walk(node) if isinstance(each, Source)))
