"""Signal queries over tables: the events of tables are signals, and the samples of one query are the view.

    SELECT * FROM signal_query('...', readings)

The text is the query (`signals/notation.py`). The view has the key columns, the time and the values of its samples.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignalInput:
    """Where the events of one source are: positions of the columns of a table, and the digits of decimal values."""

    table: str
    key: tuple[int, ...]
    time: int
    end: int | None
    values: tuple[int, ...]
    scales: tuple[int, ...]
    is_kept: bool = True
    """The table keeps its rows: those that are late or deleted can be made good."""

    @property
    def positions(self) -> tuple[int, ...]:
        """All columns that are read."""
        end = () if self.end is None else (self.end,)
        return tuple(dict.fromkeys((*self.key, self.time, *end, *self.values)))


@dataclass(frozen=True, slots=True)
class SignalQuery:
    """The definition of such a view, which is also its plan; `retain` is in ticks of the time column."""

    text: str
    inputs: tuple[SignalInput, ...]
    retain: int | None = None
    has_arrays: bool = False
    strategy = "signal"
