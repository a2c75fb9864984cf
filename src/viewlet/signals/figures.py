"""Samples and spectrograms as labelled arrays (xarray), and drawn with matplotlib; responses of filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viewlet.errors import MissingExtraError
from viewlet.signals import nodes
from viewlet.signals.errors import SignalError
from viewlet.signals.form import Form, form_of
from viewlet.signals.nodes import Signal
from viewlet.signals.rows import value_columns
from viewlet.signals.stages import ArrayForm, array_form

Array = Any
BINS = "frequency"
BY_BIN = ("select", "user", "top_k", "magnitude", "power_spectrum", "product")
"""Array operators that leave every value at its frequency, where they leave the length."""


def frequencies(node: Signal) -> Array | None:
    """The frequencies of a spectrum in hertz, or in parts of the sampling rate where time counts no seconds."""
    form = form_of(node)
    if not isinstance(node, nodes.Window) or form.size is None or form.grid is None:
        return None
    seconds = float(form.grid.period / form.source.ticks) if form.source.ticks else 1.0
    given, found = ArrayForm(node.size, form_of(node.source).is_complex), None
    for stage in node.stages:
        made = array_form(stage, given)
        if stage.operation in ("rfft", "sliding_rfft"):
            found = np.fft.rfftfreq(given.size, seconds)
        elif stage.operation == "fft":
            found = np.fft.fftfreq(given.size, seconds)
        elif stage.operation not in BY_BIN or made.size != given.size:
            found = None
        given = made
    return found


def labelled(node: Signal, table: Any, name: str, key: Mapping[str, object]) -> Any:
    """The rows of a view as a DataArray: by group (unless one is chosen), time, component, and place in an array."""
    try:
        import xarray
    except ImportError as error:
        raise MissingExtraError("to_xarray() needs xarray: pip install xarray") from error
    form = form_of(node)
    groups, times, values = _stacked(form, chosen(form, table, key))
    dims, coords = [form.source.time], {form.source.time: times}
    if values.shape[2] > 1:
        dims.append("component")
        coords["component"] = list(form.names)
    else:
        values = values[:, :, 0]
    if form.size is not None:
        found = frequencies(node)
        dims.append("place" if found is None else BINS)
        coords[dims[-1]] = np.arange(form.size) if found is None else found
    if len(key) == len(form.source.key):
        return xarray.DataArray(values[0], coords, dims, name)
    label = form.source.key[0] if len(form.source.key) == 1 else "group"
    shown = [group[0] if len(group) == 1 else ", ".join(map(str, group)) for group in groups]
    return xarray.DataArray(values, {label: shown, **coords}, [label, *dims], name)


def chosen(form: Form, table: Any, key: Mapping[str, object]) -> Any:
    """The rows of the groups with some values in their key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, value in key.items():
        if name not in form.source.key:
            raise SignalError(f"{name!r} is not a key of the signal, which has {', '.join(form.source.key) or 'none'}")
        column = table.column(name)
        table = table.filter(pc.equal(column, pa.scalar(value, column.type)))
    return table


def _stacked(form: Form, table: Any) -> tuple[list[tuple[object, ...]], Array, Array]:
    """Groups, times, and the values of each group at each time: NaN where there is none."""
    rows = list(zip(*(table.column(name).to_pylist() for name in form.source.key), strict=True))
    rows = rows or [()] * table.num_rows
    groups = list(dict.fromkeys(rows)) or [()]
    times, place = np.unique(table.column(form.source.time).to_numpy(), return_inverse=True)
    number = {group: i for i, group in enumerate(groups)}
    at = np.array([number[row] for row in rows], np.int64)
    shape = (len(groups), len(times), form.width, *(() if form.size is None else (form.size,)))
    values = np.full(shape, np.nan, np.complex128 if form.is_complex else np.float64)
    parts: dict[int, Array] = {}
    for column in value_columns(form):
        held = table.column(column.name).combine_chunks()
        flat = held if form.size is None else held.flatten()
        numbers = flat.to_numpy(zero_copy_only=False).reshape(len(rows), *shape[3:])
        parts[column.component] = parts.get(column.component, 0) + (1j * numbers if column.part == "imag" else numbers)
    for component, numbers in parts.items():
        values[at, place, component] = numbers
    return groups, times, values


def response(node: Signal, points: int = 512) -> tuple[Array, Array]:
    """The frequency response of the filters of a query together: frequencies as `frequencies`, and complex gains."""
    from scipy import signal

    turns = np.linspace(0, np.pi, points, endpoint=False)
    gain, found = np.ones(points, complex), 0
    form = form_of(node)
    if form.grid is None:
        raise SignalError("a signal that is not sampled has no filters")
    step: Signal | None = node
    while step is not None and not isinstance(step, nodes.Sample | nodes.Source | nodes.Combine | nodes.AsOf):
        match step:
            case nodes.Sos(_, sections):
                gain = gain * signal.freqz_sos(np.array(sections), turns)[1]
                found += 1
            case nodes.Lfilter(_, b, a):
                gain = gain * signal.freqz(b, a, turns)[1]
                found += 1
            case nodes.Fir(_, taps):
                gain = gain * signal.freqz(taps, 1, turns)[1]
                found += 1
            case nodes.Downsample():
                raise SignalError("filters before and behind downsample() have no common response")
        step = step.source
    if not found:
        raise SignalError("the query has no filters: lfilter(), sosfilt(), fir() and correlate() have a response")
    rate = float(form.source.ticks / form.grid.period) if form.source.ticks else 1.0
    return turns / (2 * np.pi) * rate, gain


def draw(node: Signal, table: Any, kind: str, key: Mapping[str, object]) -> Any:
    """A figure: samples as lines, arrays of one group as a spectrogram, or the response of the filters."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot() needs matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    form = form_of(node)
    if kind == "response":
        found, gain = response(node)
        axes.plot(found, 20 * np.log10(np.maximum(np.abs(gain), 1e-15)))
        axes.set(xlabel="frequency", ylabel="gain (dB)")
        return figure
    groups, times, values = _stacked(form, chosen(form, table, key))
    if form.size is None:
        for group, numbers in zip(groups, values, strict=True):
            for component, name in enumerate(form.names):
                label = " ".join(map(str, (*group, *((name,) if form.width > 1 else ()))))
                axes.plot(
                    times, np.abs(numbers[:, component]) if form.is_complex else numbers[:, component], label=label
                )
        axes.set(xlabel=form.source.time, ylabel=", ".join(form.names))
        if groups != [()]:
            axes.legend()
        return figure
    if len(times):
        axes.pcolormesh(times, *spectrogram(node, values), shading="nearest")
    label = "place" if frequencies(node) is None else BINS
    axes.set(xlabel=form.source.time, ylabel=label, title=" ".join(map(str, groups[0])))
    return figure


def spectrogram(node: Signal, values: Array) -> tuple[Array, Array]:
    """The places or frequencies of the arrays of the first group in ascending order, and their magnitudes by time.

    Those of a two-sided spectrum come with the frequency 0 first, and the negative ones behind the positive.
    """
    size = values.shape[-1]
    found = frequencies(node)
    places = np.arange(size) if found is None else found
    order = np.argsort(places)
    return places[order], np.abs(values[0, :, 0]).T[order]
