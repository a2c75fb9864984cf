"""Which stored views the engines of different queries have in common, and who keeps them.

    view a ──► engine of a ── keeps a_items ◄──┐ reads
    view b ──► engine of b ────────────────────┘ a_items instead of a b_items of its own

A new engine is filled like any other. Then it borrows the stored views that an engine has already, and gives up its
own. Who keeps what is known by the engines alone: an engine whose views are gone, or that has made way for compiled
code, is run as long as others borrow from it, and maintains no more than that.

Nothing of this is saved. A snapshot has the state of each view as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet, ref

from viewlet.engine.contract import SharesViews
from viewlet.engine.maintainer import Maintainer
from viewlet.triggers.program import ViewDefinition
from viewlet.triggers.shared_views import Borrowed, lendable
from viewlet.triggers.view_shapes import field_shapes

Offer = tuple[ref[SharesViews], str]


@dataclass(slots=True)
class InnerViews:
    """The stored views that engines may borrow from each other, by the shapes of their fields."""

    in_use: bool = False
    """Some engine borrows a view, as far as is known."""
    engines: tuple[SharesViews, ...] = ()
    """Those that may share views, each after all that borrow from it; none, if no engine borrows a view."""
    ownerless: tuple[SharesViews, ...] = ()
    """Those among them that run no view of the user: they are there for those that borrow from them."""
    tables: list[str] = field(default_factory=list)
    """The tables whose changes they have been given in the batch under way."""
    _offers: dict[Hashable, list[Offer]] = field(default_factory=dict)
    _compared: WeakSet[SharesViews] = field(default_factory=WeakSet)
    """The engines that have borrowed what they can."""
    _is_tidy: bool = True
    """No view, engine or loan has come or gone since `engines` were listed."""

    def changed(self) -> None:
        """A view or an engine has come or gone."""
        self._is_tidy = False

    def is_due(self, maintainer: Maintainer) -> bool:
        """Its engine has not been compared with the others yet."""
        return maintainer.sharing is not None and maintainer.sharing not in self._compared

    def share(self, maintainer: Maintainer, others: Iterable[Maintainer]) -> None:
        """Lets an engine borrow the stored views that others keep too, and offers them its own; between two batches."""
        engine = maintainer.sharing
        if engine is None:
            return
        self.changed()
        engines = list(in_reading_order(others))
        kept = engine.kept - lent_by(engine, engines)
        shapes: dict[ViewDefinition, list[Hashable]] = {
            view: list(field_shapes(view).values()) for view in engine.plan.views if view.name in kept
        }
        alive = {id(each) for each in engines} - {id(engine)}
        offers = {view.name: self._find(engine, view, shapes[view], alive) for view in shapes}
        found = {name: offer for name, offer in offers.items() if offer is not None}
        if found:
            engine.borrow(found)
            self.in_use = True
        self._offer(engine, shapes)
        self._compared.add(engine)

    def _find(
        self, engine: SharesViews, view: ViewDefinition, shapes: Sequence[Hashable], alive: set[int]
    ) -> Borrowed | None:
        """Who keeps a view with at least the fields of this one, and does not borrow from the engine itself."""
        first, *others = (self._offers.get(shape, ()) for shape in shapes)
        for known, name in first:
            owner = known()
            if owner is None or id(owner) not in alive or name not in owner.kept:
                continue
            if any((known, name) not in offers for offers in others) or reaches(owner, engine):
                continue
            if engine.can_borrow(view.name, Borrowed(owner, name)):
                return Borrowed(owner, name)
        return None

    def _offer(self, engine: SharesViews, shapes: dict[ViewDefinition, list[Hashable]]) -> None:
        """Notes the views that an engine keeps, and that others may read."""
        names = lendable(engine.plan) & engine.kept
        for view, each in shapes.items():
            offer = ref(engine), view.name
            for shape in each if view.name in names else ():
                known = [other for other in self._offers.get(shape, ()) if other[0]() is not None]
                self._offers[shape] = known if offer in known else [*known, offer]

    def keep_again(self, maintainers: Iterable[Maintainer]) -> None:
        """Before a batch that loads views in bulk: their engines neither borrow nor lend until it has ended."""
        self.changed()
        every = list(maintainers)
        loaded = [each.sharing for each in every if each.load is not None and each.sharing is not None]
        for engine in (each.sharing for each in every if each.sharing is not None):
            if engine.borrowed and any(engine is each or owes(engine, each) for each in loaded):
                self._compared.discard(engine)
                engine.keep_again()

    def begin(self, maintainers: Callable[[], Sequence[Maintainer]]) -> None:
        """Begins a batch; `maintainers` lists those of all views, which takes time only after changes of them."""
        self.tables = []
        if not self._is_tidy:
            self._tidy_up(maintainers())

    def _tidy_up(self, maintainers: Sequence[Maintainer]) -> None:
        """Engines that run no view of the user maintain only what others borrow; between two batches."""
        current = {id(each.sharing) for each in maintainers}
        engines = tuple(in_reading_order(maintainers))
        self.in_use = any(each.borrowed for each in engines)
        self.engines = engines if self.in_use else ()
        self.ownerless = tuple(engine for engine in self.engines if id(engine) not in current)
        for engine in self.ownerless:
            engine.keep_only(lent_by(engine, engines))
        alive = ((shape, [each for each in offers if each[0]() is not None]) for shape, offers in self._offers.items())
        self._offers = {shape: offers for shape, offers in alive if offers}
        self._is_tidy = True

    def commit(self) -> None:
        for engine in self.ownerless:
            engine.commit()

    def rollback(self) -> None:
        """After the tables are as before the batch; may be called again.

        A change is undone while borrowed views are what they were when it was made, but for those that it changes
        itself: table by table, the last first.
        """
        for table in reversed(self.tables):
            for engine in self.engines:
                engine.take_back(table)
        for engine in self.engines:
            engine.rollback()


def in_reading_order(maintainers: Iterable[Maintainer]) -> Iterator[SharesViews]:
    """The engines that may share views, and those that they borrow from, each after all that borrow from it."""
    found: dict[int, SharesViews] = {}
    due = [each.sharing for each in maintainers if each.sharing is not None]
    due.reverse()
    while due:  # no recursion: chains of loans may be long
        engine = due[-1]
        owners = [each.owner for each in engine.borrowed.values() if id(each.owner) not in found]
        if owners and id(engine) not in found:
            due.extend(owners)
        else:
            found.setdefault(id(due.pop()), engine)
    return reversed(found.values())


def run_order(maintainers: Sequence[Maintainer]) -> Iterator[Maintainer | SharesViews]:
    """What takes the change of a table: engines that borrow a view before the one that keeps it.

    Engines without views of the user, whose stored views are borrowed, are among them.
    """
    by_engine = {id(each.sharing): each for each in maintainers if each.sharing is not None}
    yield from (each for each in maintainers if each.sharing is None)
    yield from (by_engine.get(id(engine), engine) for engine in in_reading_order(maintainers))


def lent_by(engine: SharesViews, others: Iterable[SharesViews]) -> set[str]:
    """The views that others borrow from an engine."""
    return {each.name for other in others for each in other.borrowed.values() if each.owner is engine}


def owes(engine: SharesViews, owner: SharesViews) -> bool:
    return any(each.owner is owner for each in engine.borrowed.values())


def reaches(engine: SharesViews, other: SharesViews) -> bool:
    """One engine borrows from another, perhaps through others."""
    seen, due = set[int](), [engine]
    while due:
        owners = [each.owner for each in due.pop().borrowed.values() if id(each.owner) not in seen]
        if any(owner is other for owner in owners):
            return True
        seen.update(map(id, owners))
        due += owners
    return False
