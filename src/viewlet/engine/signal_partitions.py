"""Signal views on Spark: groups go to partitions by their keys, and every partition has an engine of its own.

A partition has no tables to read. Its engine keeps the events of tables that keep their rows, as columns, so that late
and deleted ones can be made good; of streams it keeps the state of the operators only.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.algebra.signal_query import SignalQuery
from viewlet.engine.signal_engine import SignalEngine
from viewlet.errors import UnsupportedError


class PartitionEngine(SignalEngine):
    """The engine of one partition."""

    keeps_events = True


def keys_of(plan: SignalQuery) -> Mapping[str, tuple[int, ...]]:
    """The columns of each table that say to which partition a row goes."""
    found: dict[str, tuple[int, ...]] = {}
    for each in plan.inputs:
        if found.setdefault(each.table, each.key) != each.key:
            hint = "let one of the signals read a view of the table"
            raise UnsupportedError(f"two signals of {each.table!r} by different keys on Spark", hint, "engine")
    return found
