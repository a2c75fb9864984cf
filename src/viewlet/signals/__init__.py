"""Signals over event tables: sampling, filters and spectra, the same over arriving batches and over finished tables.

    temp = db.signal("readings", key="sensor", time="t", value="temp")
    smooth = temp.sample("100ms", "linear", max_gap="1s").sosfilt(sos)
    db.create_view("smooth", smooth)          # kept fresh as readings arrive
    smooth.run(history)                       # the same query over a finished table

A query is an expression (`nodes.py`, text in `notation.py`) built by the methods of `Signal` (`api.py`). `form.py`
checks it: a signal is non-uniform, with events at any time, or uniform, with samples at the beats of a grid
(`grid.py`). `program.py` makes operators of it (`operators/`), which are stateful kernels over the columns of a batch
of all groups. After TrillDSP (the thesis, chapter 7).
"""

from __future__ import annotations

from viewlet.errors import MissingExtraError

try:
    import scipy as _scipy  # noqa: F401 - only to say how to get it
except ImportError as error:
    raise MissingExtraError("viewlet.signals needs SciPy: pip install 'viewlet[signals]'") from error

from viewlet.signals.api import Signal, source
from viewlet.signals.errors import SignalError
from viewlet.signals.filters import DigitalFilter, WindowOperator
from viewlet.signals.grid import Grid
from viewlet.signals.interpolation import Interpolator
from viewlet.signals.notation import register_functions
from viewlet.signals.payloads import Payload
from viewlet.signals.query import Query
from viewlet.signals.windows import Windows

__all__ = [
    "DigitalFilter",
    "Grid",
    "Interpolator",
    "Payload",
    "Query",
    "Signal",
    "SignalError",
    "WindowOperator",
    "Windows",
    "register_functions",
    "source",
]
