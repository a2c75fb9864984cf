"""The result of a program over the stores of a node: its rows, and what a batch has done to them.

It is the result of the node's own program, or of another one that reads the same stored views. It is read by the module
of the node where that has code for it, and by a module of its own otherwise (`reader`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.codegen.affected_rows import ChangedRows
from viewlet.codegen.node import CompiledNode
from viewlet.codegen.process import Column, Listed, Process
from viewlet.codegen.reader import ResultReader, write_reader
from viewlet.triggers.program import Program
from viewlet.types import Row

READ_BY_CODE_FROM = 10_000
"""Rows of a view from which compiling the reader of a result pays; fewer are read in Python."""


class CompiledResult:
    """A result that generated code reads from the stores of a node."""

    def __init__(self, node: CompiledNode, program: Program, is_own: bool) -> None:
        self._node = node
        self._program = program
        self._own = node.module.generated.result if is_own else None
        """The code of the node's module, if it has some for this result."""
        self._views = {each.name for each in walk(program.result) if isinstance(each, View)}

    def rows(self) -> dict[Row, int] | None:
        """The result by generated code; None where there is none, where it does not pay, or if a number did not fit.

        Of a query with ORDER BY and LIMIT these are all rows that can be among the first.
        """
        with self._reading(self._node, READ_BY_CODE_FROM) as process:
            return None if process is None else process.result(self._program.query, READ_BY_CODE_FROM)

    def columns(self) -> Listed | None:
        """The columns of the result and the multiplicities of its rows; None where `rows` has none."""
        return self._columns(self._node, READ_BY_CODE_FROM)

    def _columns(self, node: CompiledNode, at_least: int) -> Listed | None:
        """The result over the stores of a node, from so many rows of its views on."""
        types = [var.type for var in self._program.query.output]
        with self._reading(node, at_least) as process:
            return None if process is None else process.read_result(types, at_least)

    @contextmanager
    def _reading(self, node: CompiledNode, at_least: int) -> Iterator[Process | None]:
        """What reads the result from the stores of a node; None where no code can, or there are fewer rows."""
        if self._own is not None:
            yield node.process
        elif sum(len(node.stores[name]) for name in self._views) < at_least:
            yield None
        else:
            with self._reader.over(node.stores) as process:
                yield process

    @cached_property
    def _reader(self) -> ResultReader:
        """Reads the result without the module of the node."""
        return ResultReader(write_reader(self._program), self._node.dictionary)

    def change(self, store: str, keys: Sequence[int]) -> tuple[Listed, bool] | None:
        """What this batch has done to a result whose rows are each made of one of a view: rows as they are and were.

        Those as they were have negative multiplicities. None where no code reads it, or few rows have changed.
        True if no row is listed twice: `keys` are the columns of the result that are the keys of the view, if it has
        all of them, so that a row as it was can only equal the one that was made of the same key.
        """
        if self._node.added_rows(store) < READ_BY_CODE_FROM:
            return None
        rows = self._node.changed_rows(store)
        found = self._after_and_before({store: rows})
        if found is None:
            return None
        after, before = found
        lists_each = keys and len(after[1]) == len(rows.after) and len(before[1]) == len(rows.before)
        if lists_each and all(np.array_equal(after[0][i][: rows.both], before[0][i][: rows.both]) for i in keys):
            return _net(after, before, rows.both), True
        return _both(after, before), False

    def change_of_several(self, rows: Mapping[str, ChangedRows]) -> Listed | None:
        """What this batch has done to any result, from what `CompiledNode.affected` says: rows as they are and were.

        Those as they were have negative multiplicities, and a row may be listed several times. None where no code
        reads it, or there are few rows.
        """
        if sum(len(each.before) + len(each.after) for each in rows.values()) < 2 * READ_BY_CODE_FROM:
            return None
        found = self._after_and_before(rows)
        return None if found is None else _both(*found)

    def _after_and_before(self, rows: Mapping[str, ChangedRows]) -> tuple[Listed, Listed] | None:
        """The result over rows of views as they are, and as they were."""
        beside = self._node.beside
        code = self._own if self._own is not None else self._reader.function
        indexed = code is None or not code.scans
        sides = [
            {name: each.after for name, each in rows.items()},
            {name: each.before for name, each in rows.items()},
        ]
        found = []
        try:
            for side in sides:
                for name, held in side.items():
                    beside.replace_rows(name, held, indexed)
                found.append(self._columns(beside, 0))
        finally:
            for name in rows:
                beside.stores[name].clear()
        after, before = found
        return None if after is None or before is None else (after, before)


def _net(after: Listed, before: Listed, count: int) -> Listed:
    """What has come, and what has gone, where only rows at the same of the first places of both lists can be equal."""
    equal = np.ones(count, bool)
    for one, other in zip(after[0], before[0], strict=True):
        equal &= _equal(one[:count], other[:count])
    more = after[1].copy()
    more[:count] -= np.where(equal, before[1][:count], 0)
    return _both(_without((after[0], more), more[:count] == 0), _without(before, equal))


def _equal(one: Column, other: Column) -> Column:
    """Where two columns have the same value; NULL, which is NaN among doubles, is one value."""
    same = one == other
    return same | (np.isnan(one) & np.isnan(other)) if one.dtype.kind == "f" else same


def _without(listed: Listed, dropped: Column) -> Listed:
    """A list of rows without some of the first ones."""
    kept = np.ones(len(listed[1]), bool)
    kept[: len(dropped)] = ~dropped
    return [column[kept] for column in listed[0]], listed[1][kept]


def _both(after: Listed, before: Listed) -> Listed:
    """What has come, and what has gone."""
    columns = [np.concatenate(pair) for pair in zip(after[0], before[0], strict=True)]
    return columns, np.concatenate([after[1], -before[1]])
