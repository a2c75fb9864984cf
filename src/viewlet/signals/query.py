"""The base class of queries: an expression, its form, and the way to run it over a finished table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.signals import nodes
from viewlet.signals.form import Form, form_of

if TYPE_CHECKING:
    from viewlet.signals.run import ArrayRun


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A query over signals, as an expression. It does nothing by itself: `db.create_view(name, query)` keeps it up to
    date, and `run` computes it over a finished table."""

    node: nodes.Signal

    def __post_init__(self) -> None:
        form_of(self.node)

    @property
    def form(self) -> Form:
        """Where its samples are, and what a value is."""
        return form_of(self.node)

    def __repr__(self) -> str:
        from viewlet.signals.printer import describe

        return f"<{type(self).__name__}: {' '.join(describe(self.node).split())}>"

    def run(self, history: Any, *, flush: bool = False, workers: int = 1) -> Any:
        """The query over a finished table: Arrow, pandas, Polars, a handle, or a mapping from tables to those.

        The answer is an Arrow table with the columns of a view. With `flush`, samples that would wait for more come
        too. Of a signal without a key, an array of samples may be given, and an array is the answer. Groups, and of one
        signal transforms of windows, are spread over so many `workers`, which are threads.
        """
        from viewlet.signals.coefficients import positive
        from viewlet.signals.run import run

        return run(self.node, history, flush, positive(workers, "workers="))

    def start(self) -> ArrayRun:
        """A run of a query without a key over arrays that come one by one: `start().push(x)` gives an array."""
        from viewlet.signals.run import ArrayRun

        return ArrayRun(self.node)
