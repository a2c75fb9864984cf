"""The fluent interface: every method of a `Signal` makes another query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from viewlet.signals import nodes
from viewlet.signals.align import align, known_values, sample_inside
from viewlet.signals.coefficients import (
    checked_choice,
    column_names,
    complex_or_real,
    gap_of,
    length,
    positive,
    rate_of,
    real,
    sections_of,
    taps_of,
    weights_of,
)
from viewlet.signals.errors import SignalError
from viewlet.signals.form import uniform
from viewlet.signals.grid import Duration, Grid, ticks_of, whole_ticks
from viewlet.signals.interpolation import KINDS, Interpolator
from viewlet.signals.notation import Function, name_of, names_of
from viewlet.signals.query import Query
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.signals.windows import Windows

DEFAULT_GAP = 10
"""The periods that references of an interpolation may be apart, unless it is said."""
DIRECT_TAPS = 64
"""Up to so many taps a convolution is computed sample by sample under `method="auto"`."""


@dataclass(frozen=True, slots=True, repr=False)
class Signal(Query):
    """A signal: a function of time for every key, given by events or sampled at the beats of a grid.

    `db.signal(...)` makes one over a table, and each method makes another.
    """

    @property
    def is_uniform(self) -> bool:
        """Whether the signal has samples at the beats of a grid."""
        return self.form.grid is not None

    # -- values --------------------------------------------------------------------------------------------------------

    def scale(self, factor: complex) -> Signal:
        """Every value times a factor."""
        return Signal(nodes.Scale(self.node, complex_or_real(factor, "scale()")))

    def shift(self, duration: Duration) -> Signal:
        """The signal later by a duration, or earlier by a negative one."""
        ticks = ticks_of(duration, self.form.source.ticks, "shift()")
        if self.form.grid is None and ticks.denominator != 1:
            raise SignalError(f"shift(): {duration!r} is not a whole number of ticks of the time column")
        return Signal(nodes.Shift(self.node, ticks))

    def select(self, function: Function, width: int | None = None, *, is_complex: bool | None = None) -> Signal:
        """A function of each value; it gets an array of values, or of rows of components, and gives as many.

        The function is found by its name, so that a directory can keep it.
        """
        wide = None if width is None else positive(width, "select()")
        return Signal(nodes.Select(self.node, name_of(function, "select()"), wide, is_complex))

    def where(self, function: Function) -> Signal:
        """The samples for which a function of an array of values is true."""
        return Signal(nodes.Where(self.node, name_of(function, "where()")))

    def __add__(self, other: Signal | complex) -> Signal:
        return self._with(other, "+")

    def __sub__(self, other: Signal | complex) -> Signal:
        return self._with(other, "-")

    def __mul__(self, other: Signal | complex) -> Signal:
        return self._with(other, "*")

    def __truediv__(self, other: Signal | complex) -> Signal:
        return self._with(other, "/")

    def __neg__(self) -> Signal:
        return self.scale(-1.0)

    def __radd__(self, other: complex) -> Signal:
        return self + other

    def __rmul__(self, other: complex) -> Signal:
        return self * other

    def __rsub__(self, other: complex) -> Signal:
        return (-self) + other

    def _with(self, other: Signal | complex, operation: str) -> Signal:
        if isinstance(other, Signal):
            return Signal(nodes.Combine(*align(self.node, other.node), operation))
        number = complex_or_real(other, f"signal {operation} number")
        if operation == "/" and not number:
            raise SignalError("signal / number: the number is 0")
        match operation:
            case "+":
                return Signal(nodes.Offset(self.node, number))
            case "-":
                return Signal(nodes.Offset(self.node, -number))
            case "*":
                return Signal(nodes.Scale(self.node, number))
            case _:
                return Signal(nodes.Scale(self.node, 1 / number))

    # -- sampling ------------------------------------------------------------------------------------------------------

    def sample(
        self,
        period: Duration | None = None,
        interpolate: str | type[Interpolator] | None = None,
        *,
        rate: float | Fraction | None = None,
        offset: Duration = 0,
        max_gap: Duration | None = None,
        fill: float = 0.0,
    ) -> Signal:
        """The signal at the beats offset + k * period, or at `rate` beats a second.

        Without `interpolate` there are samples at beats at which an event is active. With it there are samples between
        events too, if those are at most `max_gap` apart (ten periods, unless said): `"constant"` (`fill`), `"last"`,
        `"zero"`, `"linear"`, `"quadratic"`, or a subclass of `Interpolator`.
        """
        if (period is None) == (rate is None):
            raise SignalError("sample() needs a period, as in sample('100ms'), or rate=, and not both")
        grid = self._grid(period, rate, ticks_of(offset, self.form.source.ticks, "offset"))
        return Signal(sample_inside(self.node, grid, self._policy(grid, interpolate, max_gap, fill)))

    def resample(
        self,
        period: Duration | None = None,
        interpolate: str | type[Interpolator] | None = None,
        *,
        rate: float | Fraction | None = None,
        offset: Duration | None = None,
        max_gap: Duration | None = None,
        fill: float = 0.0,
    ) -> Signal:
        """The samples at the beats of another grid; period, offset and interpolation are those of the signal, unless
        said as for `sample`."""
        form = uniform(self.form, "resample()")
        assert form.grid is not None
        if period is not None and rate is not None:
            raise SignalError("resample() takes a period or rate=, and not both")
        begin = form.grid.offset if offset is None else ticks_of(offset, form.source.ticks, "offset")
        is_other = period is not None or rate is not None
        grid = self._grid(period, rate, begin) if is_other else Grid(form.grid.period, begin)
        policy = form.interpolation
        if interpolate is not None or policy is None:
            policy = self._policy(grid, interpolate, max_gap, fill)
        elif max_gap is not None:
            policy = replace(policy, max_gap=gap_of(ticks_of(max_gap, form.source.ticks, "max_gap")))
        return Signal(nodes.Sample(self.node, grid, policy))

    def _grid(self, period: Duration | None, rate: float | Fraction | None, offset: Fraction) -> Grid:
        ticks = self.form.source.ticks
        if rate is not None:
            return Grid.of_rate(rate_of(rate), ticks, offset)
        assert period is not None
        return Grid(ticks_of(period, ticks, "a period"), offset)

    def _policy(
        self, grid: Grid, interpolate: str | type[Interpolator] | None, max_gap: Duration | None, fill: float
    ) -> nodes.Interpolation | None:
        if interpolate is None:
            if max_gap is not None:
                raise SignalError("max_gap= is of an interpolation: say interpolate='linear' or another")
            return None
        gap = DEFAULT_GAP * grid.period
        if max_gap is not None:
            gap = gap_of(ticks_of(max_gap, self.form.source.ticks, "max_gap"))
        if isinstance(interpolate, str) and ":" not in interpolate:
            checked_choice(interpolate, KINDS, "interpolate")
            return nodes.Interpolation(interpolate, gap, real(fill, "fill="))
        return nodes.Interpolation("user", gap, name=name_of(interpolate, "interpolate="))

    def upsample(self, factor: int) -> Signal:
        """`factor` times as many samples, by the interpolation of the signal."""
        form = uniform(self.form, "upsample()")
        assert form.grid is not None
        if form.interpolation is None:
            raise SignalError("upsample() needs an interpolation: sample(..., 'linear'), or resample() with one")
        grid = Grid(form.grid.period / positive(factor, "upsample()"), form.grid.offset)
        return Signal(nodes.Sample(self.node, grid, form.interpolation))

    def downsample(self, factor: int) -> Signal:
        """Every `factor`-th beat of the grid; nothing is filtered before."""
        return Signal(nodes.Downsample(self.node, positive(factor, "downsample()")))

    def decimate(self, factor: int) -> Signal:
        """`downsample` behind the anti-aliasing filter of `scipy.signal.decimate(..., zero_phase=False)`."""
        from scipy.signal import cheby1

        sections = cheby1(8, 0.05, 0.8 / positive(factor, "decimate()"), output="sos")
        return self.sosfilt(sections).downsample(factor)

    # -- filters -------------------------------------------------------------------------------------------------------

    def lfilter(self, b: Sequence[float], a: Sequence[float], *, start: str = "zero", missing: str = "zero") -> Signal:
        """A filter with coefficients as in `scipy.signal.lfilter(b, a, x)`.

        It starts from zero state; with `start="steady"` from that of a constant signal, with `start="full"` there is no
        output before the window of inputs is full. A missing sample is a zero, or with `missing="reset"` a new start.
        """
        forward, backward = taps_of(b, "b"), taps_of(a, "a")
        if any(isinstance(each, complex) for each in (*forward, *backward)) or not backward[0]:
            raise SignalError("lfilter() takes real coefficients, with a[0] not 0")
        checked_choice(start, ("zero", "steady", "full"), "start")
        checked_choice(missing, ("zero", "reset"), "missing")
        return Signal(nodes.Lfilter(self.node, forward, backward, start, missing))  # type: ignore[arg-type]

    def sosfilt(self, sos: Any, *, start: str = "zero", missing: str = "zero") -> Signal:
        """Second-order sections as in `scipy.signal.sosfilt(sos, x)`; `start` and `missing` as of `lfilter`."""
        checked_choice(start, ("zero", "steady"), "start")
        checked_choice(missing, ("zero", "reset"), "missing")
        return Signal(nodes.Sos(self.node, sections_of(sos), start, missing))

    def fir(
        self, taps: Sequence[complex], *, start: str = "zero", missing: str = "zero", method: str = "auto"
    ) -> Signal:
        """A finite impulse response: `scipy.signal.lfilter(taps, 1, x)`.

        With the method `"fft"`, which `"auto"` takes for many taps, samples come in blocks of the grid, when a block is
        complete; `"direct"` gives each at once.
        """
        checked_choice(start, ("zero", "full"), "start")
        checked_choice(missing, ("zero", "reset"), "missing")
        checked_choice(method, ("auto", "direct", "fft"), "method")
        weights = taps_of(taps, "taps")
        may_block = missing == "zero" and start == "zero" and len(weights) > 1 and not self.form.payload
        if method == "fft" and not may_block:
            raise SignalError("method='fft' starts from zeros and takes missing samples for zeros")
        by_block = method == "fft" or (method == "auto" and may_block and len(weights) > DIRECT_TAPS)
        return Signal(nodes.Fir(self.node, weights, start, missing, block_of(len(weights)) if by_block else 0))

    def convolve(self, taps: Sequence[complex], *, method: str = "auto") -> Signal:
        """The convolution with some taps: the first samples of `numpy.convolve(x, taps)`."""
        return self.fir(taps, method=method)

    def correlate(self, values: Sequence[complex], *, missing: str = "zero") -> Signal:
        """The correlation with some values: `numpy.correlate(x, values, "valid")`, at the last sample of each."""
        weights = taps_of(values, "correlate()")
        reversed_ = tuple(each.conjugate() for each in reversed(weights))
        return self.fir(reversed_, start="full", missing=missing, method="direct")

    def ewm(self, alpha: float, *, adjust: bool = True) -> Signal:
        """The exponentially weighted mean, as `pandas.Series.ewm(alpha=alpha, adjust=adjust).mean()`."""
        weight = real(alpha, "ewm()")
        if not 0 < weight <= 1:
            raise SignalError(f"ewm(): alpha is in (0, 1], not {described(alpha)}")
        return Signal(nodes.Ewm(self.node, weight, bool(adjust)))

    def difference(self, lag: int = 1) -> Signal:
        """Each sample minus the one `lag` beats before, where both are there."""
        return Signal(nodes.Difference(self.node, length(lag, "difference()")))

    def derivative(self) -> Signal:
        """The difference of neighbours divided by the period, in seconds where the time column counts those."""
        return Signal(nodes.Difference(self.node, 1, self._step("derivative()")))

    def integral(self, *, method: str = "trapezoid") -> Signal:
        """The integral since the first sample, by trapezia or, with `"sum"`, by rectangles."""
        checked_choice(method, ("trapezoid", "sum"), "method")
        return Signal(nodes.Integral(self.node, self._step("integral()"), method == "trapezoid"))

    def filter(self, filter: Function) -> Signal:
        """A digital filter of the user's: a subclass of `DigitalFilter` that can be imported."""
        return Signal(nodes.Filter(self.node, name_of(filter, "filter()")))

    def filtfilt(self, b: Sequence[float], a: Sequence[float]) -> Signal:
        """`scipy.signal.filtfilt(b, a, x)` of every stretch without a gap; over finished tables only."""
        return Signal(nodes.Whole(self.node, "filtfilt", (taps_of(b, "b"), taps_of(a, "a"))))

    def sosfiltfilt(self, sos: Any) -> Signal:
        """`scipy.signal.sosfiltfilt(sos, x)` of every stretch without a gap; over finished tables only."""
        return Signal(nodes.Whole(self.node, "sosfiltfilt", (sections_of(sos),)))

    def resample_poly(self, up: int, down: int) -> Signal:
        """`scipy.signal.resample_poly(x, up, down)` of every stretch without a gap; over finished tables only.

        A stretch begins with its first sample that is at a beat of the new grid.
        """
        factors = positive(up, "resample_poly()"), positive(down, "resample_poly()")
        return Signal(nodes.Whole(self.node, "resample_poly", factors))

    def detrend(self, kind: str = "linear") -> Signal:
        """`scipy.signal.detrend(x)` of every stretch without a gap; over finished tables only.

        Over arriving samples, `window(...).detrend()` does it for each window.
        """
        checked_choice(kind, ("linear", "constant"), "detrend()")
        return Signal(nodes.Whole(self.node, "detrend", (kind,)))

    # -- two signals ---------------------------------------------------------------------------------------------------

    def join(self, other: Signal) -> Signal:
        """The values of both signals side by side, at beats at which both have one; grids are aligned as for `+`."""
        return Signal(nodes.Combine(*align(self.node, _signal(other, "join()").node), "join"))

    def as_of(self, other: Signal, max_gap: Duration | None = None) -> Signal:
        """With each sample, the last value of another signal at or before its time, if that is at most `max_gap` old
        (ten periods, unless said)."""
        grid = uniform(self.form, "as_of()").grid
        assert grid is not None
        policy = self._policy(grid, "last", max_gap, 0.0)
        assert policy is not None
        values = known_values(_signal(other, "as_of()").node, grid)
        return Signal(nodes.AsOf(self.node, values, policy.max_gap))

    # -- windows -------------------------------------------------------------------------------------------------------

    def sum(self, size: int, hop: int = 1, *, min_samples: int = 1) -> Signal:
        """At every `hop`-th beat of the grid, the sum of the samples at the last `size` beats."""
        return self._aggregate("sum", size, hop, min_samples)

    def mean(self, size: int, hop: int = 1, *, min_samples: int = 1) -> Signal:
        """At every `hop`-th beat of the grid, the mean of the samples at the last `size` beats."""
        return self._aggregate("mean", size, hop, min_samples)

    def energy(self, size: int, hop: int = 1, *, min_samples: int = 1) -> Signal:
        """At every `hop`-th beat of the grid, the sum of squares of the samples at the last `size` beats."""
        return self._aggregate("energy", size, hop, min_samples)

    def power(self, size: int, hop: int = 1, *, min_samples: int = 1) -> Signal:
        """At every `hop`-th beat of the grid, the mean of squares of the samples at the last `size` beats."""
        return self._aggregate("power", size, hop, min_samples)

    def count(self, size: int, hop: int = 1, *, min_samples: int = 1) -> Signal:
        """At every `hop`-th beat of the grid, how many of the last `size` beats have a sample."""
        return self._aggregate("count", size, hop, min_samples)

    def _aggregate(self, operation: str, size: int, hop: int, least: int) -> Signal:
        what = f"{operation}()"
        if positive(least, "min_samples=") > length(size, what):
            raise SignalError(f"{what} of {size} samples never has min_samples={least} of them")
        return Signal(nodes.Aggregate(self.node, operation, int(size), positive(hop, what), int(least)))

    def window(self, size: int, hop: int | None = None, window: Any = None, *, missing: str = "invalid") -> Windows:
        """Arrays of `size` samples, `hop` apart (one behind the other, unless said), from the first sample of a group.

        `window` is a name that `scipy.signal.get_window` knows, such as `"hann"`, or `size` weights. A window with a
        missing sample does not exist, and windows restart behind it; with `missing="zero"` it is a zero.
        """
        from viewlet.signals.windows import Windows

        samples = length(size, "window()")
        step = samples if hop is None else positive(hop, "window()")
        checked_choice(missing, ("invalid", "zero"), "missing")
        return Windows(nodes.Window(self.node, samples, step, weights_of(window, samples), missing))

    def _step(self, what: str) -> float:
        form = uniform(self.form, what)
        assert form.grid is not None
        return float(form.grid.period / (form.source.ticks or 1))


def _signal(other: object, what: str) -> Signal:
    if not isinstance(other, Signal):
        raise SignalError(f"{what} takes a signal, not {described(other, 60)}")
    return other


def block_of(taps: int) -> int:
    """The samples in a block of a convolution by FFT: with the taps before them, a power of two."""
    size = 1
    while size < 4 * taps:
        size *= 2
    return size - taps + 1


def source(
    table: str = "",
    *,
    key: str | Sequence[str] = (),
    time: str,
    value: str | Sequence[str],
    end: str | None = None,
    is_complex: bool = False,
    is_timestamp: bool = True,
    ticks: int | None = None,
    overlap: str = "error",
    lateness: Duration = 0,
    late: str = "refuse",
    function: Function | Mapping[int, Function] | None = None,
    idle: Duration | None = None,
    payload: Function | None = None,
) -> Signal:
    """The signal of a table with these columns; `db.signal` takes the types of the columns from the table."""
    from viewlet.signals.ingest import OVERLAPS

    keys, values = column_names(key, "key"), column_names(value, "value")
    if not values:
        raise SignalError("value= names one column or more")
    if is_complex and len(values) != 2:
        raise SignalError(f"a complex value is two columns, the real and the imaginary part, not {described(values)}")
    checked_choice(overlap, OVERLAPS, "overlap")
    checked_choice(late, ("refuse", "count"), "late")
    wait = whole_ticks(lateness, ticks, "lateness")
    if wait < 0:
        raise SignalError(f"lateness is not negative: {lateness!r}")
    named = "" if function is None else names_of(function, "function=")
    silence = 0 if idle is None else whole_ticks(idle, ticks, "idle")
    if silence < 0 or (idle is not None and not silence):
        raise SignalError(f"idle is a positive duration, not {described(idle)}")
    arithmetic = "" if payload is None else name_of(payload, "payload=")
    if payload is not None and (is_complex or function is not None or overlap != "error"):
        raise SignalError("payload= is for columns of numbers, without is_complex=, function= and overlap=")
    policies = overlap, wait, late, named, silence, arithmetic
    return Signal(nodes.Source(table, keys, time, values, end, is_complex, is_timestamp, ticks, *policies))
