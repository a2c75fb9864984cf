"""A local engine over the rows of one partition, as a kernel (see `node.ResultNode`)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from viewlet.changes import Change, Changes, RowChange
from viewlet.errors import InternalError, StateError
from viewlet.runtime.durable.rows import from_arrow, to_arrow
from viewlet.spark.run.exchange.wire import bytes_table, table_bytes
from viewlet.spark.run.units.one_stage import Blob, OneStageNode, change_name
from viewlet.spark.run.units.plan_code import PlanCode
from viewlet.spark.run.units.routes import Route
from viewlet.spark.run.units.unit_result import ResultCode
from viewlet.triggers.program import Statement
from viewlet.triggers.saved_state import Item
from viewlet.triggers.sources import Sources
from viewlet.triggers.store import MapStore, UndoLog
from viewlet.types import Row, TableKind

MakeEngine = Callable[[Any, Sources, UndoLog], Any]
"""A local engine (`engine/contract.py`) of a plan, over its sources; a function that workers can import."""
LAYOUT = "layout"


class PartitionedNode(OneStageNode):
    """A local engine in one place, as a kernel (see `node.ResultNode`); a node that only splits rows makes none."""

    def __init__(
        self, name: str, routes: Mapping[str, tuple[Route, ...]], plan: Any, make: MakeEngine, state: str
    ) -> None:
        self._routes = routes
        self._arriving = {change_name(route.relation.name): route for each in routes.values() for route in each}
        super().__init__({change: len(route.relation.columns) for change, route in self._arriving.items()})
        self._name = name
        self._plan = plan
        self._make = make
        self._state = state
        self._log = UndoLog()
        self._is_watched = False
        self._tells = False
        self._before: Mapping[Row, int] = {}
        self._change: Mapping[Row, int] | None = {}

    @cached_property
    def _engine(self) -> Any:
        relations = (route.relation for route in self._arriving.values())
        streams = {table.name: replace(table, kind=TableKind.STREAM) for table in relations}
        sources = Sources(streams, {name: MapStore() for name in streams})
        engine = self._make(self._plan, sources, self._log)
        engine.load()
        return engine

    # -- a batch ----------------------------------------------------------------------------------------------------

    def begin(self, code: PlanCode) -> None:
        if "_engine" in self.__dict__:
            self._engine.commit()
        self._log.commit()
        self._log.begin()
        self._changes, self._received, self._change = {}, {}, {}
        if self._is_watched and not self._tells:
            self._before = dict(self._engine.result())

    def rollback(self) -> bool:
        self._log.rollback()
        if "_engine" in self.__dict__:
            self._engine.rollback()
        return True

    def change(self, table: str, change: Change) -> None:
        for route in self._routes[table]:
            self._changes[change_name(route.relation.name)] = route.rows(change.rows())

    def split(self, name: str, positions: tuple[int, ...], partitions: int) -> dict[int, bytes]:
        """By the route of the relation, which may send a row to several partitions."""
        parts: dict[int, list[tuple[Row, int]]] = {}
        for row, times in self._changes.get(name, {}).items():
            for number in self._arriving[name].partitions(row, partitions):
                parts.setdefault(number, []).append((row, times))
        return {number: self._encoded(name, rows) for number, rows in parts.items()}

    def run(self, statements: Iterable[Statement]) -> None:
        """Applies what was put to the engine, one relation after the other."""
        touched = False
        for name, route in self._arriving.items():
            if rows := self._sent(name):
                touched = True
                self._engine.apply(route.relation.name, RowChange(rows))
        if touched:
            self._change = self._engine.finish()

    # -- contents ---------------------------------------------------------------------------------------------------

    def contents(self, name: str) -> bytes:
        if name != self._state:
            return self._encoded(name, self._changes.get(name, {}).items())
        if "_engine" not in self.__dict__:
            return b""
        parts = _PartWriter()
        parts.add(LAYOUT, json.dumps(self._engine.save(parts)).encode())
        return parts.to_bytes()

    def restore(self, name: str, blob: Blob) -> None:
        self.__dict__.pop("_engine", None)  # it starts again from nothing
        if not len(blob):
            return
        parts = _PartReader(blob)
        if not self._engine.resume(json.loads(parts.data(LAYOUT)), parts):
            raise StateError(f"the state of {self._name} is not one that this version keeps")

    def sizes(self) -> Mapping[str, int]:
        stored: Mapping[str, int] = self._engine.stats()["stored"]
        return stored

    def bytes(self) -> int:
        return 0

    # -- result -----------------------------------------------------------------------------------------------------

    def result_of(self, other: ResultCode | None = None) -> PartitionedNode:
        if other is not None:
            raise InternalError(f"an engine of {self._name} has no stored views for other queries")
        return self

    def keep_results(self, digests: Collection[str]) -> None:
        """There is only one."""

    def result(self) -> Changes:
        return dict(self._engine.result())

    def explain(self, stage: str) -> str:
        """What the engine of this partition tells of itself."""
        shown: str = self._engine.stages("text")[stage]()
        return shown

    def watch(self) -> None:
        if not self._is_watched:
            self._tells, self._is_watched = self._engine.watch(), True

    def result_change(self) -> Changes:
        if self._change is not None:
            return dict(self._change)
        after = self._engine.result()
        rows = self._before.keys() | after.keys()
        return {row: n for row in rows if (n := after.get(row, 0) - self._before.get(row, 0))}


class _PartWriter:
    """The parts of an engine's state as one Arrow table (see `triggers/saved_state.py`)."""

    def __init__(self) -> None:
        self._parts: dict[str, bytes] = {}

    def add(self, part: str, data: bytes) -> None:
        self._parts[part] = data

    def rows(self, part: str, items: Iterable[Item], arity: int, width: int) -> None:
        self.add(f"part {part}", table_bytes(to_arrow(items, arity, width)))

    def words(self, part: str, words: Any) -> None:
        import numpy as np

        buffer = io.BytesIO()
        np.save(buffer, words, allow_pickle=False)
        self.add(f"part {part}", buffer.getvalue())

    def to_bytes(self) -> bytes:
        import pyarrow as pa

        names, data = pa.array(self._parts.keys(), pa.string()), pa.array(self._parts.values(), pa.large_binary())
        return table_bytes(pa.table({"part": names, "data": data}))


class _PartReader:
    """What a `_PartWriter` wrote."""

    def __init__(self, blob: Blob) -> None:
        table = bytes_table(blob)
        self._parts: dict[str, bytes] = dict(zip(table["part"].to_pylist(), table["data"].to_pylist(), strict=True))

    def data(self, part: str) -> bytes:
        return self._parts[part]

    def rows(self, part: str, arity: int) -> Iterable[Item]:
        return from_arrow(bytes_table(self.data(f"part {part}")), arity)

    def words(self, part: str) -> Any:
        import numpy as np

        return np.load(io.BytesIO(self.data(f"part {part}")), allow_pickle=False)
