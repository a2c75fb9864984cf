"""The handle of signal views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewlet.errors import SchemaError
from viewlet.view import View
from viewlet.visible import described


@dataclass(frozen=True, slots=True, repr=False)
class SignalView(View):
    """A handle to a view of a signal query: its samples or arrays by group and time."""

    def to_xarray(self, **key: object) -> Any:
        """The view as an `xarray.DataArray` by group and time, and for arrays by frequency or place.

        `view.to_xarray(sensor="a")` has the group with this key only. Where a group has no sample there is NaN.
        """
        from viewlet.signals.figures import labelled

        return labelled(self._query(), self.to_arrow(), self.name, key)

    def plot(self, kind: str = "samples", **key: object) -> Any:
        """A matplotlib figure: samples as lines, arrays of one group as a spectrogram.

        With `kind="response"`, the frequency response of the filters of the query.
        """
        from viewlet.signals.figures import draw

        if kind not in ("samples", "response"):
            raise SchemaError(f"plot() draws 'samples' or 'response', not {described(kind)}")
        return draw(self._query(), self.to_arrow(), kind, key)

    def _query(self) -> Any:
        from viewlet.signals.notation import from_text

        text: str = self._provider.read(self.name, SignalView, lambda engine: engine.plan.text)
        return from_text(text)
