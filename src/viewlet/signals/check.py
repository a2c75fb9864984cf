"""Checks of signal queries that were read from text: what the methods of `Signal` check when they build one.

The text may come from a directory of somebody else. It can name only functions that the program has named itself
(`notation.register_functions`), and only numbers and words that operators know.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from viewlet.signals import coefficients, nodes
from viewlet.signals.coefficients import checked_choice, complex_or_real, positive
from viewlet.signals.errors import SignalError
from viewlet.signals.grid import bounded
from viewlet.signals.notation import accept, check_function
from viewlet.visible import described

_STARTS = ("zero", "steady", "full")
_MISSING = ("zero", "reset")


def check_query(node: nodes.Signal) -> None:
    """Refuses a query that no method would have made."""
    if not isinstance(node, nodes.Signal):
        raise SignalError(f"a signal query is expected, not {node!r:.60}")
    for part in _parts(node):
        for name, hint in _hints(part.__class__).items():
            value = getattr(part, name)
            if not _fits(value, hint):
                raise SignalError(f"{name} of {type(part).__name__} is {value!r:.60}")
        _CHECKS.get(type(part), lambda _: None)(part)
        for name in _functions(part):
            check_function(name)


def accept_functions(node: nodes.Signal) -> None:
    """Lets this process call the functions of a query that has been checked, here or by the driver that sent it."""
    for part in _parts(node):
        accept(_functions(part))


def _parts(node: Any) -> Iterator[Any]:
    """A node, and all that it is made of."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending.extend(part)
        elif is_dataclass(part):
            yield part
            pending.extend(getattr(part, each.name) for each in fields(part))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, vars(nodes))


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type; a whole number is a float too."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(hint)[0]) for each in value)
    if hint in (int, Fraction, float, complex):
        wider = {int: int, Fraction: int | Fraction, float: int | float, complex: int | float | complex}
        return isinstance(value, wider[hint]) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else value is None if hint is None else True


def _functions(part: Any) -> tuple[str, ...]:
    """The names of users' functions in a node."""
    match part:
        case nodes.Source(function=names, payload=payload):
            return (*(each.rpartition("=")[2] for each in names.split(",") if each), *([payload] if payload else ()))
        case nodes.Interpolation(name=name) if name:
            return (name,)
        case nodes.Select(function=name) | nodes.Where(function=name) | nodes.Filter(name=name):
            return (name,)
        case nodes.Stage("select" | "user", (str(name), *_)):
            return (name,)
        case _:
            return ()


# -- one operator at a time -------------------------------------------------------------------------------------------


def _check_source(node: nodes.Source) -> None:
    from viewlet.signals.ingest import OVERLAPS

    checked_choice(node.overlap, OVERLAPS, "overlap")
    checked_choice(node.late, ("refuse", "count"), "late")
    if not node.values or (node.is_complex and len(node.values) != 2) or node.lateness < 0 or node.idle < 0:
        raise SignalError(f"a signal has values, and waits for at least 0 ticks: {node!r:.100}")
    bounded(Fraction(node.lateness), "lateness")
    bounded(Fraction(node.idle), "idle")
    if node.ticks is not None:
        positive(node.ticks, "a unit")


def _check_interpolation(node: nodes.Interpolation) -> None:
    from viewlet.signals.interpolation import KINDS

    checked_choice(node.kind, ("user",) if node.name else KINDS, "interpolate")
    coefficients.real(node.value, "fill=")
    coefficients.gap_of(bounded(node.max_gap, "max_gap"))


def _check_linear(node: nodes.Lfilter) -> None:
    coefficients.taps_of(node.b, "b")
    coefficients.taps_of(node.a, "a")
    if not node.a[0]:
        raise SignalError("lfilter() takes real coefficients, with a[0] not 0")
    checked_choice(node.start, _STARTS, "start")
    checked_choice(node.missing, _MISSING, "missing")


def _check_sections(node: nodes.Sos) -> None:
    coefficients.sections_of(node.sections)
    checked_choice(node.start, _STARTS[:2], "start")
    checked_choice(node.missing, _MISSING, "missing")


def _check_taps(node: nodes.Fir) -> None:
    from viewlet.signals.api import block_of

    coefficients.taps_of(node.taps, "taps")
    checked_choice(node.start, ("zero", "full"), "start")
    checked_choice(node.missing, _MISSING, "missing")
    if node.block not in (0, block_of(len(node.taps))):
        raise SignalError(f"a block of {node.block} samples is not of {len(node.taps)} taps")


def _check_mean(node: nodes.Ewm) -> None:
    if not 0 < node.alpha <= 1:
        raise SignalError(f"ewm(): alpha is in (0, 1], not {described(node.alpha)}")


def _check_difference(node: nodes.Difference) -> None:
    coefficients.length(node.lag, "difference()")
    if not node.step or not complex_or_real(node.step, "derivative()"):
        raise SignalError("derivative(): the period is 0")


def _check_aggregate(node: nodes.Aggregate) -> None:
    from viewlet.signals.operators.windows import SUMS

    checked_choice(node.operation, tuple(SUMS), "an aggregate")
    positive(node.hop, f"{node.operation}()")
    if positive(node.least, "min_samples=") > coefficients.length(node.size, f"{node.operation}()"):
        raise SignalError(f"{node.operation}() of {node.size} samples never has min_samples={node.least} of them")


def _check_window(node: nodes.Window) -> None:
    coefficients.length(node.size, "window()")
    positive(node.hop, "window()")
    checked_choice(node.missing, ("invalid", "zero"), "missing")
    if node.window:
        coefficients.weights_of(node.window, node.size)


def _check_combination(node: nodes.Combine) -> None:
    from viewlet.signals.operators.join import OPERATIONS

    checked_choice(node.operation, tuple(OPERATIONS), "an operation")


_CHECKS: dict[type, Callable[[Any], object]] = {
    nodes.Source: _check_source,
    nodes.Interpolation: _check_interpolation,
    nodes.Scale: lambda node: complex_or_real(node.factor, "scale"),
    nodes.Offset: lambda node: complex_or_real(node.constant, "offset"),
    nodes.Shift: lambda node: bounded(node.ticks, "shift()"),
    nodes.Downsample: lambda node: positive(node.factor, "downsample()"),
    nodes.Select: lambda node: node.width is None or positive(node.width, "select()"),
    nodes.Lfilter: _check_linear,
    nodes.Sos: _check_sections,
    nodes.Fir: _check_taps,
    nodes.Ewm: _check_mean,
    nodes.Integral: lambda node: complex_or_real(node.step, "integral()"),
    nodes.Difference: _check_difference,
    nodes.Aggregate: _check_aggregate,
    nodes.Window: _check_window,
    nodes.Combine: _check_combination,
    nodes.AsOf: lambda node: coefficients.gap_of(bounded(node.max_gap, "max_gap")),
}
