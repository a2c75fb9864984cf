"""The tables and views of a database by name, in the order of their declaration, and who reads whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.changes import did_you_mean
from viewlet.engine.declaration import Declaration
from viewlet.engine.maintained_view import MaintainedView
from viewlet.engine.maintainer import Maintainer, maintainers
from viewlet.errors import SchemaError, StateError, UnsupportedError
from viewlet.hosts.routes import MANY_VIEWS, Route
from viewlet.tables import BaseTable
from viewlet.types import Table
from viewlet.visible import described

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate

MOST_FOLLOWED = 10_000


@dataclass(frozen=True, slots=True)
class AffectedViews:
    """The views that a batch may touch, in the order of their declaration, and what maintains them, each once."""

    views: tuple[MaintainedView, ...]
    maintainers: tuple[Maintainer, ...]


@dataclass(frozen=True, slots=True)
class LostView:
    """A view of a directory that this process cannot maintain, because a function that it calls is missing."""

    name: str
    reason: str
    sources: frozenset[str]
    """The tables and views that it reads, or whose names occur in its statement."""

    def error(self) -> StateError:
        """What any use of it raises."""
        return StateError(f"{self.reason}; otherwise DROP VIEW {self.name}")


@dataclass(slots=True)
class Catalogue:
    """Tables, views and registered aggregates. A name belongs to a table or to a view."""

    aggregates: dict[str, Aggregate] = field(default_factory=dict)
    """Those that users have registered, by name."""
    layered: bool = False
    """Large queries may be cut into layers, with an engine for each."""
    tables: dict[str, BaseTable] = field(default_factory=dict)
    views: dict[str, MaintainedView] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    """Other names for types, without regard to case."""
    lost: dict[str, LostView] = field(default_factory=dict)
    """Views that are kept as they are until what they miss is there, in the order of their declaration."""
    _readers: dict[str, tuple[MaintainedView, ...]] = field(default_factory=dict)
    """The views that read a table or view directly, found when first asked for."""
    _reached: dict[tuple[str, ...], AffectedViews] = field(default_factory=dict)
    """What changes of some tables may touch, found when first asked for."""
    _followed: dict[tuple[MaintainedView, ...], AffectedViews] = field(default_factory=dict)
    """What changes of some views may touch, these included."""
    _routes: dict[str, Route | None] = field(default_factory=dict)
    """From few rows of a table to the views that they may change, where that is worth it."""

    # -- names ------------------------------------------------------------------------------------------------------

    def schemas(self) -> dict[str, Table]:
        """Everything a query may name."""
        tables = {name: table.schema for name, table in self.tables.items()}
        return tables | {name: view.table for name, view in self.views.items()}

    def sources_of(self, declared: Declaration) -> dict[str, Table]:
        """The schemas of what a view reads."""
        schemas = self.schemas()
        return {source: schemas[source] for source in sorted(declared.sources)}

    def find(self, name: str) -> str | None:
        """The catalogue's spelling of a name: the exact one, or the one in lower case."""
        if not isinstance(name, str):
            raise SchemaError(f"a table or view is named by a string, not by {described(name)}")
        for spelling in (name, name.lower()):
            if spelling in self.tables or spelling in self.views or spelling in self.lost:
                return spelling
        return None

    def find_table(self, name: str) -> BaseTable:
        found = self.find(name)
        if found in self.views or found in self.lost:
            raise SchemaError(f"{name!r} is a view; changes and table() are for tables")
        if found is None:
            raise SchemaError(f"there is no table {name!r}" + did_you_mean(name, self.tables))
        return self.tables[found]

    def find_kept(self, name: str) -> BaseTable:
        """A table that keeps its rows."""
        table = self.find_table(name)
        if table.schema.is_forgetful:
            raise unreadable_stream(name)
        return table

    def find_view(self, name: str) -> MaintainedView:
        found = self.find(name)
        if found in self.tables:
            raise SchemaError(f"{name!r} is a table, not a view")
        if found in self.lost:
            raise self.lost[found].error()
        if found is None:
            raise SchemaError(f"there is no view {name!r}" + did_you_mean(name, self.views))
        return self.views[found]

    # -- who reads whom ---------------------------------------------------------------------------------------------

    @property
    def visible_views(self) -> list[str]:
        """The names of the views that users see: those that stand for constraints are hidden."""
        return [name for name, view in self.views.items() if view.declared.constraint is None]

    def dependents(self, name: str) -> tuple[MaintainedView, ...]:
        """The views that read a table or view directly, in the order of their declaration."""
        found = self._readers.get(name)
        if found is None:
            found = tuple(view for view in self.views.values() if name in view.sources)
            self._readers[name] = found
        return found

    def readers(self, name: str) -> list[str]:
        """The names of the views that read a table or view directly."""
        return [view.name for view in self.dependents(name)] + [
            view.name for view in self.lost.values() if name in view.sources
        ]

    def lost_behind(self, name: str) -> LostView | None:
        """A view that is lost and would follow the changes of a table."""
        touched = {name, *(view.name for view in self.reach((name,)).views)} if self.lost else set()
        return next((view for view in self.lost.values() if not touched.isdisjoint(view.sources)), None)

    def reach(self, names: tuple[str, ...]) -> AffectedViews:
        """What changes of some tables may touch, through other views too."""
        found = self._reached.get(names)
        if found is None:
            found = self._reached[names] = self._closure({*names, *self._idle_streams(names)}, ())
        return found

    def route(self, table: str) -> Route | None:
        """From few rows of a table to the views that they may change, if there are many views of few rows."""
        if table not in self._routes:
            views = () if self.tables[table].schema.parts is not None else self.dependents(table)
            found = Route(table, views) if len(views) >= MANY_VIEWS else None
            self._routes[table] = found if found is not None and found.guarded >= MANY_VIEWS else None
        return self._routes[table]

    def follow(self, views: tuple[MaintainedView, ...]) -> AffectedViews:
        """What changes of some views may touch: these, and those that read them."""
        found = self._followed.get(views)
        if found is None:
            if len(self._followed) >= MOST_FOLLOWED:
                self._followed = {}
            found = self._followed[views] = self._closure(set(), views)
        return found

    def _closure(self, touched: set[str], first: tuple[MaintainedView, ...]) -> AffectedViews:
        """Some views, and those that read a name that is touched or another one of these."""
        views = list[MaintainedView]()
        for view in self.views.values():
            if view in first or not touched.isdisjoint(view.sources):
                views.append(view)
                touched.add(view.name)
        return AffectedViews(tuple(views), maintainers(views))

    def engines_changed(self) -> None:
        """Some views have another engine, which may need other rows."""
        self._routes = {}

    def _idle_streams(self, names: tuple[str, ...]) -> Iterator[str]:
        """The streams that a change of some may close, because they are idle and a view reads both."""
        for view in self.views.values():
            streams = view.sources if view.kind.reads_parts else frozenset()
            if not streams.isdisjoint(names):
                schemas = ((name, self.tables[name].schema) for name in streams if name in self.tables)
                yield from (name for name, schema in schemas if schema.parts and schema.parts.idle is not None)

    # -- declarations -----------------------------------------------------------------------------------------------

    def put_view(self, view: MaintainedView) -> MaintainedView | None:
        """Adds a view as the last one; returns the one that it replaces."""
        replaced = self.views.pop(view.name, None)
        self.views[view.name] = view
        self._forget_paths()
        return replaced if replaced is not view else None

    def drop_view(self, name: str) -> None:
        self.views.pop(name, None)
        self._forget_paths()

    def _forget_paths(self) -> None:
        self._readers, self._reached, self._followed, self._routes = {}, {}, {}, {}

    def is_temporary(self, name: str) -> bool:
        """A table or view that goes with the connection, of a database that stays."""
        if name in self.views:
            return self.views[name].declared.temporary
        return name in self.tables and self.tables[name].schema.temporary

    def define_type(self, name: str, definition: str | None) -> None:
        """Gives a type another name; None takes the name away."""
        if definition is None:
            self.types.pop(name, None)
        else:
            self.types[name] = definition

    def comment(self, name: str) -> str | None:
        """What COMMENT ON says of a table or view."""
        return self.views[name].comment if name in self.views else self.find_table(name).schema.comment

    def comment_on(self, name: str, column: str, text: str | None) -> None:
        """Sets or removes a comment on a column of a table or view, or without a name of a column on that itself."""
        if name in self.views:
            self.views[name].comment_on(column, text)
        elif name in self.tables:
            table = self.tables[name]
            columns = tuple(replace(c, comment=text) if c.name == column else c for c in table.schema.columns)
            own = table.schema.comment if column else text
            table.schema = replace(table.schema, columns=columns, comment=own)

    def register_aggregate(self, aggregate: Aggregate) -> None:
        """Makes an aggregate known to the statements that follow; one that a view uses stays as it is.

        Registering the same class again does nothing.
        """
        name, known = aggregate.name, self.aggregates.get(aggregate.name)
        if known is not None and aggregate.is_same(known):
            return
        users = [view.name for view in self.views.values() if name in view.declared.aggregates]
        if users:
            raise SchemaError(
                f"aggregate {name!r} is used by view {', '.join(map(repr, users))}: drop that first, or choose "
                "another name"
            )
        self.aggregates[name] = aggregate

    # -- checks -----------------------------------------------------------------------------------------------------

    def check_name(self, declared: Declaration) -> None:
        """A view may have its name, and does not read itself."""
        if declared.replaces and declared.name in self.views:
            self.check_unused(declared.name, "replace view")
        else:
            self.check_free(declared.name)
        if declared.name in declared.sources:
            raise SchemaError(f"view {declared.name!r} cannot read itself")

    def check_sources(self, declared: Declaration) -> None:
        """What stays reads nothing that goes with the connection."""
        for source in sorted(declared.sources) if not declared.temporary else ():
            if self.is_temporary(source):
                what = "view" if source in self.views else "table"
                remedy = f"make {declared.name!r} a temporary view"
                if declared.constraint is not None:
                    remedy = f"{declared.constraint.table!r} is not"
                raise SchemaError(f"{source!r} is a temporary {what}: {remedy}")

    def check_free(self, name: str) -> None:
        if name in self.tables or name in self.views or name in self.lost:
            raise SchemaError(f"there is already a {'table' if name in self.tables else 'view'} {name!r}")

    def check_unused(self, name: str, action: str, own: Collection[str] = ()) -> None:
        """Nothing reads a table or view, but for what is its own."""
        users = [reader for reader in self.readers(name) if reader not in own]
        if users:
            raise SchemaError(f"cannot {action} {name!r}: view {', '.join(map(repr, users))} reads it; drop that first")

    def check_source(self, source: str, view: str, reads_parts: bool = False) -> None:
        """A view may read something: a stream only before its first batch, unless it reads the parts that are kept."""
        table = self.tables.get(source)
        if table is not None and table.started and not reads_parts:
            raise SchemaError(
                f"stream {source!r} has already received rows, and streams do not keep them: "
                f"declare view {view!r} before the first batch, or make {source!r} a TABLE"
            )
        if source in self.views and not self.views[source].kind.feeds_views:
            hint = f"read {source!r} with SELECT or its handle; let view {view!r} read the tables under it"
            raise UnsupportedError(f"a view over {source!r}, {self.views[source].kind.noun}", hint, "engine")


def unreadable_stream(name: str) -> SchemaError:
    return SchemaError(f"{name!r} is a stream, and streams do not keep their rows; read a view over it instead")
