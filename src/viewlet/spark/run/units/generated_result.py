"""The rows of a query over the arrays of generated code (see `node.NodeResult`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.algebra.nodes import View, summands
from viewlet.algebra.traverse import walk
from viewlet.changes import Changes, rows_to_arrow
from viewlet.codegen.affected_rows import ChangedRows
from viewlet.codegen.compiled_result import CompiledResult
from viewlet.codegen.node import CompiledNode, Contents
from viewlet.errors import InternalError
from viewlet.runtime.arrow_columns import arrow_column
from viewlet.spark.plan.result_location import views_of
from viewlet.spark.run.exchange.wire_columns import numbers_of
from viewlet.triggers.program import Program
from viewlet.triggers.result import TermSources, evaluate_result, term_sources
from viewlet.triggers.result_view import counting_field, result_store
from viewlet.triggers.store import MapStore
from viewlet.types import Column


class GeneratedResult:
    """A result over the views of a node, read by generated code where that pays: its own, or that of another query."""

    def __init__(self, node: CompiledNode, program: Program, is_own: bool, sent: Collection[str]) -> None:
        """`sent` are views that the node does not keep: it is told their contents while rows are read."""
        self._node = node
        self._program = program
        self._sent = [name for name in views_of(program) if name in sent]
        self._reader = CompiledResult(node, program, is_own)
        self._is_watched = False
        self._shown: str | None = None
        """The view whose rows make the watched result, each on its own, if there is one."""
        self._terms: dict[tuple[str, ...], list[TermSources]] = {}
        """How the terms of the result read their views, by those that are constant."""

    def result(self) -> Changes:
        rows = self._reader.rows()
        return self._whole_result() if rows is None else rows

    def result_arrow(self, places: Sequence[int] | None = None) -> tuple[list[Any], Any] | None:
        """Columns of the rows, or all, as Arrow, with their multiplicities; None where they are computed one by one."""
        found = self._reader.columns()
        return None if found is None else self._arrow(*found, places)

    def result_count(self) -> int | None:
        """How many rows there are, without making Arrow of them; None where they are computed one by one."""
        counted = counting_field(self._program)
        if counted is not None and self._program.query.limit is None:
            return self._node.stores[counted.name].rows_with(counted.field)
        found = self._reader.columns()
        if found is None or (found[1] < 0).any():
            return None
        return int(found[1].sum())

    def change_arrow(self) -> tuple[list[Any], Any] | None:
        """What the batch has done to the rows, like `result_arrow`."""
        if not self._is_watched:
            raise InternalError("nobody watches the result")
        if self._shown is None:
            rows = self._affected()
            several = self._reader.change_of_several(rows)
            return self._arrow_of(self._change_of(rows)) if several is None else self._arrow(*_net(*several))
        found = self._reader.change(self._shown, self._key_columns(self._shown))
        if found is None:
            return None
        listed, is_net = found
        return self._arrow(*(listed if is_net else _net(*listed)))

    def _key_columns(self, shown: str) -> list[int]:
        """Where the result has the keys of the view that it is made of; none unless it has all of them."""
        program = self._program
        atoms = (node for node in walk(program.result) if isinstance(node, View) and node.name == shown)
        keys, output = next(atoms).args, program.query.output
        return [output.index(key) for key in keys] if set(keys) <= set(output) else []

    def _arrow(
        self, columns: Sequence[Any], weights: Any, places: Sequence[int] | None = None
    ) -> tuple[list[Any], Any]:
        types, dictionary = [var.type for var in self._program.query.output], self._node.dictionary
        wanted = range(len(types)) if places is None else places
        return [arrow_column(types[place], columns[place], dictionary) for place in wanted], weights

    def _whole_result(self) -> Changes:
        """All rows, whatever the LIMIT."""
        program = self._program
        wanted = views_of(program)
        return evaluate_result(program, {name: self._as_map(name, self._node.contents(name)) for name in wanted})

    def _as_map(self, name: str, contents: Contents) -> MapStore:
        """Rows of a view, each key once, as the evaluator reads them."""
        view = self._program.view(name)
        types = self._node.key_types(name)
        keys = [self._node.decode(words, type) for words, type in zip(contents.keys, types, strict=True)]
        rows = list(zip(*keys, strict=True)) if keys else [()] * len(contents)
        kinds = self._node.stores[name].layout.kinds
        numbers = [numbers_of(kind, words) for kind, words in zip(kinds, contents.numbers, strict=True)]
        found = MapStore([field.name for field in view.fields], view.presence)
        found.assign(dict(zip(rows, zip(*numbers, strict=True), strict=True)))
        return found

    def watch(self) -> None:
        if not self._is_watched:
            self._is_watched, self._shown = True, self._row_by_row()
            self.watch_again()

    def watch_again(self) -> None:
        """The node has forgotten which views are watched."""
        if self._is_watched:
            self._node.watch(views_of(self._program))

    def _row_by_row(self) -> str | None:
        """The view whose touched rows tell how the result has changed."""
        shown = result_store(self._program)
        return shown if shown is not None and self._node.stores[shown].layout.arity else None

    def result_change(self) -> Changes:
        if not self._is_watched:
            raise InternalError("nobody watches the result")
        if self._shown is None:
            rows = self._affected()
        else:
            rows = {self._shown: self._node.changed_rows(self._shown)}
        return self._change_of(rows)

    def _affected(self) -> dict[str, ChangedRows]:
        """The rows that the batch concerns; views at the driver that it has not changed are constant, read whole."""
        constant = tuple(name for name in self._sent if not self._node.is_changed(name))
        if constant not in self._terms:
            self._terms[constant] = [term_sources(term, constant) for term in summands(self._program.result)]
        return self._node.affected(self._terms[constant], constant)

    def _change_of(self, rows: Mapping[str, ChangedRows]) -> Changes:
        """The change of the result that some rows of its views make, evaluated one by one."""

        def result(side: Mapping[str, Any]) -> Changes:
            held = {name: self._as_map(name, self._node.contents_of(name, found)) for name, found in side.items()}
            return evaluate_result(self._program, held)

        before = result({name: changed.before for name, changed in rows.items()})
        after = result({name: changed.after for name, changed in rows.items()})
        return {row: n for row in before.keys() | after.keys() if (n := after.get(row, 0) - before.get(row, 0))}

    def _arrow_of(self, rows: Changes) -> tuple[list[Any], Any]:
        """Rows with their multiplicities as Arrow."""
        columns = [Column(f"c{i}", var.type) for i, var in enumerate(self._program.query.output)]
        table = rows_to_arrow(columns, rows.items(), with_multiplicity=True)
        return table.columns[:-1], table.columns[-1].to_numpy()


def _net(columns: Sequence[Any], weights: Any) -> tuple[list[Any], Any]:
    """Columns of words with the multiplicities of equal rows added up, without rows that are there zero times."""
    import pyarrow as pa

    names = [str(i) for i in range(len(columns))]
    words = [bits(column + 0.0 if column.dtype == np.float64 else column) for column in columns]  # -0.0 equals 0.0
    table = pa.table([*words, weights], names=[*names, "weight"])
    total = table.group_by(names).aggregate([("weight", "sum")])
    total = total.filter(pa.compute.not_equal(total.column("weight_sum"), 0))
    found = [total.column(name).to_numpy() for name in names]
    is_double = [column.dtype == np.float64 for column in columns]
    typed = [column.view(np.float64) if double else column for column, double in zip(found, is_double, strict=True)]
    return typed, total.column("weight_sum").to_numpy()


def bits(column: Any) -> Any:
    """Keys are words; doubles among them are their bits."""
    return column.view(np.int64) if column.dtype == np.float64 else column
