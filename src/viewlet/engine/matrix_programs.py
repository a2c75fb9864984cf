"""Views that are outputs of matrix programs: the changes of tables become factored updates of the program's inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.matrix_program import MatrixInput, MatrixProgram
from viewlet.changes import Change
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, ViewKind
from viewlet.engine.partitioned import partitioned
from viewlet.errors import DataError
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Datum, Row

if TYPE_CHECKING:
    from viewlet.linalg import Run

Places = dict[Datum, int]
"""The place of each key of a dimension."""


class MatrixProgramEngine:
    """Keeps the rows of the tables, and a run of the program over them.

    A batch changes the entries that it touches. A key that is new makes its dimension larger; where the last row with a
    key goes, and after a batch that is rolled back, the run starts again from the rows.
    """

    name = "interpreter"

    def __init__(self, plan: MatrixProgram, sources: Sources, log: UndoLog) -> None:
        self.plan = plan
        self.digest = repr(plan)
        self._sources = sources
        self._tables = {each.table: MapStore(log=log) for each in plan.inputs}
        self._touched: dict[tuple[MatrixInput, Datum, Datum], None] = {}
        self._run: Run | None = None
        self._places: dict[str | int, Places] = {}
        self._uses: Counter[tuple[str | int, Datum]] = Counter()
        """How many rows have each key."""
        self._is_watched = False
        self._told: _Output | None = None
        """The output after the last batch, where its changes are told."""
        self._finished: _Output | None = None
        """The output after the batch that is not committed yet."""

    # -- batches -------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        for table, store in self._tables.items():
            store.assign(dict(self._sources.stores[table].items()))
        self._forget()

    def apply(self, table: str, change: Change) -> None:
        rows = change.rows()
        for each in self.plan.inputs:
            if each.table == table:
                for row, times in rows.items():
                    self._touch(each, row, times)
        self._tables[table].add_rows(rows)

    def _touch(self, each: MatrixInput, row: Row, times: int) -> None:
        if None in row:
            return
        first, second = _keys(each, row)
        self._touched[each, first, second] = None
        for side, key in ((each.rows, first), (each.columns, second)):
            self._uses[side, key] += times

    def finish(self) -> Mapping[Row, int] | None:
        self._advance()
        if not self._is_watched:
            return None
        self._finished = self._output()
        return _difference(self._told, self._finished)

    def commit(self) -> None:
        self._touched = {}
        self._told, self._finished = self._finished or self._told, None

    def rollback(self) -> None:
        self._finished = None
        self._forget()  # the undo log has the rows

    def _forget(self) -> None:
        self._touched = {}
        self._run = None

    # -- the program ---------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Brings the run to the rows as they are."""
        if self._run is None or self._must_start_again():
            self._start()
        elif self._touched:
            self._follow(self._run)
        self._touched = {}

    def _must_start_again(self) -> bool:
        """Whether a key has gone, or an input has changed that the program says does not."""
        return any(
            not each.is_dynamic or not self._uses[each.rows, first] or not self._uses[each.columns, second]
            for each, first, second in self._touched
        )

    def _follow(self, run: Run) -> None:
        import numpy as np

        for each, *keys in self._touched:
            for side, key in zip((each.rows, each.columns), keys, strict=True):
                if key not in self._places[side]:
                    self._places[side][_checked(side, key)] = len(self._places[side])
        for side, places in self._places.items():
            if isinstance(side, str):
                run.grow(side, len(places))
        changes: dict[str, Any] = {}
        for each, first, second in self._touched:
            now = run.array(each.name)
            change = changes.setdefault(each.name, np.zeros(now.shape))
            row, column = self._places[each.rows][first], self._places[each.columns][second]
            change[row, column] = self._value(each, first, second) - now[row, column]
        run.apply(changes)

    def _start(self) -> None:
        import numpy as np

        from viewlet.linalg import program

        self._uses.clear()
        self._places = {}
        entries: dict[MatrixInput, dict[tuple[Datum, Datum], float]] = {}
        for each in self.plan.inputs:
            own = entries.setdefault(each, {})
            for row, times in self._tables[each.table].multiplicities().items():
                if None not in row:
                    keys = _keys(each, row)
                    own[keys] = 0.0
                    for side, key in zip((each.rows, each.columns), keys, strict=True):
                        self._uses[side, key] += times
        for side in {side for each in self.plan.inputs for side in (each.rows, each.columns)}:
            fixed = range(side) if isinstance(side, int) else ()
            self._places[side] = {key: place for place, key in enumerate(fixed)}
        for side, key in self._uses:
            self._places[side].setdefault(_checked(side, key), len(self._places[side]))
        self._run = None
        if not all(self._places.values()):
            return
        inputs = {}
        for each, own in entries.items():
            matrix = np.zeros((len(self._places[each.rows]), len(self._places[each.columns])))
            for first, second in own:
                place = self._places[each.rows][first], self._places[each.columns][second]
                matrix[place] = self._value(each, first, second)
            inputs[each.name] = matrix
        self._run = program(self.plan.text).start(**inputs, copy=False)

    def _value(self, each: MatrixInput, first: Datum, second: Datum) -> float:
        """The entry that the rows with these keys add up to."""
        store = self._tables[each.table]
        key, columns = ((first,), (0,)) if each.is_vector else ((first, second), (0, 1))
        found = [(row[-1], (store.get(row) or (0,))[0]) for row in store.slice(columns, key)]
        total = math.fsum(float(value) * times for value, times in found if value is not None)
        return total / float(10**each.scale)

    # -- reading -------------------------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        self._advance()
        return self._output().to_rows()

    def _output(self) -> _Output:
        import numpy as np

        if self._run is None:
            return _Output(np.zeros((0, 0)), [], [])
        rows, columns = (self._names(side) for side in (self.plan.rows, self.plan.columns))
        return _Output(np.array(self._run[self.plan.output]), rows, columns)

    def _names(self, side: str | int) -> list[Datum]:
        return list(range(side)) if isinstance(side, int) else list(self._places[side])

    def watch(self) -> bool:
        if not self._is_watched:
            self._advance()
            self._told, self._is_watched = self._output(), True
        return True

    def save(self, writer: StateWriter) -> dict[str, object]:
        layout: dict[str, object] = {}
        for number, (table, store) in enumerate(self._tables.items()):
            arity = len(self._sources.tables[table].columns)
            writer.rows(f"table{number}", store.items(), arity, 1)
            layout[table] = arity
        return layout

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        for number, (table, store) in enumerate(self._tables.items()):
            store.assign(dict(reader.rows(f"table{number}", layout[table])))
        self._forget()
        return True

    def stats(self) -> dict[str, object]:
        return {"stored": {table: len(store) for table, store in self._tables.items()}}

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"run": lambda: "not started: no entries yet" if self._run is None else self._run.explain()}


@dataclass(frozen=True, slots=True)
class _Output:
    """A matrix with the keys of its rows and columns."""

    matrix: Any
    rows: list[Datum]
    columns: list[Datum]

    def to_rows(self, places: Any = None, times: int = 1) -> dict[Row, int]:
        """The entries that are not zero, all or those at some places, as rows."""
        import numpy as np

        there = self.matrix != 0.0 if places is None else places & (self.matrix != 0.0)
        found = np.nonzero(there)
        values = self.matrix[found].tolist()
        pairs = zip(found[0].tolist(), found[1].tolist(), values, strict=True)
        return {(self.rows[i], self.columns[j], value): times for i, j, value in pairs}

    def continues(self, other: _Output) -> bool:
        """Whether it has the keys of another one at the same places."""
        return self.rows[: len(other.rows)] == other.rows and self.columns[: len(other.columns)] == other.columns


def _difference(before: _Output | None, after: _Output) -> dict[Row, int]:
    """The change of the rows: arrays are compared, and only entries that differ become rows."""

    if before is None:
        return after.to_rows()
    if not after.continues(before):
        found = after.to_rows()
        for row in before.to_rows():
            if found.pop(row, None) is None:
                found[row] = -1
        return found
    rows, columns = before.matrix.shape
    places = after.matrix != 0.0
    places[:rows, :columns] = after.matrix[:rows, :columns] != before.matrix
    return before.to_rows(places[:rows, :columns], -1) | after.to_rows(places)


def _keys(each: MatrixInput, row: Row) -> tuple[Datum, Datum]:
    return (row[0], 0) if each.is_vector else (row[0], row[1])


def _checked(side: str | int, key: Datum) -> Datum:
    if isinstance(side, int) and not (isinstance(key, int) and 0 <= key < side):
        raise DataError(f"{key!r} is not one of the {side} places 0 to {side - 1} of a matrix")
    return key


def plan(declared: Declaration, *_: object) -> MatrixProgram:
    """The definition is the plan."""
    assert isinstance(declared.definition, MatrixProgram)
    return declared.definition


def stages(subject: Subject) -> Mapping[str, Callable[[], str]]:
    """What `explain` prints of a matrix program."""
    definition = plan(subject.declared)

    def triggers() -> str:
        from viewlet.linalg import program

        return program(definition.text).explain()

    return {
        "sql": lambda: subject.declared.sql,
        "program": lambda: definition.text,
        "triggers": triggers,
        "engine": lambda: subject.engine,
    }


def partition_engine(plan: MatrixProgram, sources: Sources, log: UndoLog) -> MatrixProgramEngine:
    """The engine of a partition on Spark."""
    return MatrixProgramEngine(plan, sources, log)


def partition_keys(plan: MatrixProgram) -> Mapping[str, tuple[int, ...]]:
    """No columns: the rows of all tables meet in one partition."""
    return {each.table: () for each in plan.inputs}


MATRIX_PROGRAMS = ViewKind(
    noun="a matrix program",
    accepts=lambda definition: isinstance(definition, MatrixProgram),
    plan=plan,
    reference=lambda declared, sources, statistics, log, movable: MatrixProgramEngine(plan(declared), sources, log),
    stages=stages,
    summary=("sql", "program", "triggers", "engine"),
    distributed=replace(
        partitioned(plan, partition_engine, partition_keys), reason=lambda cluster, unit: "in one partition of a worker"
    ),
)
