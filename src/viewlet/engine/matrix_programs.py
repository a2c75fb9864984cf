"""Views that are outputs of matrix programs: the changes of tables become factored updates of the program's inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viewlet.algebra.matrix_program import MatrixInput, MatrixProgram
from viewlet.algebra.query import Query
from viewlet.changes import Change
from viewlet.engine.contract import LocalEngine
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, ViewKind
from viewlet.engine.matrix_handle import MatrixChange, MatrixView
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

MOST_ENTRIES = 1 << 28
"""Of an input: two gigabytes of doubles."""


class MatrixProgramEngine:
    """Keeps the rows of the tables, and a run of the program over them.

    A batch changes the entries that it touches. A key that is new makes its dimension larger, and one whose last row
    goes makes it smaller; where a view does not keep zeros, the program is evaluated again for that. After a batch that
    is rolled back the run starts again from the rows.
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
        self._is_followed = False
        self._factors: list[tuple[Any, Any] | None] = []
        """What the run has told of the output since the last commit: factors, or None where it was evaluated again."""

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
        self._factors = []
        self._told, self._finished = self._finished or self._told, None

    def rollback(self) -> None:
        self._finished, self._factors = None, []
        self._forget()  # the undo log has the rows

    def _forget(self) -> None:
        self._touched = {}
        self._run = None

    # -- the program ---------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Brings the run to the rows as they are. What overflows is refused there, and NumPy need not warn of it."""
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):
            if self._run is None:
                self._start()
            elif self._touched:
                self._follow(self._run)
        self._touched = {}

    def _follow(self, run: Run) -> None:
        """Changes the entries that were touched, and the sizes of dimensions whose keys come or go."""
        keys = {(side, key) for each, *keys in self._touched for side, key in zip(each.sides, keys, strict=True)}
        gone = {pair for pair in keys if isinstance(pair[0], str) and not self._uses[pair]}
        new = {(side, key) for side, key in keys - gone if _checked(side, key) not in self._places[side]}
        resized = {side for side, _ in new | gone if isinstance(side, str)}
        for pair in gone:
            self._uses.pop(pair, None)
        if any(not each.is_dynamic for each, *_ in self._touched) or not all(map(run.keeps_zeros, resized)):
            self._start_from(run, gone)
            return
        for side, key in self._ordered(new):
            self._places[side][key] = len(self._places[side])
        self._check_sizes()
        told = len(self._factors)
        for side in resized:
            run.grow(side, len(self._places[side]))
        del self._factors[told:]  # places that come are zeros, and need not be told
        run.apply(self._changes(run))
        for side in resized:
            self._remove(side, {key for other, key in gone if other == side}, run)

    def _ordered(self, keys: set[tuple[str | int, Datum]]) -> list[tuple[str | int, Datum]]:
        """Keys in the order in which rows have them, which does not depend on hashes."""
        pairs = (pair for each, *own in self._touched for pair in zip(each.sides, own, strict=True))
        return [pair for pair in dict.fromkeys(pairs) if pair in keys]

    def _remove(self, side: str, keys: set[Datum], run: Run) -> None:
        gone = [self._places[side][key] for key in keys if key in self._places[side]]
        left = [key for key in self._places[side] if key not in keys]
        self._places[side] = {key: place for place, key in enumerate(left)}
        if not left:
            self._run = None
            self._factors.append(None)
        elif self._run is not None:
            run.shrink(side, gone)

    def _changes(self, run: Run) -> dict[str, Any]:
        """For every input the entries that were touched, as the rows have them now."""
        from viewlet.linalg import Entries

        found: dict[str, Any] = {}
        for each in self.plan.inputs:
            entries: dict[tuple[int, int], float] = {}
            for other, first, second in self._touched:
                places = self._places[each.rows].get(first), self._places[each.columns].get(second)
                if other is each and None not in places:
                    entries[places] = self._value(each, first, second)  # type: ignore[index]
            if entries:
                rows, columns = zip(*entries, strict=True)
                found[each.name] = Entries(rows, columns, tuple(entries.values()))
        return found

    def _start(self) -> None:

        self._uses.clear()
        self._places = {}
        self._factors.append(None)
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
            matrix = self._zeros(each)
            for first, second in own:
                place = self._places[each.rows][first], self._places[each.columns][second]
                matrix[place] = self._value(each, first, second)
            inputs[each.name] = matrix
        self._run_with(inputs)

    def _start_from(self, run: Run, gone: set[tuple[str | int, Datum]]) -> None:
        """Starts the program again with the inputs of a run, without the keys that are gone."""
        import numpy as np

        before = self._places
        self._places = {
            side: {key: 0 for key in known if (side, key) not in gone} if isinstance(side, str) else known
            for side, known in before.items()
        }
        for side, key in self._ordered(set(self._uses)):
            self._places[side].setdefault(key, 0)
        self._places = {side: {key: at for at, key in enumerate(known)} for side, known in self._places.items()}
        self._factors.append(None)
        self._run = None
        if not all(self._places.values()):
            return
        inputs = {}
        for each in self.plan.inputs:
            kept = [[key for key in self._places[side] if key in before[side]] for side in each.sides]
            old, new = (
                [[places[side][key] for key in own] for side, own in zip(each.sides, kept, strict=True)]
                for places in (before, self._places)
            )
            matrix = self._zeros(each)
            matrix[np.ix_(*new)] = run.array(each.name)[np.ix_(*old)]
            inputs[each.name] = matrix
        for each, first, second in self._touched:
            place = self._places[each.rows].get(first), self._places[each.columns].get(second)
            if None not in place:
                inputs[each.name][place] = self._value(each, first, second)
        self._run_with(inputs)

    def _zeros(self, each: MatrixInput) -> Any:
        """An input without entries."""
        import numpy as np

        self._check_sizes()
        return np.zeros(tuple(len(self._places[side]) for side in each.sides))

    def _check_sizes(self) -> None:
        """Refuses matrices that no machine has room for."""
        for each in self.plan.inputs:
            rows, columns = (len(self._places[side]) for side in each.sides)
            if rows * columns > MOST_ENTRIES:
                raise DataError(
                    f"input {each.name} would have {rows:,} × {columns:,} entries, and a matrix in a database has "
                    f"at most {MOST_ENTRIES:,}: start the program on sparse matrices, or on Spark"
                )

    def _run_with(self, inputs: Mapping[str, Any]) -> None:
        from viewlet.linalg import program

        strategy = "incremental" if self._is_followed else "auto"
        self._run = program(self.plan.text).start(**inputs, copy=False, strategy=strategy)
        if self._is_followed:
            self._run.subscribe(self.plan.output, lambda factors: self._factors.append(factors))

    def _value(self, each: MatrixInput, first: Datum, second: Datum) -> float:
        """The entry that the rows with these keys add up to: their exact sum, rounded once."""
        store = self._tables[each.table]
        key, columns = ((first,), (0,)) if each.is_vector else ((first, second), (0, 1))
        found = [(row[-1], (store.get(row) or (0,))[0]) for row in store.slice(columns, key)]
        terms = [(value, times) for value, times in found if value is not None]
        try:
            if all(isinstance(value, int) for value, _ in terms):
                return float(sum(value * times for value, times in terms) / 10**each.scale)
            total = math.fsum(part for value, times in terms for part in _multiples(float(value), times))
        except (OverflowError, ValueError):
            total = math.nan
        if not math.isfinite(total):
            place = f"{first!r}" if each.is_vector else f"({first!r}, {second!r})"
            raise DataError(f"the rows of {each.table} for entry {place} of {each.name} add up to no finite number")
        return total

    # -- changes in factors --------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """From now on `own_change` is asked for: the run starts again, and keeps every change in factors."""
        if not self._is_followed:
            self._is_followed, self._run = True, None
            self._advance()
            self._factors = []

    def own_change(self) -> MatrixChange | None:
        """The change of the output by the batch that `finish` ended, in factors or whole; None if there is none."""
        import numpy as np

        if not self._factors:
            return None
        output = self._output()
        told = [pair for pair in self._factors if pair is not None]
        if len(told) < len(self._factors):
            return MatrixChange(output.rows, output.columns, whole=output.matrix)
        left, right = (np.hstack(factors) for factors in zip(*told, strict=True))
        return MatrixChange(output.rows, output.columns, left, right)

    def matrix(self) -> MatrixChange:
        """The output as it is."""
        self._advance()
        output = self._output()
        return MatrixChange(output.rows, output.columns, whole=output.matrix)

    # -- reading -------------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The entries that are not zero."""
        import numpy as np

        self._advance()
        return 0 if self._run is None else int(np.count_nonzero(self._run[self.plan.output]))

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


def _multiples(value: float, times: int) -> list[float]:
    """Numbers that add up to exactly times the value: its products with powers of two, which are not rounded."""
    if abs(times) == 1:
        return [value * times]
    sign, size = (-1.0 if times < 0 else 1.0), abs(times)
    return [sign * math.ldexp(value, bit) for bit in range(size.bit_length()) if size >> bit & 1]


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


def partition_engine(plan: MatrixProgram, sources: Sources, log: UndoLog) -> LocalEngine:
    """The engine of a partition on Spark."""
    from viewlet.engine.matrix_views import MatrixViewsEngine

    over_views = any(each.query is not None for each in plan.inputs)
    return MatrixViewsEngine(plan, sources, log) if over_views else MatrixProgramEngine(plan, sources, log)


def partition_keys(plan: MatrixProgram) -> Mapping[str, tuple[int, ...]]:
    """No columns: the rows of all tables meet in one partition."""
    from viewlet.engine.matrix_views import tables_of

    return dict.fromkeys(tables_of(plan), ())


def over_tables(declared: Declaration, views: Mapping[str, Query], tables: frozenset[str]) -> Declaration:
    """The program over the queries of the views that it reads."""
    from viewlet.engine.matrix_views import inline_views

    return inline_views(declared, views, tables)


MATRIX_PROGRAMS = ViewKind(
    noun="a matrix program",
    accepts=lambda definition: isinstance(definition, MatrixProgram),
    plan=plan,
    reference=lambda declared, sources, statistics, log, movable: MatrixProgramEngine(plan(declared), sources, log),
    stages=stages,
    summary=("sql", "program", "triggers", "engine"),
    handle=MatrixView,
    distributed=replace(
        partitioned(plan, partition_engine, partition_keys),
        reason=lambda cluster, unit: "in one partition of a worker",
        inline=over_tables,
    ),
)
