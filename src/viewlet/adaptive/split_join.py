"""The state of a split join under updates: its parts, its views and its result, changed by rules (`split_rules.py`).

    floor(N / 4) <= |D| < N        theta = N ** epsilon        at first N = 2 * |D| + 1, splits are strict

A value of a split is heavy from theta tuples on. It moves when its degree has crossed theta by half, with all its
tuples. When |D| leaves its bounds, all are put into strict parts again, one by one. Either is paid for by the updates
before it, as for triangles (`rebalance.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from viewlet.adaptive.groups import Groups
from viewlet.adaptive.split_rules import HEAVY, LIGHT, RESULT, Atom, Rule, Split, SplitProgram, part_name
from viewlet.adaptive.split_store import Places, SplitStore
from viewlet.adaptive.triangles import Work
from viewlet.rings.ring import Ring
from viewlet.triggers.store import UndoLog
from viewlet.types import Datum, Row

T = TypeVar("T")
Tuple = tuple[str, Row, T]
"""A relation, values of its variables, and a payload."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How an atom of a body is read once the variables before it are bound: as a look-up, or as a slice."""

    stores: tuple[str, ...]
    variables: tuple[str, ...]
    places: Places
    """Where its bound variables are; all places for a look-up."""

    @property
    def is_bound(self) -> bool:
        return len(self.places) == len(self.variables)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A rule, ready to run."""

    target: str
    keys: tuple[str, ...]
    looks: tuple[_Look, ...]


@dataclass(frozen=True, slots=True)
class Divided(Generic[T]):
    """What a major rebalancing replaces: N, the threshold, and all stores; `#name` has the heavy values of a split."""

    base: int
    threshold: float
    stores: dict[str, SplitStore[T]]


class SplitJoin(Generic[T]):
    """One split join over a ring. Its only group is ()."""

    def __init__(
        self, program: SplitProgram, ring: Ring[T], epsilon: float | None = None, log: UndoLog | None = None
    ) -> None:
        self.program = program
        self.ring = ring
        self.epsilon = program.epsilon if epsilon is None else epsilon
        self.log = UndoLog() if log is None else log
        self.groups: Groups[T] = Groups(ring, self.log)
        self.work = Work()
        self._compile()
        self.divided: Divided[T] = Divided(1, 1.0, self._empty_stores(self.log))

    # -- rules ------------------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        """The plans of every part, and the indexes that they need."""
        program, indexes = self.program, dict[str, set[Places]]()
        for relation in program.relations:
            for name in program.parts(Atom(relation, ())):
                indexes[name] = {split_places(program, relation, split) for split in program.splits_of(relation)}
        for view, _ in program.views:
            indexes.setdefault(view.name, set())
        for split in program.splits:
            indexes[f"#{split.name}"] = set()
        self._plans: dict[str, list[_Plan]] = {name: [] for name in indexes}
        for rule in program.rules:
            plan = self._planned(rule)
            for look in plan.looks:
                if not look.is_bound:
                    for store in look.stores:
                        indexes[store].add(look.places)
            for name in program.parts(rule.on):
                self._plans[name].append(plan)
        self._indexes = {name: frozenset(each) for name, each in indexes.items()}

    def _planned(self, rule: Rule) -> _Plan:
        bound, looks = set(rule.on.variables), list[_Look]()
        for atom in rule.body:
            places = tuple(i for i, variable in enumerate(atom.variables) if variable in bound)
            looks.append(_Look(self.program.parts(atom), atom.variables, places))
            bound.update(atom.variables)
        return _Plan(rule.target.name, rule.target.variables, tuple(looks))

    def _empty_stores(self, log: UndoLog) -> dict[str, SplitStore[T]]:
        return {name: SplitStore(self.ring, log, indexes) for name, indexes in self._indexes.items()}

    def _run(self, plan: _Plan, values: dict[str, Datum], payload: T, found: list[tuple[str, Row, T]]) -> None:
        """Adds what a rule does for a change to what was found."""
        stores, ring, work = self.divided.stores, self.ring, self.work

        def look(at: int, payload: T) -> None:
            work.steps += 1
            if at == len(plan.looks):
                found.append((plan.target, tuple([values[key] for key in plan.keys]), payload))
                return
            atom = plan.looks[at]
            known = tuple([values[atom.variables[place]] for place in atom.places])
            for name in atom.stores:
                if atom.is_bound:
                    if (held := stores[name].get(known)) is not None:
                        look(at + 1, ring.mul(payload, held))
                    continue
                for row, held in stores[name].slice(atom.places, known).items():
                    values.update(zip(atom.variables, row, strict=True))
                    look(at + 1, ring.mul(payload, held))

        look(0, payload)

    # -- changes ----------------------------------------------------------------------------------------------------

    def change(self, part: str, row: Row, payload: T, moves: bool = False) -> None:
        """Adds a payload to a tuple of a part, and brings the views up to date, and the result unless it only moves."""
        relation, found = part.split(" ")[0], list[tuple[str, Row, T]]()
        names = self.program.relations[relation]
        for plan in self._plans[part]:
            if not moves or plan.target != RESULT:
                self._run(plan, dict(zip(names, row, strict=True)), payload, found)
        for target, key, term in found:
            if target == RESULT:
                if not self.ring.is_zero(term):
                    self.groups.add(key, term)
            else:
                self.divided.stores[target].add(key, term)
        self.divided.stores[part].add(row, payload)

    def part_of(self, relation: str, row: Row) -> str:
        """The part that a tuple is in, or comes to: that of its values."""
        heavy = (
            self._is_heavy(split, self._values(relation, split, row)) for split in self.program.splits_of(relation)
        )
        return part_name(relation, (HEAVY if each else LIGHT for each in heavy))

    def _values(self, relation: str, split: Split, row: Row) -> Row:
        return tuple([row[place] for place in split_places(self.program, relation, split)])

    def _is_heavy(self, split: Split, values: Row) -> bool:
        return self.divided.stores[f"#{split.name}"].get(values) is not None

    def degree(self, split: Split, values: Row) -> int:
        """The tuples of a value of a split."""
        return sum(len(tuples) for _, tuples in self._tuples_of(split, values))

    def _tuples_of(self, split: Split, values: Row) -> Iterable[tuple[str, dict[Row, T]]]:
        """The parts that have tuples of a value, and these."""
        for relation in split.relations:
            places = split_places(self.program, relation, split)
            for name in self.program.parts(Atom(relation, ())):
                if held := self.divided.stores[name].slice(places, values):
                    yield relation, dict(held)

    @property
    def size(self) -> int:
        """|D|: distinct tuples, whatever their payloads are."""
        return sum(len(self.divided.stores[name]) for name in self.part_names)

    @property
    def part_names(self) -> list[str]:
        return [name for relation in self.program.relations for name in self.program.parts(Atom(relation, ()))]

    def on_update(self, relation: str, row: Row, payload: T) -> None:
        """A change of one tuple, and the rebalancing that it calls for."""
        self.change(self.part_of(relation, row), row, payload)
        self.work.updates += 1
        base, size, before = self.divided.base, self.size, self.work.steps
        if size >= base or size < base // 4:
            self.major_rebalancing()
        else:
            for split in self.program.splits_of(relation):
                self._check(split, self._values(relation, split, row))
        if self.work.steps > before:
            self.work.pause(self.work.steps - before)

    def on_batch(self, updates: Sequence[Tuple[T]]) -> None:
        """Many changes: one by one, or all from the beginning if there are more of them than tuples."""
        if len(updates) <= self.size:
            for update in updates:
                self.on_update(*update)
            return
        ring = self.ring
        held: dict[tuple[str, Row], T] = {(relation, row): payload for relation, row, payload in self.tuples()}
        for relation, row, payload in updates:
            old = held.get((relation, row))
            held[relation, row] = payload if old is None else ring.add(old, payload)
        self.work.updates += len(updates)
        self.groups.replace({})
        self._divide([(*key, m) for key, m in held.items() if not ring.is_zero(m)], moves=False)

    # -- rebalancing ------------------------------------------------------------------------------------------------

    def _check(self, split: Split, values: Row) -> None:
        """Moves the tuples of a value, if its degree no longer suits the parts that they are in."""
        degree, threshold = self.degree(split, values), self.divided.threshold
        is_heavy = self._is_heavy(split, values)
        if degree < 0.5 * threshold if is_heavy else degree >= 1.5 * threshold:
            self._move(split, values, not is_heavy)

    def _move(self, split: Split, values: Row, heavy: bool) -> None:
        """All tuples of the value leave before the first comes back: rules rely on it that they are of one kind."""
        one, ring = self.ring.one, self.ring
        tuples = [(relation, row, m) for relation, held in self._tuples_of(split, values) for row, m in held.items()]
        for relation, row, payload in tuples:
            self.change(self.part_of(relation, row), row, ring.neg(payload), moves=True)
        self.divided.stores[f"#{split.name}"].add(values, one if heavy else ring.neg(one))
        for relation, row, payload in tuples:
            self.change(self.part_of(relation, row), row, payload, moves=True)
        self.work.minor += 1
        self.work.moved += len(tuples)

    def major_rebalancing(self) -> None:
        """Strict parts for another N, and the views over them; the result stays."""
        self._divide(list(self.tuples()), moves=True)

    def _divide(self, tuples: Sequence[Tuple[T]], moves: bool) -> None:
        """Starts again from some tuples, with N = 2 * |D| + 1."""
        base = 2 * len(tuples) + 1
        threshold = float(base) ** self.epsilon
        counts: dict[str, Counter[Row]] = {split.name: Counter() for split in self.program.splits}
        for relation, row, _ in tuples:
            for split in self.program.splits_of(relation):
                counts[split.name][self._values(relation, split, row)] += 1
        heavy = {name: [key for key, n in degrees.items() if n >= threshold] for name, degrees in counts.items()}
        self.refill(base, threshold, heavy, tuples, moves)
        self.work.major += 1

    def refill(
        self, base: int, threshold: float, heavy: dict[str, list[Row]], tuples: Sequence[Tuple[T]], moves: bool
    ) -> None:
        """Other stores in the place of those there are, with these tuples and heavy values."""
        before, fresh = self.divided, UndoLog()
        self.log.record(lambda: self._install(before))
        self._install(Divided(base, threshold, self._empty_stores(fresh)))
        for name, values in heavy.items():
            for value in values:
                self.divided.stores[f"#{name}"].add(value, self.ring.one)
        for relation, row, payload in tuples:
            self.change(self.part_of(relation, row), row, payload, moves)
        for store in self.divided.stores.values():
            store.log = self.log

    def _install(self, divided: Divided[T]) -> None:
        self.divided = divided

    def tuples(self) -> Iterable[Tuple[T]]:
        """All tuples, whatever part they are in."""
        for name in self.part_names:
            for row, payload in self.divided.stores[name].items():
                yield name.split(" ")[0], row, payload


def split_places(program: SplitProgram, relation: str, split: Split) -> Places:
    """Where the variables of a split are in a relation."""
    return tuple(program.relations[relation].index(variable) for variable in split.variables)
