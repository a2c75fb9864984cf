"""The form of a signal: where its samples are, and what a value is.

Operators on arrays need equal steps, so those on signals that are not sampled are refused here, when they are declared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewlet.signals.errors import SignalError
from viewlet.signals.grid import Grid
from viewlet.signals.nodes import (
    Aggregate,
    AsOf,
    Combine,
    Downsample,
    Filter,
    Fir,
    Interpolation,
    Lfilter,
    Offset,
    Sample,
    Scale,
    Select,
    Shift,
    Signal,
    Sos,
    Source,
    Where,
    Whole,
    Window,
)
from viewlet.signals.notation import resolve
from viewlet.signals.payloads import Arithmetic
from viewlet.signals.stages import MAGNITUDES, ArrayForm, array_form, check_finish, check_sliding
from viewlet.visible import described


@dataclass(frozen=True, slots=True)
class Form:
    """What the rows of a signal look like."""

    source: Source
    """The (first) source: its key and time columns are those of the signal."""
    grid: Grid | None
    """None if the signal is non-uniform."""
    names: tuple[str, ...]
    """The components of a value."""
    is_complex: bool = False
    size: int | None = None
    """The length of the array that each component is, if it is one."""
    has_end: bool = False
    interpolation: Interpolation | None = None
    is_functional: bool = False
    """Values are functions of time, to be sampled."""
    payload: str = ""
    """The name of the arithmetic of values, if they have one of their own."""

    @property
    def width(self) -> int:
        return len(self.names)


def form_of(node: Signal) -> Form:
    """The form of an expression, once it is checked."""
    match node:
        case Source():
            names = node.values[:1] if node.is_complex else node.values
            if node.function:
                return Form(node, None, ("value",), has_end=node.end is not None, is_functional=True)
            found = Form(node, None, names, node.is_complex, has_end=node.end is not None, payload=node.payload)
            if node.payload:
                arithmetic_of(found)
            return found
        case Sample(source, grid, interpolation):
            found = array_free(form_of(source), "sample()")
            if found.grid is not None:
                grid.ratio(found.grid)
            if found.payload and interpolation is not None and interpolation.kind == "quadratic":
                raise SignalError("values with an arithmetic of their own have no 'quadratic' interpolation")
            return replace(found, grid=grid, interpolation=interpolation, has_end=False, is_functional=False)
        case Shift(source, ticks):
            found = form_of(source)
            return found if found.grid is None else replace(found, grid=found.grid.shifted(ticks)[0])
        case Scale(source, number) | Offset(source, number):
            found = form_of(source)
            if isinstance(node, Offset) or isinstance(number, complex):
                plain(found, "a number that is added, or a complex factor,")
            return replace(found, is_complex=found.is_complex or isinstance(number, complex))
        case Select(source, _, width, is_complex):
            found = materialised(form_of(source), "select()")
            found = found if is_complex is None else replace(found, is_complex=is_complex)
            if width is None or width == found.width:
                return found
            names = (found.names[0],) if width == 1 else tuple(f"{found.names[0]}_{i}" for i in range(width))
            return replace(found, names=names, payload="")
        case Where(source):
            return materialised(form_of(source), "where()")
        case Downsample(source, factor):
            found = uniform(form_of(source), "downsample()")
            assert found.grid is not None
            return replace(found, grid=Grid(found.grid.period * factor, found.grid.offset))
        case Fir(source, taps):
            found = uniform(form_of(source), "a filter")
            if any(isinstance(each, complex) for each in taps):
                plain(found, "a filter with complex taps")
            return replace(found, is_complex=found.is_complex or any(isinstance(each, complex) for each in taps))
        case Whole(source, "resample_poly", (int(up), int(down))):
            found = plain(uniform(form_of(source), "resample_poly()"), "resample_poly()")
            assert found.grid is not None
            return replace(found, grid=Grid(found.grid.period * down / up, found.grid.offset))
        case Window():
            return _windowed(node, plain(uniform(form_of(node.source), "window()"), "window()"))
        case AsOf(left, right):
            return _as_of(
                uniform(form_of(left), "as_of()"), materialised(array_free(form_of(right), "as_of()"), "as_of()")
            )
        case Combine(left, right, operation):
            return _combined(form_of(left), form_of(right), operation)
        case Whole(source, operation):
            return plain(uniform(form_of(source), f"{operation}()"), f"{operation}()")
        case Aggregate(source, "count"):
            return replace(uniform(form_of(source), "count()"), is_complex=False, payload="")
        case Aggregate(source, operation) if operation in MAGNITUDES:
            return replace(uniform(form_of(source), f"{operation}()"), is_complex=False)
        case Lfilter(source, _, _, start) | Sos(source, _, start) if start != "zero":
            return plain(uniform(form_of(source), f"start={start!r}"), f"start={start!r}")
        case Filter(source):
            return plain(uniform(form_of(source), "filter()"), "filter()")
        case _ if not hasattr(node, "source"):
            raise SignalError(f"signals are made by db.signal() and viewlet.signals.source(), not of {described(node)}")
        case _:
            return uniform(form_of(node.source), _METHODS.get(type(node), type(node).__name__.lower()) + "()")


_METHODS: dict[type, str] = {Sos: "sosfilt"}
"""The methods that make nodes of another name."""


def uniform(form: Form, what: str) -> Form:
    """The form, if it is uniform."""
    if form.grid is None:
        raise SignalError(f"{what} needs equal steps: sample() the signal first, as in sample('100ms', 'linear')")
    return array_free(form, what)


def array_free(form: Form, what: str) -> Form:
    """The form, if a value is no array."""
    if form.size is not None:
        raise SignalError(f"{what} is for samples, and these are arrays: end the window with overlap_add() or last()")
    return form


def materialised(form: Form, what: str) -> Form:
    """The form, if its values are numbers."""
    if form.is_functional:
        raise SignalError(f"{what} is for numbers, and these values are functions of time: sample() the signal first")
    return form


def plain(form: Form, what: str) -> Form:
    """The form, if values have the arithmetic of numbers."""
    if form.payload:
        raise SignalError(f"{what} is for numbers, and these values have an arithmetic of their own ({form.payload})")
    return form


def arithmetic_of(form: Form) -> Arithmetic:
    """The arithmetic of values with one of their own."""
    return Arithmetic(resolve(form.payload)(), form.width)


def _joined(left: Form, right: Form) -> Form:
    """The values of both side by side."""
    taken = tuple(f"{name}_2" if name in left.names else name for name in right.names)
    return replace(left, names=(*left.names, *taken), is_complex=left.is_complex or right.is_complex, payload="")


def _as_of(left: Form, right: Form) -> Form:
    _same_keys(left, right)
    assert left.grid is not None
    if right.grid is not None:
        left.grid.ratio(right.grid)
    return _joined(left, right)


def _combined(left: Form, right: Form, operation: str) -> Form:
    _same_keys(left, right)
    if left.grid != right.grid:
        raise SignalError(f"the signals have samples {left.grid} and {right.grid}: resample one of them")
    if operation == "join":
        return _joined(left, right)
    if left.payload != right.payload:
        raise SignalError("values with an arithmetic of their own are combined with values of the same kind")
    if left.payload and operation == "/":
        raise SignalError("values with an arithmetic of their own are not divided")
    if left.width != right.width and 1 not in (left.width, right.width):
        raise SignalError(f"values of {left.width} and of {right.width} components cannot be combined")
    for each in (left, right):
        array_free(each, "arithmetic")
    wider = left if left.width >= right.width else right
    return replace(
        left,
        names=wider.names,
        is_complex=left.is_complex or right.is_complex,
        is_functional=left.is_functional or right.is_functional,
        has_end=left.grid is None,
    )


def _windowed(node: Window, form: Form) -> Form:
    array = ArrayForm(node.size, form.is_complex)
    for stage in node.stages:
        array = array_form(stage, array)
    check_sliding(node)
    is_sample = node.finish is not None
    if node.finish is not None:
        check_finish(node.finish, array, node)
    is_real = node.finish is not None and node.finish.operation in MAGNITUDES
    return replace(form, is_complex=array.is_complex and not is_real, size=None if is_sample else array.size)


def _same_keys(left: Form, right: Form) -> None:
    first, second = left.source, right.source
    if len(first.key) != len(second.key):
        raise SignalError(f"signals by {first.key} and by {second.key} have no groups in common")
    if first != second and (first.idle or second.idle):
        raise SignalError("idle= is for queries over one signal: groups of two would restart at different times")
    if first.is_timestamp != second.is_timestamp or first.ticks != second.ticks:
        raise SignalError("the time columns of the two signals count in different units")
