"""The array operators of a window's pipeline (section 7.4.6): each takes windows along the last axis of an array.

An operator says which arrays it makes of which (`array_form`), and computes them (`array_function`). Windows are
computed independently of each other, so that it does not matter how many come together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.signals.errors import SignalError
from viewlet.signals.filters import WindowOperator
from viewlet.signals.nodes import Stage
from viewlet.signals.notation import resolve
from viewlet.signals.user_code import calling, numbers_of
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.signals.nodes import Window

Array = Any


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """The arrays between two operators: their length, and whether they are complex."""

    size: int
    is_complex: bool


AGGREGATES: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: _in_order(x),
    "mean": lambda x: _in_order(x) / x.shape[-1],
    "energy": lambda x: _in_order(squares(x)),
    "power": lambda x: _in_order(squares(x)) / x.shape[-1],
    "min": lambda x: x.min(axis=-1),
    "max": lambda x: x.max(axis=-1),
    "last": lambda x: x[..., -1],
}
"""What makes a sample of a window."""
MAGNITUDES = frozenset(("energy", "power"))
"""Those that are real, of complex numbers too."""


def array_form(stage: Stage, given: ArrayForm) -> ArrayForm:
    """What an operator makes of arrays of some form."""
    size = given.size
    match stage.operation, stage.arguments:
        case "rfft", _:
            if given.is_complex:
                raise SignalError("rfft() is for real values; fft() takes complex ones")
            return ArrayForm(size // 2 + 1, True)
        case "sliding_rfft", _:
            if given.is_complex:
                raise SignalError("sliding_rfft() is for real values")
            return ArrayForm(size // 2 + 1, True)
        case "irfft", (int(length),):
            if length // 2 + 1 != size:
                raise SignalError(f"irfft() to {length} values needs {length // 2 + 1} of them, not {size}")
            return ArrayForm(length, False)
        case "fft" | "ifft", _:
            return ArrayForm(size, True)
        case "select", (str(), length, is_complex):
            chosen = given.is_complex if is_complex is None else bool(is_complex)
            return ArrayForm(size if length is None else int(length), chosen)  # type: ignore[arg-type]
        case "top_k", (int(count),):
            if count > size:
                raise SignalError(f"top_k({count}) of {size} values")
            return given
        case (("magnitude" | "power_spectrum"), _):
            return ArrayForm(size, False)
        case "detrend", _:
            return given
        case "product", (tuple(values),):
            if len(values) != size:
                raise SignalError(f"product() of {size} values with {len(values)}")
            return replace(given, is_complex=given.is_complex or any(isinstance(each, complex) for each in values))
        case "autocorrelate" | "cross_correlate", _:
            return replace(given, size=2 * size - 1)
        case "correlate", (tuple(values),):
            is_complex = given.is_complex or any(isinstance(each, complex) for each in values)
            return ArrayForm(size + len(values) - 1, is_complex)
        case "user", (str(name),):
            return user_operator(name, given)[1]
        case _:
            raise SignalError(f"there is no array operator {stage.operation!r}")


FRESH = ("rfft", "sliding_rfft", "irfft", "fft", "ifft", "product", "magnitude", "power_spectrum")
"""Operators whose output arrays are not shared: the next operator may compute in place."""


def array_function(stage: Stage, given: ArrayForm, *, in_place: bool = False) -> Callable[[Array], Array]:
    """What computes an operator, for windows along the last axis."""
    import scipy.fft

    match stage.operation, stage.arguments:
        case "rfft" | "sliding_rfft", _:
            return lambda x: scipy.fft.rfft(x)
        case "irfft", (int(length),):
            return lambda x: scipy.fft.irfft(x, length, overwrite_x=in_place)
        case "fft", _:
            return lambda x: scipy.fft.fft(x, overwrite_x=in_place)
        case "ifft", _:
            return lambda x: scipy.fft.ifft(x, overwrite_x=in_place)
        case "select", (str(name), *_):
            return _selected(name, array_form(stage, given))
        case "top_k", (int(count),):
            return lambda x: _top(x, count)
        case "magnitude", _:
            return lambda x: np.sqrt(squares(x))
        case "power_spectrum", _:
            return squares
        case "detrend", (str(kind),):
            from scipy.signal import detrend

            if kind == "constant":
                return lambda x: x - (_in_order(x) / x.shape[-1])[..., None]
            return lambda x: _each(detrend, x)
        case "product", (tuple(values),):
            factors = np.array(values)
            return lambda x: x * factors
        case "autocorrelate", _:
            return _each_correlated
        case "cross_correlate", _:
            return _cross_correlated
        case "correlate", (tuple(values),):
            fixed = np.array(values)
            return lambda x: _each(lambda row: np.correlate(row, fixed, "full"), x)
        case "user", (str(name),):
            return _recomputed(name, given)
        case _:
            raise SignalError(f"there is no array operator {stage.operation!r}")


def is_updated(window: Window) -> bool:
    """The first operator of the pipeline is updated from one window to the next."""
    if not window.stages or window.window or window.hop > window.size:
        return False
    match window.stages[0].operation, window.stages[0].arguments:
        case "sliding_rfft", _:
            return True
        case "user", (str(name),):
            return getattr(resolve(name), "update", WindowOperator.update) is not WindowOperator.update
    return False


def updater(stage: Stage, given: ArrayForm) -> Callable[[Array, Array, Array, Array], Array] | None:
    """What updates the output of an operator of the user's; None if a kernel does."""
    match stage.operation, stage.arguments:
        case "user", (str(name),):
            made, form = user_operator(name, given)

            def update(output: Array, old: Array, new: Array, window: Array) -> Array:
                with calling(f"apply({name})"):
                    found = made.update(output, old, new, window)
                return user_array(name, found, form)

            return update
    return None


def check_sliding(window: Window) -> None:
    """Where windows can be transformed by what changes between them."""
    if not any(stage.operation == "sliding_rfft" for stage in window.stages):
        return
    if [stage.operation for stage in window.stages].index("sliding_rfft") or window.window:
        raise SignalError("sliding_rfft() is of the samples themselves: it comes first, without window=")
    if window.hop > window.size:
        raise SignalError(f"sliding_rfft() is of windows that overlap, not {window.size} at every {window.hop}")


def check_finish(finish: Stage, array: ArrayForm, window: Window) -> None:
    """The pipeline can end this way."""
    if finish.operation == "overlap_add":
        if finish.arguments == ("dual",) and array.size != window.size:
            raise SignalError(
                f"overlap_add(norm='dual') adds windows of {window.size} samples, and the pipeline ends with "
                f"{array.size}: norm=None adds arrays of any length"
            )
    elif finish.operation not in AGGREGATES:
        raise SignalError(f"there is no aggregate {finish.operation!r} of windows")
    elif finish.operation in ("min", "max") and array.is_complex:
        raise SignalError(f"{finish.operation}() is of real values")


def squares(x: Array) -> Array:
    """The squares of magnitudes."""
    return x.real * x.real + x.imag * x.imag if np.iscomplexobj(x) else x * x


def _in_order(x: Array) -> Array:
    """Sums along the last axis whose order depends on the length only: a running sum, taken at its end."""
    return np.add.accumulate(x, axis=-1)[..., -1]


def _top(x: Array, count: int) -> Array:
    """The values with the largest magnitudes, zeros for the others; of equal ones, the first."""
    order = np.argsort(-squares(x), axis=-1, kind="stable")
    kept = np.zeros(x.shape, np.bool_)
    np.put_along_axis(kept, order[..., :count], True, axis=-1)
    return np.where(kept, x, 0)


def _selected(name: str, form: ArrayForm) -> Callable[[Array], Array]:
    function, what = resolve(name), f"select({name})"

    def run(x: Array) -> Array:
        with calling(what):
            found = function(x)
        found = numbers_of(found, form.is_complex, what, "say is_complex=True")
        if found.shape != (*x.shape[:-1], form.size):
            raise SignalError(
                f"{what} gave an array of shape {found.shape} for windows {x.shape}: it has to give "
                f"{form.size} values for each, along the last axis, or say size="
            )
        return found

    return run


def user_operator(name: str, given: ArrayForm) -> tuple[WindowOperator, ArrayForm]:
    """An array operator of the user's, and what it makes of arrays of some form."""
    with calling(f"apply({name})"):
        made: WindowOperator = resolve(name)()
        size = made.output_size(given.size)
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise SignalError(
            f"apply({name}): output_size({given.size}) is a whole number of at least 1, not {described(size)}"
        )
    is_complex = getattr(made, "is_complex", None)
    return made, ArrayForm(int(size), given.is_complex if is_complex is None else bool(is_complex))


def user_array(name: str, found: object, form: ArrayForm) -> Array:
    """The output of an array operator of the user's for one window."""
    array = numbers_of(found, form.is_complex, f"apply({name})", "set is_complex = True in the class")
    if array.shape != (form.size,):
        raise SignalError(
            f"apply({name}) gave an array of shape {array.shape} for a window, and output_size says {form.size} values"
        )
    return array


def _recomputed(name: str, given: ArrayForm) -> Callable[[Array], Array]:
    made, form = user_operator(name, given)

    def run(window: Array) -> Array:
        with calling(f"apply({name})"):
            found = made.recompute(window)
        return user_array(name, found, form)

    return lambda x: _each(run, x)


def _each(function: Callable[[Array], Array], x: Array) -> Array:
    """A function of one window, for all of them."""
    flat = x.reshape(-1, x.shape[-1])
    found = [np.asarray(function(row)) for row in flat]
    return np.stack(found).reshape(*x.shape[:-1], -1)


def _each_correlated(x: Array) -> Array:
    return _each(lambda row: np.correlate(row, row, "full"), x)


def _cross_correlated(x: Array) -> Array:
    """Of windows with components along the second axis: the correlation of each component with the first."""
    found = [[np.correlate(component, window[0], "full") for component in window] for window in x]
    return np.array(found).reshape(*x.shape[:-1], 2 * x.shape[-1] - 1)
