"""What units send of changes alone, computed once for all units that send the same.

    v1    change_of_items[k].sum := Sum[k](Δitems(k, x) * x), by k      computed, split by partition and encoded
    v2    the same statement, by the same keys                          the same contents under the names of v2

Contents that are the same object are also sent to a partition once, and written to the log once
(`exchange/stage_record.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Rel, View
from viewlet.algebra.traverse import walk
from viewlet.spark.run.exchange.stage_record import Piece, Sent
from viewlet.spark.run.units.plan_code import Departure
from viewlet.triggers.program import Statement


@dataclass(frozen=True, slots=True)
class Input:
    """A temporary that one statement computes from changes, and that nothing reads where it is computed."""

    statement: Statement
    departure: Departure

    def key(self, kernel: type[object]) -> Hashable:
        """Inputs with the same key have the same contents, if they are computed from the same changes."""
        statement, to = self.statement, self.departure.to
        return kernel, statement.args, statement.updates, to


def inputs_of(
    statements: Sequence[Statement], departures: Iterable[Departure], elsewhere: Iterable[Statement] = ()
) -> dict[Departure, Input]:
    """The departures of a block that are inputs; `elsewhere` are statements of other blocks in the same place."""
    read = {name for each in (*statements, *elsewhere) for name in _views_read(each)}
    writers: dict[str, list[Statement]] = {}
    for statement in statements:
        writers.setdefault(statement.view, []).append(statement)
    found: dict[Departure, Input] = {}
    for departure in departures:
        several = writers.get(departure.source, [])
        if len(several) == 1 and departure.source not in read and _is_pure(several[0]):
            found[departure] = Input(several[0], departure)
    return found


def _views_read(statement: Statement) -> set[str]:
    return {node.name for update in statement.updates for node in walk(update.expr) if isinstance(node, View)}


def _is_pure(statement: Statement) -> bool:
    """It reads nothing but changes, and replaces what the temporary had."""
    nodes = (node for update in statement.updates for node in walk(update.expr))
    return statement.replaces and not any(isinstance(node, View | Rel) for node in nodes)


@dataclass(slots=True)
class SharedInputs:
    """The contents of inputs by their keys, for one set of changes."""

    _sent: dict[Hashable, list[tuple[int, Sent]]] = field(default_factory=dict)

    def has_all(self, keys: Iterable[Hashable]) -> bool:
        return all(key in self._sent for key in keys)

    def pieces(self, unit: str, target: str, key: Hashable, compute: Callable[[], Iterable[Piece]]) -> Iterator[Piece]:
        """What a unit sends: what another one has sent already, or what is computed now."""
        if key not in self._sent:
            self._sent[key] = [(partition, contents) for _, _, partition, contents in compute()]
        for partition, contents in self._sent[key]:
            yield unit, target, partition, contents
