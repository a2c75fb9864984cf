"""Units that go to other places: what has to be sent when a snapshot writes their state where it will be.

location before ──► location after        who sends what
at the driver       partitions            the driver, rows by the partitions that their keys name
partitions          other partitions      every partition, the same
at every worker     anywhere              one partition, for all of them
anywhere            at the driver         those that have it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import UnsupportedError
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist
from viewlet.spark.run.units.plan_code import Departure, Place
from viewlet.spark.run.units.unit import ProgramUnit, Unit


@dataclass(frozen=True, slots=True)
class Relocation:
    """Units as they will be, by name, and how many partitions there will be."""

    units: Mapping[str, Unit]
    partitions: int


def check_movable(unit: Unit) -> None:
    """The state of a unit can be split: that of a trigger program is rows by their keys."""
    if not unit.is_movable:
        hint = "drop it, change the number of partitions, and declare it again"
        raise UnsupportedError(f"another number of partitions for view {unit.name!r}", hint, "engine")


def is_worth_moving(before: Unit, after: Unit, has_to_move: bool) -> bool:
    """The same stored views in other places, with which batches can be planned, and in fewer stages if it need not be.

    The state of anything but a trigger program stays where it is.
    """
    if not isinstance(before, ProgramUnit) or not isinstance(after, ProgramUnit) or before.stored != after.stored:
        return False
    if before.locations == after.locations or not after.distributed.is_planned:
        return False
    return has_to_move or after.distributed.is_shorter_than(before.distributed)


def only_gathers(before: Unit, after: Unit) -> bool:
    """No view has to be split that is in one place, or otherwise than it is: what partitions have is put together."""
    pairs = ((at, before.locations[name]) for name, at in after.locations.items())
    return all(there == here or not isinstance(there, Dist) for there, here in pairs)


def departures(before: Unit, after: Unit, at_driver: bool) -> tuple[Departure, ...]:
    """What the driver, or each partition, sends of the views of a unit."""
    check_movable(after)
    found: list[Departure] = []
    for view in after.stored:
        here, there = before.locations[view.name], after.locations[view.name]
        if (here == LOCAL) is at_driver:
            to: Place | tuple[int, ...] = Place.DRIVER if there == LOCAL else Place.EVERYWHERE
            if isinstance(there, Dist):
                to = tuple(map(view.keys.index, there.by))
            found.append(Departure(view.name, view.name, to, here == REPLICATED))
    return tuple(found)
