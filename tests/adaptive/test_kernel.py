"""The kernel on flat arrays keeps what the reference form keeps: N, parts, views and groups, after every batch."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.adaptive.oracle import Tables
from tests.adaptive.streams import LENGTH, STREAMS, Change
from viewlet.adaptive import flat_state, kernel
from viewlet.adaptive.flat_state import FlatState
from viewlet.adaptive.plan import AdaptivePlan
from viewlet.adaptive.reference import ReferenceState
from viewlet.algebra.recognise_triangle import recognise_triangle
from viewlet.changes import RowChange
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


def plan(keys: str, epsilon: float | tuple[float, float, float], numbers: str = "COUNT(*) AS n") -> AdaptivePlan:
    grouped = f"SELECT {keys}, {numbers}" if keys else f"SELECT {numbers}"
    sql = f"{grouped} FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a" + (f" GROUP BY {keys}" if keys else "")
    each = epsilon if isinstance(epsilon, tuple) else (epsilon,) * 3
    query = recognise_triangle(bind_query(sql, CATALOGUE).query, each)  # type: ignore[arg-type]
    return AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))


def image(state: Any) -> Any:
    """N, the thresholds, six parts, three views and the groups."""
    if isinstance(state, ReferenceState):
        parts, numbers = state.triangles.parts, state._plan.numbers
        held = [
            {(x, y): numbers(m) for x, y, m in part.items()} for p in parts.partitions for part in (p.heavy, p.light)
        ]
        held += [
            {(*ends, middle) if view.witnesses else ends: numbers(m) for ends, middle, m in view.items()}
            for view in parts.views
        ]
        return parts.base, list(parts.thresholds), held, dict(state.groups())
    stores = [dict(store.items()) for store in state.stores[: kernel.GROUPS]]
    return state._base, state._thresholds.tolist(), stores, dict(state.groups())


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
    ("keys", "epsilon", "size"),
    [
        ("", 0.5, 1),
        ("", 0.0, 6),
        ("", 0.25, 9),
        ("", 1.0, 40),
        ("r.a", 0.75, 5),
        ("r.a", (0.25, 0.0, 1.0), 7),
        ("s.b, s.c", 0.5, 12),
        ("t.c, r.a, r.b", 0.5, 8),
        ("t.c, r.a, r.b", (0.0, 0.5, 0.25), 30),
    ],
)
def test_the_state_is_that_of_the_reference_after_every_batch(keys: str, epsilon: Any, size: int) -> None:
    wanted = plan(keys, epsilon)
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


def check(flat: FlatState) -> None:
    """The arrays satisfy the invariants: sizes, degrees, and views by their definition."""
    base, thresholds, stores, _ = image(flat)
    assert base // 4 <= flat._size < base
    for i in range(3):
        heavy, light = ({x for x, _ in stores[2 * i + part]} for part in (0, 1))
        assert not heavy & light
        for values, part in ((heavy, 2 * i), (light, 2 * i + 1)):
            for value in values:
                degree = sum(x == value for x, _ in stores[part])
                assert degree >= thresholds[i] / 2 if part % 2 == 0 else degree < 1.5 * thresholds[i]
        paths: dict[Any, int] = {}
        for (x, y), (m,) in stores[2 * i].items():
            for (middle, z), (n,) in stores[2 * ((i + 1) % 3) + 1].items():
                if middle == y:
                    key = (x, z, y) if flat._shape[kernel.WITNESSES + i] else (x, z)
                    paths[key] = paths.get(key, 0) + m * n
        assert {key: (m,) for key, m in paths.items() if m} == stores[kernel.VIEWS + i]


@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.5, 1.0])
def test_copies_of_one_relation_are_kept_once(epsilon: float) -> None:
    """Directed cycles in a table of edges, loops and multiplicities included, with a third of the state."""
    sql = "SELECT COUNT(*) AS n FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"
    query = recognise_triangle(bind_query(sql, CATALOGUE).query, (epsilon,) * 3)  # type: ignore[arg-type]
    wanted = AdaptivePlan(query, plan_query("v", query.result, {query.table.name: query.table}, "higher-order"))
    for name, stream in STREAMS.items():
        flat, tables = FlatState(wanted, CATALOGUE, StringDictionary()), Tables()
        assert len(flat.stores) == 3
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
        assert flat.facts().sizes["R_heavy"] + flat.facts().sizes["R_light"] == flat._size


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
