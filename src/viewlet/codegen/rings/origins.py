"""The origins of a compiled tree: a store of one row, which is saved, shared and rolled back like the others.

    origin, reach    of each variable: values x with |x - origin| <= reach are summed as x - origin

All payloads of the tree have their sums about the origins that the row has. A value that they do not serve stops the
change before it is added to anything: origins move, and payloads with them, and the change is worked out again. That
is also how origins are chosen, because a row of zeros serves zeros only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.codegen.rings.columns import Column
from viewlet.codegen.rings.forms import Form
from viewlet.codegen.rings.plan import Variant
from viewlet.errors import DataError
from viewlet.rings.moves import normal
from viewlet.rings.origins import next_origin, shared_origin
from viewlet.runtime.flat import FlatStore, Layout
from viewlet.runtime.probe import SIZE
from viewlet.types import Row, SqlType

STORE = "@origins"
ORIGIN, REACH = range(2)
WORDS = 2
ROWS_AT_ONCE = 1 << 14
Nodes = Mapping[str, Mapping[Row, Any]]
FARTHEST = 2.0**62
"""The difference of an integer and an origin of its sign up to this is one of 64 bits."""


@dataclass(frozen=True)
class OriginRow:
    """Where the row has what of which variable; origins of integers are words, all other numbers doubles."""

    types: Mapping[str, SqlType]
    """Of the variables that have origins."""
    most: Mapping[str, float]
    """The largest values that they may have."""
    places: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {name: WORDS * i for i, name in enumerate(self.types)})

    @property
    def layout(self) -> Layout:
        width = WORDS * len(self.types)
        return Layout(STORE, 0, tuple(f"w{i}" for i in range(width)), ("count",) * width, doubles=True)

    def origin(self, prefix: str, name: str) -> str:
        """The origin of a variable as generated code names it: a number of the type that its words have."""
        array = "floats" if self.types[name].is_float else "pool"
        return f"{prefix}_{array}[0, {self.places[name] + ORIGIN}]"

    def reach(self, prefix: str, name: str) -> str:
        """How far from its origin values of a variable may be, as a double."""
        return f"{prefix}_floats[0, {self.places[name] + REACH}]"

    def read(self, words: Any, names: Iterable[str]) -> dict[str, float]:
        """The origins of variables in the words of the row, of those that have had values."""
        doubles, found = words.view(np.float64), {}
        for name in names:
            at = self.places[name]
            if words[at + REACH]:
                found[name] = float((doubles if self.types[name].is_float else words)[at + ORIGIN])
        return found

    def write(self, words: Any, origins: Mapping[str, float]) -> None:
        """Puts origins into the words of the row."""
        for name, origin in origins.items():
            at, doubles = self.places[name], words.view(np.float64)
            if self.types[name].is_float:
                doubles[at + ORIGIN] = origin
            else:
                words[at + ORIGIN] = int(origin)
            most = self.most[name]
            doubles[at + REACH] = min(abs(origin) / 2, most - abs(origin)) if origin else most

    def after(self, known: Mapping[str, float], names: Sequence[str], columns: Sequence[Column]) -> dict[str, float]:
        """The origins that change when columns of variables arrive; refused if it cannot help that they do."""
        found = {}
        for name, column in zip(names, columns, strict=True):
            if name not in self.types or not len(column):
                continue
            low, high = column.min().item(), column.max().item()
            if not -self.most[name] <= low <= high <= self.most[name]:
                raise refusal()
            origin = next_origin(known.get(name), low, high)
            if origin is not None and origin != known.get(name):
                found[name] = self.within(name, origin)
        return found

    def within(self, name: str, origin: float) -> float:
        """An origin, or zero where differences from it may not fit a word."""
        return origin if self.types[name].is_float or abs(origin) <= FARTHEST else 0.0


def refusal() -> DataError:
    return DataError("a value is no finite number, or too large for products of it to be summed as doubles")


def live_rows(store: FlatStore) -> Any:
    """The slots of the rows of a store."""
    return np.flatnonzero(store.live[: store.meta[SIZE]]) if store.layout.arity else np.zeros(1, np.intp)


class Origins:
    """The origins of a tree, and its stores, whose payloads move with them."""

    def __init__(
        self,
        row: OriginRow,
        form: Form,
        variants: Sequence[Variant],
        stores: Mapping[str, FlatStore],
        log: Callable[[str, Any], None],
    ) -> None:
        self._row, self._form, self._stores = row, form, stores
        self._variants = sorted(variants, key=lambda variant: not variant.keys)
        self._log = log
        """Logs rows of a store, given by their slots, before they change."""

    def read(self) -> dict[str, float]:
        """The origins of the variables that have had values."""
        return self._row.read(self._stores[STORE].pool[0], self._row.types) if self._row.types else {}

    def words(self, origins: Mapping[str, float]) -> Any:
        """The row with other origins."""
        row = np.zeros((1, self._row.layout.width), np.int64)
        self._row.write(row[0], origins)
        return row

    def common(self, variables: Sequence[str], nodes: Nodes) -> tuple[dict[str, float], Nodes]:
        """Origins that serve all payloads of the nodes of a tree on dictionaries, and the payloads about these."""
        found: dict[str, float] = {}
        for payload in (payload for node in nodes.values() for payload in node.values() if self._row.types):
            for variable in payload.variables:
                own, name = payload.origin(variable), variables[variable]
                found[name] = shared_origin(found.get(name, own), own)
        found = {name: self._row.within(name, origin) for name, origin in found.items() if name in self._row.types}
        if not found:
            return {}, nodes
        about = [found.get(name, 0.0) for name in variables]
        return found, {
            name: {key: payload.about(normal([about[i] for i in payload.variables])) for key, payload in node.items()}
            for name, node in nodes.items()
        }

    def follow(self, names: Sequence[str], columns: Sequence[Column]) -> None:
        """Moves the origins that do not serve columns of some variables."""
        row = self._stores[STORE].pool[0]
        known = self._row.read(row, [name for name in names if name in self._row.types])
        changes = self._row.after(known, names, columns)
        if not changes:
            raise refusal()
        for name in changes.keys() - known.keys():
            if any(name in (*variant.keys, *variant.summed) and self._has_rows(variant) for variant in self._variants):
                changes[name] = 0.0  # there are zeros, or sums about zero that an earlier version had
        moving = changes.keys() & known.keys()
        if moving:
            before = self.read()
            self._move(moving, before, before | changes)
        self._log(STORE, np.zeros(1, np.intp))
        self._row.write(row, changes)

    def forget(self) -> None:
        """Once all rows are gone, the next ones choose new origins."""
        if self._row.types and not any(map(self._has_rows, self._variants)):
            self._stores[STORE].pool[0] = 0

    def _has_rows(self, variant: Variant) -> bool:
        store = self._stores[variant.name]
        return len(store) > 0 if variant.keys else not store.is_empty

    def _move(self, moving: Set[str], before: Mapping[str, float], after: Mapping[str, float]) -> None:
        """Moves the payloads that have sums of some variables."""
        for variant in self._variants:
            if moving.isdisjoint(variant.summed):
                continue
            store = self._stores[variant.name]
            slots = live_rows(store)
            for first in range(0, len(slots), ROWS_AT_ONCE):
                some = slots[first : first + ROWS_AT_ONCE]
                self._log(variant.name, some)
                store.pool[some] = self._form.moved(variant, store.pool[some], before, after)
