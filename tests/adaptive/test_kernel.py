"""The kernel on flat arrays keeps what the reference form keeps: N, parts, views and groups, after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.adaptive.oracle import Tables
from tests.adaptive.streams import LENGTH, STREAMS, Change
from viewlet.adaptive import flat_parts, flat_state, flat_words, invariants
from viewlet.adaptive.bulk_join import sum_triangles
from viewlet.adaptive.flat_state import FlatState
from viewlet.adaptive.plan import AdaptivePlan
from viewlet.adaptive.reference import ReferenceState
from viewlet.algebra.recognise_triangle import recognise_triangle
from viewlet.changes import RowChange
from viewlet.runtime.control import CONTROL_WORDS
from viewlet.runtime.dictionary import StringDictionary
from viewlet.sql import bind_statement, split_statements
from viewlet.sql.bind import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.triggers.store import UndoLog
from viewlet.types import Table

CATALOGUE: dict[str, Table] = {}
for name, columns in (("r", "a, b"), ("s", "b, c"), ("t", "c, a")):
    text = f"CREATE TABLE {name} ({columns.replace(',', ' BIGINT NOT NULL,')} BIGINT NOT NULL, w BIGINT)"
    CATALOGUE[name] = bind_statement(next(split_statements(text)), CATALOGUE).table  # type: ignore[union-attr]
KEYS = {"": (), "r.a": (0,), "s.b, s.c": (1, 2), "t.c, r.a, r.b": (2, 0, 1)}


def plan(
    keys: str, epsilon: float | tuple[float, float, float], numbers: str = "COUNT(*) AS n", linear: bool = True
) -> AdaptivePlan:
    grouped = f"SELECT {keys}, {numbers}" if keys else f"SELECT {numbers}"
    sql = f"{grouped} FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a" + (f" GROUP BY {keys}" if keys else "")
    each = epsilon if isinstance(epsilon, tuple) else (epsilon,) * 3
    query = recognise_triangle(bind_query(sql, CATALOGUE).query, each, linear)  # type: ignore[arg-type]
    return AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))


def image(state: Any) -> Any:
    """N, the thresholds, nine parts, three views and the groups."""
    if isinstance(state, ReferenceState):
        parts, numbers = state.triangles.parts, state._plan.numbers
        held = [{(x, y): numbers(m) for x, y, m in part.items()} for p in parts.partitions for part in p.parts]
        held += [
            {(*ends, middle) if view.witnesses else ends: numbers(m) for ends, middle, m in view.items()}
            for view in parts.views
        ]
        return parts.base, parts.thresholds, held, dict(state.groups())
    stores = list[Any]()
    for tuples, _, _ in state.relations:
        rows = dict(tuples.items())
        skipped = flat_parts.NUMBERS - flat_parts.KIND
        stores += [{k: row[skipped:] for k, row in rows.items() if row[0] == kind} for kind in range(3)]
    stores += [dict(view.items()) for view in state.views]
    return state.base, state.thresholds, stores, dict(state.groups())


def apply(state: Any, plan: AdaptivePlan, batch: Sequence[Change]) -> None:
    """The batch relation by relation; the number of a row follows from its pair, so that a pair is one row."""
    for relation, table in enumerate("rst"):
        rows: dict[Any, int] = {}
        for each, first, second, times in batch:
            if each == relation:
                row = (first, second, None if (first + second) % 4 == 0 else first - second)
                rows[row] = rows.get(row, 0) + times
        change = RowChange({row: times for row, times in rows.items() if times})
        for reader in plan.readers.get(table, ()):
            state.apply(reader, change)


def pair(plan: AdaptivePlan) -> tuple[ReferenceState, FlatState]:
    return ReferenceState(plan, UndoLog()), FlatState(plan, CATALOGUE, StringDictionary())


@pytest.mark.parametrize(
    ("keys", "epsilon", "size", "linear"),
    [
        ("", 0.5, 1, False),
        ("", 0.5, 3, True),
        ("", 0.0, 6, False),
        ("", 0.25, 9, True),
        ("", 1.0, 40, False),
        ("r.a", 0.75, 5, False),
        ("r.a", (0.25, 0.0, 1.0), 7, False),
        ("s.b, s.c", 0.5, 12, True),
        ("t.c, r.a, r.b", 0.5, 8, False),
        ("t.c, r.a, r.b", (0.5, 0.4, 0.25), 5, True),
        ("t.c, r.a, r.b", (0.0, 0.5, 0.25), 30, False),
    ],
)
def test_the_state_is_that_of_the_reference_after_every_batch(keys: str, epsilon: Any, size: int, linear: bool) -> None:
    wanted = plan(keys, epsilon, linear=linear)
    for name, stream in STREAMS.items():
        reference, flat = pair(wanted)
        tables, changes = Tables(), list(stream(Random(len(name)), LENGTH))
        for start in range(0, len(changes), size):
            batch = changes[start : start + size]
            for state in (reference, flat):
                apply(state, wanted, batch)
            assert flat.changes() == reference.changes()
            reference.commit()
            flat.commit()
            assert image(flat) == image(reference), (name, start)
            for change in batch:
                tables.apply(change)
        expected = tables.groups(KEYS[keys])
        assert {key: numbers[0] for key, numbers in flat.groups()} == expected
        assert (flat.facts().work.major, flat.facts().work.minor) == (
            reference.facts().work.major,
            reference.facts().work.minor,
        )


def test_several_numbers_and_nulls() -> None:
    wanted = plan("r.a", 0.5, "COUNT(*) AS n, SUM(r.w * s.w) AS x, SUM(t.w) AS y, COUNT(s.w) AS z")
    reference, flat = pair(wanted)
    changes = list(STREAMS["power_law"](Random(2), 2 * LENGTH))
    for start in range(0, len(changes), 9):
        for state in (reference, flat):
            apply(state, wanted, changes[start : start + 9])
        assert flat.changes() == reference.changes()
        reference.commit()
        flat.commit()
        assert image(flat) == image(reference)


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("keys", ["", "t.c, r.a, r.b"])
def test_a_batch_is_taken_back(keys: str, atomic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the opposite rows, as compiled code does, or by copies of the arrays."""
    monkeypatch.setattr(flat_state, "ENABLED", atomic)
    wanted, random = plan(keys, 0.5), Random(3)
    flat = FlatState(wanted, CATALOGUE, StringDictionary())
    changes = list(STREAMS["power_law"](random, 2 * LENGTH))
    for start in range(0, len(changes), 20):
        before, tuples = image(flat), flat._size
        apply(flat, wanted, changes[start : start + 20])
        apply(flat, wanted, random.sample(changes, 60))
        flat.rollback()
        after = image(flat)
        assert flat._size == tuples
        assert after[3] == before[3]
        assert not flat.changes()
        assert after == before or atomic
        check(flat)
        apply(flat, wanted, changes[start : start + 20])
        flat.changes()
        flat.commit()


def check(flat: FlatState, settled: bool = True) -> None:
    """The arrays satisfy the invariants: sizes, degrees unless values are still to move, chains and views."""
    base, thresholds, stores, _ = image(flat)
    assert base // 4 <= flat._size < base
    for i in range(len(flat.relations)):
        heavy, light, sparse = stores[3 * i : 3 * i + 3]
        every = [*heavy, *light, *sparse]
        if settled:
            rare = [x for x, _ in (*light, *sparse)]
            check_degrees([x for x, _ in heavy], rare, [x for x, _ in every], thresholds.first[i])
            check_degrees([y for _, y in light], [y for _, y in sparse], [y for _, y in every], thresholds.second[i])
        for place, values in enumerate(flat.relations[i][1:]):
            counts = {key: row[4:] for (key,), row in values.items()}
            kept = {value: [0, 0, 0] for value in counts}
            for kind, part in enumerate((heavy, light, sparse)):
                for pair in part:
                    kept[pair[place]][kind] += 1
            assert {value: tuple(lengths) for value, lengths in kept.items()} == counts
        paths: dict[Any, int] = {}
        for (x, y), (m,) in heavy.items():
            for (middle, z), (n,) in stores[(3 * i + 4) % (3 * len(flat.relations))].items():
                if middle == y:
                    key = (x, z, y) if flat._shape[flat_parts.WITNESSES + i] else (x, z)
                    paths[key] = paths.get(key, 0) + m * n
        view = stores[3 * len(flat.relations) + i]
        assert {key: (m,) for key, m in paths.items() if m} == view


def check_degrees(heavy: list[int], light: list[int], every: list[int], threshold: float) -> None:
    degrees = Counter(every)
    assert not set(heavy) & set(light)
    assert all(degrees[value] >= threshold / 2 for value in heavy)
    assert all(degrees[value] < 1.5 * threshold for value in light)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(("keys", "steps", "size"), [("", 3, 3), ("t.c, r.a, r.b", 5, 4)])
def test_rebalancing_is_spread_over_updates(
    keys: str, steps: int, size: int, linear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers and views are right at any time, an update does no more than its share, and it comes to an end."""
    monkeypatch.setattr(flat_state, "ENABLED", True)
    whole = plan(keys, 0.5, linear=linear)
    wanted = replace(whole, query=replace(whole.query, rebalance_steps=steps))
    for name in ("power_law", "grow_and_shrink"):
        flat, tables = FlatState(wanted, CATALOGUE, StringDictionary()), Tables()
        changes, most = list(STREAMS[name](Random(3), LENGTH)), 0
        for start in range(0, len(changes), size):
            apply(flat, wanted, changes[start : start + size])
            if start % 5:
                flat.commit()
            else:
                flat.rollback()
                apply(flat, wanted, changes[start : start + size])
                flat.commit()
            for change in changes[start : start + size]:
                tables.apply(change)
            assert {key: numbers[0] for key, numbers in flat.groups()} == tables.groups(KEYS[keys])
            check(flat, settled=False)
            most = max(most, 2 * max(len(rows) for rows in flat.relations[0][1:]) + 2)
        assert 0 < flat.facts().work.longest <= steps + most
        for _ in range(LENGTH):
            for times in (1, -1):
                apply(flat, wanted, [(0, 0, 1, times)])
                flat.commit()
        assert not flat._balance[flat_words.SWEEP]
        check(flat)


def test_tuples_that_were_on_their_way_when_a_state_was_saved() -> None:
    """A value that is half moved when it is saved is in one part when it continues."""
    whole = plan("r.a", 0.5)
    wanted = replace(whole, query=replace(whole.query, rebalance_steps=1))
    found = set()
    for length in range(60, 90):
        old, new = (FlatState(wanted, CATALOGUE, StringDictionary()) for _ in range(2))
        for start in range(0, length, 2):
            apply(old, wanted, [(i % 3, 0 if i % 2 else i, i if i % 2 else 0, 1) for i in range(start, start + 2)])
            old.commit()
        found.add(
            bool(old._balance[flat_words.SWEEP])
            or old._balance[flat_words.QUEUE_BEGIN] < old._balance[flat_words.QUEUE_END]
        )
        saved = Saved()
        layout = old.save(SimpleNamespace(words=saved.write_words))  # type: ignore[arg-type]
        new.resume(layout, SimpleNamespace(words=saved.read))  # type: ignore[arg-type]
        check(new)
        assert dict(new.groups()) == dict(old.groups())
    assert True in found


class Saved:
    """What a state has saved, in memory."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def write_words(self, name: str, words: Any) -> None:
        self.held[name] = words.copy()

    def write_rows(self, name: str, items: Any, arity: int, width: int) -> None:
        self.held[name] = list(items)

    def read(self, name: str, arity: int = 0) -> Any:
        return self.held[name]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("linear", "before"), [(True, True), (False, True), (True, False)])
def test_a_saved_state_continues_in_linear_space_or_not(linear: bool, before: bool, compiled: bool) -> None:
    changes = list(STREAMS["power_law"](Random(8), 3 * LENGTH))
    old, new = (pair(plan("r.a", 0.5, linear=each))[compiled] for each in (before, linear))
    apply(old, old._plan, changes[: 2 * LENGTH])
    old.commit()
    saved = Saved()
    writer: Any = SimpleNamespace(words=saved.write_words, rows=saved.write_rows)
    layout = old.save(writer)
    new.resume(layout, SimpleNamespace(words=saved.read, rows=saved.read))  # type: ignore[arg-type]
    assert dict(new.groups()) == dict(old.groups())
    assert new.facts().sizes["V_RS"] == len(image(new)[2][9])
    assert linear is not before or image(new) == image(old)
    for state in (old, new):
        apply(state, state._plan, changes[2 * LENGTH :])
    assert dict(new.groups()) == dict(old.groups())
    if isinstance(new, FlatState):
        check(new)
    else:
        invariants.check(new.triangles)


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.5, 1.0])
def test_copies_of_one_relation_are_kept_once(epsilon: float) -> None:
    """Directed cycles in a table of edges, loops and multiplicities included, with a third of the state."""
    sql = "SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    query = recognise_triangle(bind_query(sql, CATALOGUE).query, (epsilon,) * 3)  # type: ignore[arg-type]
    wanted = AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))
    for name, stream in STREAMS.items():
        flat, tables = FlatState(wanted, CATALOGUE, StringDictionary()), Tables()
        assert len(flat.stores) == 4
        changes = [(0, *change[1:]) for change in stream(Random(6), LENGTH)]
        for start in range(0, len(changes), 5):
            batch = changes[start : start + 5]
            apply(flat, wanted, batch)
            for _, first, second, times in batch:
                for relation in range(3):
                    tables.apply((relation, first, second, times))
            assert dict(flat.groups()).get((), (0,)) == (tables.count(),), name
            assert 3 * flat._size == tables.size
            if start % 2:
                flat.commit()
            else:
                flat.rollback()
                apply(flat, wanted, batch)
                flat.commit()
        assert sum(size for name, size in flat.facts().sizes.items() if name.startswith("R_")) == flat._size


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("keys", ["", "r.a"])
def test_an_interrupt_between_two_calls_of_the_kernel_is_taken_back(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_state, "ENABLED", True)
    wanted = plan(keys, 0.5)
    changes = list(STREAMS["grow_and_shrink"](Random(4), LENGTH))
    call = FlatState._call
    for point in range(1, 60, 3):
        flat = FlatState(wanted, CATALOGUE, StringDictionary())
        apply(flat, wanted, changes[:30])
        flat.changes()
        flat.commit()
        before, calls = image(flat)[3], 0

        def interrupted(self: FlatState, *given: Any, point: int = point) -> Any:
            nonlocal calls
            calls += 1
            if calls == point:
                raise InterruptError
            return call(self, *given)

        monkeypatch.setattr(FlatState, "_call", interrupted)
        try:
            apply(flat, wanted, changes[30:45])
            apply(flat, wanted, changes[45:])
        except InterruptError:
            pass
        calls = -(10**6)
        flat.rollback()
        monkeypatch.setattr(FlatState, "_call", call)
        assert image(flat)[3] == before
        check(flat)
        apply(flat, wanted, changes[30:])
        check(flat)


@pytest.mark.parametrize("share", [2, 40])
def test_all_triangles_at_once(share: int) -> None:
    """Lists of about the same length are merged, others are searched; one relation stands for three copies."""
    random, relations = Random(9), list[Any]()
    tables = Tables()
    for relation in range(3):
        pairs = {(random.randrange(3 if relation else share), random.randrange(60)) for _ in range(300)}
        pairs |= {(second, first) for first, second in pairs} if relation == 2 else set()
        rows = [(*pair, random.choice((-1, 1, 2))) for pair in sorted(pairs)]
        for row in rows:
            tables.apply((relation, *row))
        relations.append(np.array(rows, np.int64))
    control = np.zeros(CONTROL_WORDS, np.int64)
    assert sum_triangles(relations, 1, control)[0].tolist() == [tables.count()]
    once = Tables()
    for relation in range(3):
        for row in relations[2].tolist():
            once.apply((relation, *row))
    assert sum_triangles(relations[2:], 1, control)[0].tolist() == [once.count()]
    empty = np.zeros((0, 3), np.int64)
    assert sum_triangles([relations[0], empty, relations[2]], 1, control)[0].tolist() == [0]
