"""A table or a view gets another declaration, and what reads it is declared again over the new one, as one step.

    ALTER TABLE t ADD c INTEGER        t with its new rows; its constraints, and the views over it in their order
    CREATE OR REPLACE VIEW v AS ...    v, and the views over it

The old ones come back if one of the new ones cannot be filled: a column that a view reads is gone, or a row breaks a
constraint. Subscribers stay with the name, and are told what the rows gain and lose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from viewlet.connection.announcements import Announcement, announcements
from viewlet.connection.journal import ALTER, declared_again, view_to_json
from viewlet.engine.catalogue_json import Json, table_to_json
from viewlet.engine.declaration import Declaration
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.rows import difference
from viewlet.errors import SchemaError, SqlError, UnsupportedError
from viewlet.hosts.contract import Start
from viewlet.types import Row, SqlType, Table

if TYPE_CHECKING:
    from viewlet.connection.database import Database


def replace_table(
    database: Database,
    name: str,
    table: Table,
    rows: object,
    constraints: Sequence[Declaration],
    dropped: Collection[str] = (),
) -> None:
    """Puts a table with new rows, which are a batch, in the place of one.

    `constraints` are further ones; those that are `dropped` go.
    """
    set_aside = database.host.set_aside
    if set_aside is None:
        raise UnsupportedError("changing a table in its place on Spark", "CREATE TABLE ... AS makes another")
    old, exchange = database.tables[name], _Exchange(database, name, dropped=dropped)
    for each in {table.name, *(declared.name for declared in constraints)} - {name, *dropped}:
        database.catalogue.check_free(each)
    for each in {name, table.name}:
        database.clear_log(each)
    after = replace(database.committed, epoch=database.epoch + 1, version=database.version + 1)
    put_back: list[Callable[[], None]] = []
    others_after = list(database.tables)[list(database.tables).index(name) + 1 :]

    def work() -> None:
        put_back.append(set_aside(old))
        database.tables.pop(name)
        exchange.begin()
        database.put_table(table)
        batch = database.fill(table, rows, after.epoch)
        exchange.declare_readers(after.epoch)
        for declared in constraints:
            exchange.start(declared)
        facts = {"old": name, "table": table_to_json(table)}
        records = (batch, *database.records(exchange.started))
        database.declare_filled(ALTER, table, facts, records, after.epoch)

    def take_back() -> None:
        database.host.rollback()
        if put_back:
            database.tables.pop(table.name, None)
            put_back[0]()
            database.tables[name] = old
            for other in others_after:
                database.tables[other] = database.tables.pop(other)
            exchange.take_back()

    database.commit_with(work, after, exchange.finish, take_back)


def replace_view(database: Database, declared: Declaration, engine: str | None) -> None:
    """Puts a view in the place of one."""
    if declared.name in declared.sources:
        raise SchemaError(f"view {declared.name!r} cannot read itself")
    exchange = _Exchange(database, declared.name, database.views[declared.name])
    if circle := sorted(declared.sources & {view.name for view in exchange.readers}):
        raise SchemaError(f"view {declared.name!r} cannot read {circle[0]!r}, which reads it")
    database.clear_log(declared.name)
    after = replace(database.committed, version=database.version + 1)

    def work() -> None:
        exchange.begin()
        exchange.start(declared, exchange.readers[0], database.epoch, engine)
        exchange.declare_readers(database.epoch)
        database.declare_started(exchange.started)

    def take_back() -> None:
        database.host.rollback()
        exchange.take_back()

    database.commit_with(work, after, exchange.finish, take_back)


def _shape(view: MaintainedView) -> list[tuple[str, SqlType]]:
    """The columns of a view, with or without NULL."""
    return [(column.name, column.type.with_nullable(True)) for column in view.columns]


class _Exchange:
    """The views that leave, and those that come for them."""

    def __init__(
        self, database: Database, name: str, first: MaintainedView | None = None, dropped: Collection[str] = ()
    ) -> None:
        self._database, self._name = database, name
        over = database.catalogue.reach((name,)).views
        self.readers = (*over,) if first is None else (first, *(view for view in over if view is not first))
        """The views that leave, in the order of their declaration."""
        self._again = [view for view in self.readers[first is not None :] if view.name not in dropped]
        self._facts = [view_to_json(view.declared, database.catalogue) for view in self._again]
        self._shown: dict[str, dict[Row, int]] = {
            view.name: dict(view.rows()) for view in self.readers if view.subscribers
        }
        self._views = list(database.views.values())
        self.started: list[Start] = []
        self._news: list[Announcement] = []
        self._told: Iterator[Announcement] = iter(self._news)
        self._has_begun = False
        if lost := next((view for view in database.catalogue.lost.values() if name in view.sources), None):
            raise lost.error()

    def begin(self) -> None:
        self._has_begun = True
        for view in self.readers:
            self._database.catalogue.drop_view(view.name)

    def declare_readers(self, epoch: int) -> None:
        for before, known in zip(self._again, self._facts, strict=True):
            declared = self._declared_again(known)
            self.start(replace(declared, temporary=before.declared.temporary), before, epoch)

    def start(
        self, declared: Declaration, before: MaintainedView | None = None, epoch: int = 0, engine: str | None = None
    ) -> None:
        """Fills a view, in the place of one that leaves."""
        database = self._database
        database.catalogue.check_sources(declared)
        for source in sorted(database.host.tables_under(declared)):
            database.catalogue.check_source(source, declared.name)
        made = database.host.start(database.host.choose(declared), engine)
        self.started.append(made)
        database.catalogue.put_view(made.view)
        if made.view.declared.constraint is not None:
            made.view.check(dict(made.view.rows()))
        if before is not None:
            made.view.follow_on(before)
            self._tell(before, made.view, epoch)

    def _tell(self, before: MaintainedView, view: MaintainedView, epoch: int) -> None:
        """What the rows gain and lose; where columns have other types, all old rows go before the new ones come."""
        if before.name not in self._shown:
            return
        gone, come = self._shown[before.name], dict(view.rows())
        if _shape(before) == _shape(view):
            self._news += announcements(view, difference(gone, come), epoch)
        else:
            self._news += announcements(before, {row: -weight for row, weight in gone.items()}, epoch)
            self._news += announcements(view, come, epoch)

    def finish(self) -> None:
        self._database.host.commit()
        for view in self.readers:
            self._database.host.forget_view(view)
        self._database.outbox.extend(self._told)

    def take_back(self) -> None:
        if self._has_begun:
            for made in self.started:
                self._database.catalogue.drop_view(made.view.name)
            for view in self._views:  # in their order
                self._database.catalogue.put_view(view)

    def _declared_again(self, known: Json) -> Declaration:
        try:
            return declared_again(known, self._database.catalogue)
        except SqlError as error:
            what = known["constraint"]["text"] if "constraint" in known else f"view {known['name']!r}"
            raise SchemaError(f"{what} would no longer fit {self._name!r}: {str(error).splitlines()[0]}") from error
