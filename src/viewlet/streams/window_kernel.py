"""The native kernel of sliding windows: partial aggregates of parts in memory, merged by a tree over time.

    leaf p        one number per group and aggregate: what part p has
    node (k, i)   the leaves i * 2^k .. (i + 1) * 2^k - 1, merged
    window        the nodes that cover parts low..high: at most two of every level

A new or changed part touches one node of every level, for the groups that it has. A window of n parts is the merge of
at most 2 log n arrays, so that its cost hardly depends on n. The tree is a cache of the parts of a helper view: a leaf
knows the part that it was made from, and is made again when the catalogue has another one, after late rows as after a
batch that was taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.streams.catalogue import Part
from viewlet.streams.group_codes import GroupCodes

MEMORY = 1 << 30
"""Bytes that the trees of one view may take; larger ones are merged by the host."""
DENSE = 8
"""A part with one in so many of all groups, or more, merges nodes as a whole."""
SPARE = 1_000
"""Groups that may be dead, besides as many as there are in a window: it takes a window of parts until more are."""
Array = np.ndarray[Any, np.dtype[Any]]


class NotNativeError(Exception):
    """Values that the kernel does not merge exactly: the host does it."""


@dataclass(frozen=True, slots=True)
class Merge:
    """How the values of an aggregate are merged; `identity` stands for no value."""

    function: Callable[..., Array]
    identity: Any
    dtype: str


def merge_of(function: str, is_double: bool, dtype: str = "i4") -> Merge:
    """The merge of SUM, MIN or MAX over doubles, or over integers of a type."""
    dtype = "f8" if is_double else dtype
    if function == "SUM":
        return Merge(np.add, 0, dtype)
    ends: tuple[Any, Any] = (-np.inf, np.inf) if is_double else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return Merge(np.minimum, ends[1], dtype) if function == "MIN" else Merge(np.maximum, ends[0], dtype)


@dataclass(slots=True)
class Tree:
    """One aggregate of all groups, over parts; `NULL` is the identity of its merge.

    Integers have 32 bits until a value or a sum needs more.
    """

    function: str
    is_double: bool
    levels: int
    merge: Merge = field(init=False)
    nodes: dict[tuple[int, int], Array] = field(default_factory=dict)
    largest: dict[int, int] = field(default_factory=dict)
    """The largest absolute value of a leaf of integers, which bounds sums of windows."""

    def __post_init__(self) -> None:
        self.merge = merge_of(self.function, self.is_double)

    def put(self, part: int, slots: Array, values: Array | None, count: int, missing: Array | None = None) -> None:
        """Sets the values of groups in a leaf, or removes them, and merges what is above it.

        There are `count` groups; `missing` says which values are NULL.
        """
        if values is None:
            self._set(part, slots, np.full(len(slots), self.merge.identity, self.merge.dtype), count)
            return
        if not self.is_double:
            self._note(part, values if missing is None else values[~missing])
        values = values.astype(self.merge.dtype)
        if missing is not None:
            values[missing] = self.merge.identity
        self._set(part, slots, values, count)

    def _note(self, part: int, values: Array) -> None:
        """Takes notice of the largest value; changes to 64 bits when 32 do not hold it, or the sums of a block."""
        largest = self.largest[part] = _largest(values)
        total = largest << (self.levels + 1) if self.function == "SUM" else largest
        if self.function != "SUM" and largest >= np.iinfo("i8").max:
            raise NotNativeError  # the largest number stands for no value
        if self.merge.dtype == "i4" and total >= np.iinfo("i4").max:
            before, self.merge = self.merge, merge_of(self.function, False, "i8")
            for key, node in self.nodes.items():
                self.nodes[key] = np.where(node == before.identity, self.merge.identity, node.astype("i8"))

    @np.errstate(over="ignore", invalid="ignore")  # a sum may be infinite: the part of the view is refused then
    def _set(self, part: int, slots: Array, values: Array, count: int) -> None:
        self._node(0, part, count)[slots] = values
        is_dense = DENSE * len(slots) >= count
        for level in range(1, self.levels + 1):
            index = part >> level
            left, right = ((level - 1, 2 * index), (level - 1, 2 * index + 1))
            node = self._node(level, index, count)
            if is_dense:
                self._merge_all(node, left, right)
            else:
                node[slots] = self.merge.function(self._read(left, slots), self._read(right, slots))

    def _merge_all(self, node: Array, left: tuple[int, int], right: tuple[int, int]) -> None:
        """Merges two nodes into the one above them, for all groups: one pass, without looking up any."""
        node.fill(self.merge.identity)
        for below in (self.nodes.get(left), self.nodes.get(right)):
            if below is not None:
                size = min(len(below), len(node))
                self.merge.function(node[:size], below[:size], out=node[:size])

    def _node(self, level: int, index: int, count: int) -> Array:
        node = self.nodes.get((level, index))
        if node is None or len(node) < count:
            room = np.full(max(count, 0 if node is None else count + count // 4), self.merge.identity, self.merge.dtype)
            if node is not None:
                room[: len(node)] = node
            node = self.nodes[level, index] = room
        return node

    def _read(self, key: tuple[int, int], slots: Array) -> Array:
        node = self.nodes.get(key)
        if node is None:
            return np.full(len(slots), self.merge.identity, self.merge.dtype)
        inside = slots < len(node)
        if inside.all():
            return node[slots]
        found = np.full(len(slots), self.merge.identity, self.merge.dtype)
        found[inside] = node[slots[inside]]
        return found

    @np.errstate(over="ignore", invalid="ignore")  # a sum may be infinite: the part of the view is refused then
    def window(self, low: int, high: int, count: int) -> Array:
        """The merge of parts low..high for all groups."""
        bound = 0
        if self.function == "SUM":
            bound = sum(largest for part, largest in self.largest.items() if low <= part <= high)
        if bound > np.iinfo("i8").max:
            raise NotNativeError
        is_wide = bound >= np.iinfo("i4").max and self.merge.dtype == "i4"
        total = np.full(count, self.merge.identity, "i8" if is_wide else self.merge.dtype)
        for key in cover(low, high, self.levels):
            node = self.nodes.get(key)
            if node is not None:
                size = min(len(node), count)
                self.merge.function(total[:size], node[:size], out=total[:size])
        return total

    def forget(self, before: int) -> None:
        """Drops what ends before a part."""
        for level, index in [key for key in self.nodes if (key[1] + 1) << key[0] <= before]:
            del self.nodes[level, index]
        for part in [part for part in self.largest if part < before]:
            del self.largest[part]


def _largest(values: Array) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def cover(low: int, high: int, levels: int) -> list[tuple[int, int]]:
    """The largest nodes that together have parts low..high.

    >>> cover(3, 9, 3)
    [(0, 3), (2, 1), (1, 4)]
    """
    found: list[tuple[int, int]] = []
    while low <= high:
        level = 0
        while level < levels and low % (2 << level) == 0 and low + (2 << level) - 1 <= high:
            level += 1
        found.append((level, low >> level))
        low += 1 << level
    return found


class WindowKernel:
    """The windows of one view over a helper with partial aggregates of every part.

    The helper has the columns of its groups, then aggregates; `functions` says how these are merged, and `rows` is the
    one that counts the rows of a group.
    """

    def __init__(self, groups: Sequence[str], functions: Mapping[str, str], rows: str, width: int) -> None:
        self._groups, self._functions, self._rows, self._width = list(groups), functions, rows, width
        self._parts: dict[int, Part] = {}
        self._slots: dict[int, Array] = {}
        self._trees: dict[str, Tree] = {}
        self._codes = GroupCodes(len(groups))
        self._levels = max(width.bit_length() - 1, 0)
        self._live = 0
        """About how many groups a window has."""

    def window(self, parts: Sequence[int], part: Callable[[int], Part], read: Callable[[int], Any]) -> Any | None:
        """The groups of the parts with rows of a window, in order, with merged aggregates, as Arrow; None without any.

        `part` is what the catalogue has of a part of the helper, and `read` gives its rows.
        """
        if not parts:
            return None
        low, high = parts[0], parts[-1]
        numbers: Sequence[int] = range(low, high + 1)
        if len(numbers) > len(parts) + len(self._parts):
            numbers = sorted({*parts, *(each for each in self._parts if low <= each <= high)})
        self._make_room(low, max((part(number).rows for number in parts), default=0))
        for number in numbers:
            now = part(number)
            if self._parts.get(number) != now:
                self._replace(number, now, read)
        if not self._trees:
            return None
        merged = {name: tree.window(low, high, len(self._codes)) for name, tree in self._trees.items()}
        return self._table(merged)

    def _make_room(self, low: int, newest: int) -> None:
        """Forgets parts long before a window, and all groups if most of them are dead."""
        levels = self._levels
        before = (low - self._width) >> levels << levels  # nodes are dropped with all their leaves
        for number in [each for each in self._parts if each < before]:
            del self._parts[number]
        for number in [each for each in self._slots if each < before]:
            del self._slots[number]
        for tree in self._trees.values():
            tree.forget(before)
        size = sum(8 if tree.merge.dtype == "i4" else 16 for tree in self._trees.values()) or 8 * len(self._functions)
        if size * self._width * max(newest, len(self._codes)) > MEMORY:
            self._clear()
            raise NotNativeError
        if len(self._codes) > 2 * self._live + SPARE:
            self._clear()

    def _clear(self) -> None:
        self._parts, self._slots, self._trees, self._codes = {}, {}, {}, GroupCodes(len(self._groups))

    def _replace(self, number: int, now: Part, read: Callable[[int], Any]) -> None:
        """Makes a leaf of the rows that a part has now."""
        self._parts.pop(number, None)
        slots, values = np.empty(0, np.int64), dict[str, tuple[Array, Array | None]]()
        if now.rows:
            rows = read(number)
            values = {name: self._values(name, rows.column(name)) for name in self._functions}
            slots = self._codes.encode([rows.column(name) for name in self._groups], rows.num_rows)
        gone = self._slots.get(number, np.empty(0, np.int64))
        self._slots[number] = np.concatenate([gone, slots])  # if this is interrupted, the next call clears both
        for name, tree in self._trees.items():
            if len(gone):
                tree.put(number, gone, None, len(self._codes))
            if len(slots):
                given, missing = values[name]
                tree.put(number, slots, given, len(self._codes), missing)
        self._slots[number], self._parts[number] = slots, now

    def _values(self, name: str, column: Any) -> tuple[Array, Array | None]:
        """The values of an aggregate, and which of them are NULL."""
        import pyarrow as pa

        is_double = pa.types.is_floating(column.type)
        if name not in self._trees:
            self._trees[name] = Tree(self._functions[name], is_double, self._levels)
        try:
            plain = column.cast(pa.float64() if is_double else pa.int64())
        except pa.ArrowInvalid:
            raise NotNativeError from None
        values: Array = plain.fill_null(0).to_numpy()
        if is_double and not np.isfinite(values).all():
            raise NotNativeError
        return values, column.is_null().to_numpy() if column.null_count else None

    def _table(self, merged: Mapping[str, Array]) -> Any:
        import pyarrow as pa

        live = np.flatnonzero(merged[self._rows])
        self._live = max(len(live), self._live * 3 // 4)
        columns = dict(zip(self._groups, self._codes.take(live), strict=True))
        for name, values in merged.items():
            chosen = values[live]
            missing = None if self._functions[name] == "SUM" else chosen == self._trees[name].merge.identity
            columns[name] = pa.array(chosen, mask=missing)
        return pa.table(columns)
