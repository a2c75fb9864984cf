"""What subscribers are told of a committed batch or declaration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from viewlet.changes import Changes, rows_to_arrow, sorted_rows
from viewlet.engine.maintained_view import MaintainedView
from viewlet.view import Callback


@dataclass(frozen=True, slots=True)
class Announcement:
    """One subscriber's share; `call` hands it over."""

    view: str
    epoch: int
    token: object
    call: partial[object]


def announcements(view: MaintainedView, changes: Changes, epoch: int) -> list[Announcement]:
    """What the subscribers of a view are told: its rows, or a change in the form of its engine."""
    told: list[tuple[dict[object, Callback], object]] = []
    if changes and view.subscribers:
        told.append((view.subscribers, rows_to_arrow(view.columns, sorted_rows(changes), with_multiplicity=True)))
    if view.followers and (own := view.engine.own_change()) is not None:
        told.append((view.followers, own))
    return [
        Announcement(view.name, epoch, token, partial(callback, epoch, change))
        for callbacks, change in told
        for token, callback in callbacks.items()
    ]
