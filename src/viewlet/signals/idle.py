"""Groups that have been idle: an event that comes long after the last one of its group is of a new group.

That depends on the times of events only, not on when the state of an idle group is given up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from viewlet.signals.batches import Array, Events, runs
from viewlet.signals.groups import Groups
from viewlet.signals.state import NEVER


def restart_idle(events: Events, ends: Array, idle: int, groups: Groups) -> tuple[Events, Groups, Array]:
    """Sorted events, those behind more than `idle` ticks of silence with slots of their own; the groups with those; and
    the slots that they had before.

    `ends` has where the last event of each slot ended, or NEVER.
    """
    if not len(events):
        return events, groups, events.slot
    first, slots = runs(events.slot)
    stops = events.start + 1 if events.end is None else events.end
    before = np.concatenate((stops[:1], stops[:-1]))
    before[first[:-1]] = np.where(ends[slots] == NEVER, events.start[first[:-1]] + 1, ends[slots])
    is_new = events.start - (before - 1) > idle
    if not is_new.any():
        return events, groups, events.slot[:0]
    number = np.cumsum(is_new)
    latest = np.concatenate(([0], np.flatnonzero(is_new)))[number]
    """The row at which the present life of each row's group began, if it began in this batch."""
    began = is_new[latest] & (events.slot[latest] == events.slot)
    slot = np.where(began, groups.count + number - 1, events.slot)
    order = np.argsort(slot, kind="stable")
    return replace(events, slot=slot).take(order), groups.renewed(events.slot[is_new]), events.slot[is_new]
