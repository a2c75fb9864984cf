"""Views over parts of streams: the warehouse of the database keeps them, an engine reads one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from viewlet.changes import MULTIPLICITY, Change, Changes
from viewlet.engine.declaration import Declaration
from viewlet.engine.kind import Subject, ViewKind
from viewlet.streams import Warehouse
from viewlet.streams.definition import PART_TIMESTAMP, PartView
from viewlet.streams.explain import classify, describe_view, script
from viewlet.streams.times import to_microseconds
from viewlet.streams.warehouse import PartInfo, digest_of
from viewlet.triggers.saved_state import StateReader, StateWriter
from viewlet.triggers.sources import Sources
from viewlet.types import Row
from viewlet.view import View


class StreamViewEngine:
    """One view of a warehouse, which the database's batches bring up to date."""

    name = "streams"

    def __init__(self, plan: PartView, warehouse: Warehouse) -> None:
        self.plan = plan
        self.digest = digest_of(plan)
        self.warehouse = warehouse
        self._is_watched = False

    # -- batches -------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Declares the view, and computes it as far as its sources are closed."""
        try:
            self.warehouse.add_view(self.plan)
        except BaseException:
            self.warehouse.rollback()
            self.warehouse.drop_view(self.plan)
            self.warehouse.commit()
            raise

    def apply(self, table: str, change: Change) -> None:
        """The warehouse has the rows: views are computed once all streams have theirs."""

    def finish(self) -> Changes:
        self.warehouse.advance()
        return self.warehouse.changes(self.plan.name) if self._is_watched else {}

    def watch(self) -> bool:
        self._is_watched = True
        return True

    def commit(self) -> None:
        """The host commits the warehouse."""

    def rollback(self) -> None:
        """The host takes the batch back."""

    # -- reading -------------------------------------------------------------------------------------------------------

    def result(self) -> Mapping[Row, int]:
        return self.warehouse.rows(self.plan.name)

    def arrow(self) -> Any:
        import pyarrow as pa

        rows = self.warehouse.arrow(self.plan.name)
        ones = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        return rows.append_column(MULTIPLICITY, ones)

    def count(self) -> int:
        return self.warehouse.count(self.plan.name)

    def save(self, writer: StateWriter) -> dict[str, object]:
        return {}  # the warehouse is in the directory

    def resume(self, layout: Mapping[str, Any], reader: StateReader) -> bool:
        self.load()
        return True

    def stats(self) -> dict[str, object]:
        relation, work = self.warehouse.relation(self.plan.name), self.warehouse.maintainer.work
        helpers = {helper.name: self.warehouse.count(helper.name) for helper in self.plan.helpers}
        return {
            "parts": len(relation.stored),
            "next_part": relation.progress.next,
            "computed": work.computed,
            "recomputed": work.recomputed,
            "stored": {self.plan.name: self.warehouse.count(self.plan.name), **helpers},
        }

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        return {"next": lambda: describe_next(self.warehouse, self.plan)}


LISTED_PARTS = 100
"""Parts of a reference that are listed one by one."""


def describe_next(warehouse: Warehouse, view: PartView) -> str:
    """Which part of a view is computed next, and what it waits for."""
    number = warehouse.relation(view.name).progress.next
    if number is None:
        return f"{view.name}: no part yet: what the first one reads is not closed"
    lines = [f"{view.name}[{number}] is next and needs"]
    for name, parts in warehouse.maintainer.required(view, number):
        relation = warehouse.relation(name)
        if len(parts) <= LISTED_PARTS:
            states = ((part, "closed" if relation.is_closed(part) else "not closed yet") for part in parts)
            lines += [f"    {name}[{part}]: {state}" for part, state in states]
        else:
            closed = f"closed before {relation.progress.next}"
            state = (
                "closed" if relation.is_closed(parts[-1]) else closed if relation.progress.next else "not closed yet"
            )
            lines.append(f"    {name}[{parts[0]} .. {parts[-1]}]: {state}")
    for name in (view.name, *view.parts.streams):
        progress = warehouse.relation(name).progress
        if progress.first is not None and progress.kept is not None and progress.kept > progress.first:
            lines.append(f"    what {name} had before {warehouse.start(name, progress.kept)} is no longer kept")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class StreamView(View):
    """A handle to a view over parts of streams. Its rows are those of all parts that are kept."""

    def parts(self) -> list[PartInfo]:
        """The parts in the order of time: number, start, rows, and when they last changed."""
        return self._provider.read(self.name, StreamView, lambda engine: engine.warehouse.parts(engine.plan.name))

    def part(self, time: datetime | str) -> Any:
        """The rows of the part that a time (UTC) belongs to, as a pyarrow Table."""
        moment = to_microseconds(time)

        def question(engine: Any) -> Any:
            number = engine.warehouse.number_at(engine.plan.name, moment)
            return engine.warehouse.arrow(engine.plan.name, [number])

        return self._provider.read(self.name, StreamView, question)

    def archived(self) -> Any:
        """The rows of parts that `RETAIN ... ARCHIVE` has written to the archive, as a pyarrow Table."""
        return self._provider.read(self.name, StreamView, lambda engine: engine.warehouse.archived(engine.plan.name))

    def newest(self) -> Any:
        """The rows of the newest part, as a pyarrow Table."""

        def question(engine: Any) -> Any:
            end = engine.warehouse.relation(engine.plan.name).progress.next
            return engine.warehouse.arrow(engine.plan.name, [] if end is None else [end - 1])

        return self._provider.read(self.name, StreamView, question)


def plan(declared: Declaration, *_: object) -> PartView:
    """The definition is the plan."""
    assert isinstance(declared.definition, PartView)
    return declared.definition


def _reference(declared: Declaration, sources: Sources, *_: object) -> StreamViewEngine:
    assert isinstance(sources.warehouse, Warehouse)
    return StreamViewEngine(sources.warehouse.suited(plan(declared)), sources.warehouse)


def prune(engine: StreamViewEngine, sql: str) -> Any:
    """The parts that a query can need, by what it says of `part_timestamp`."""
    return _pruned(engine.warehouse, engine.plan.name, sql)


def _pruned(warehouse: Warehouse, name: str, sql: str) -> Any:
    from viewlet.sql.streams.prune_parts import part_bounds

    bounds = part_bounds(sql, name)
    return None if bounds is None else warehouse.arrow(name, warehouse.numbers_between(name, *bounds), with_start=True)


def stream_with_parts(warehouse: Warehouse, name: str, sql: str) -> Any:
    """The rows of a stream with `part_timestamp`, where a query names that: those of the parts that it can need."""
    if PART_TIMESTAMP not in sql.lower():
        return None
    pruned = _pruned(warehouse, name, sql)
    return warehouse.arrow(name, with_start=True) if pruned is None else pruned


def stages(subject: Subject) -> Mapping[str, Callable[[], str]]:
    """What `explain` prints of a stream view."""
    view = plan(subject.declared)
    return {
        "sql": lambda: subject.declared.sql,
        "class": lambda: classify(view),
        "maintenance": lambda: describe_view(view),
        "script": lambda: script(view),
        "engine": lambda: subject.engine,
    }


STREAM_VIEWS = ViewKind(
    noun="a view over parts of streams",
    accepts=lambda definition: isinstance(definition, PartView),
    plan=plan,
    reference=_reference,
    stages=stages,
    summary=("sql", "class", "maintenance", "engine"),
    handle=StreamView,
    compiles_elsewhere=False,
    parts=lambda definition: definition.parts,
    prune=prune,
)
