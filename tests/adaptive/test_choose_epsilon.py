"""`epsilon = 'auto'`: chosen from degrees and a memory budget at major rebalancings; answers stay right throughout."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewlet
from tests.adaptive.oracle import Tables
from tests.adaptive.streams import STREAMS
from viewlet.adaptive import choose_epsilon as choosing
from viewlet.adaptive import invariants
from viewlet.adaptive.choose_epsilon import AT_FIRST, OVERRAN, Choice, Degrees, choose_epsilon
from viewlet.adaptive.rebalance import on_batch, on_update
from viewlet.adaptive.triangles import Triangles
from viewlet.rings import INTEGER_RING

SCHEMA = "CREATE TABLE e (a BIGINT NOT NULL, b BIGINT NOT NULL)"
CYCLES = "SELECT COUNT(*) AS n FROM e x JOIN e y ON x.b = y.a JOIN e z ON y.b = z.a AND z.b = x.a"
LISTED = "SELECT x.a AS p, y.a AS q, z.a AS r FROM e x JOIN e y ON x.b = y.a JOIN e z ON y.b = z.a AND z.b = x.a"
HUBS = [(0, i) for i in range(10, 60)] + [(i, 0) for i in range(10, 60)]


@pytest.fixture(autouse=True)
def however_few_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "SMALLEST", 20)


def chosen(sample: list[Degrees], budget: float | None = None, linear: bool = True) -> float:
    return choose_epsilon((10_000,) * 3, lambda: [sample] * 3, linear, budget, None).epsilon


def test_short_sides_need_no_parts_and_long_ones_do() -> None:
    """Where one side of every tuple is short, it is enumerated, and views would cost more than they save."""
    star = [Degrees(2000, 1, 1, 2000), Degrees(1, 2000, 2000, 1)]
    assert chosen(star) != 0.5
    assert chosen([Degrees(5, 5000, 3000, 3000), Degrees(5, 5000, 5, 5)]) == 0.5
    assert chosen([Degrees(4, 4, 4, 4)]) == 0.5  # all the same: the one with the best bound


def test_views_have_to_fit_the_memory() -> None:
    heavy = [Degrees(300, 1, 20, 300), Degrees(20, 900, 900, 900)]
    free = choose_epsilon((10_000,) * 3, lambda: [heavy] * 3, False, None, None)
    tight = choose_epsilon((10_000,) * 3, lambda: [heavy] * 3, False, 0, None)
    assert "too much memory" not in free.reason
    assert "but too much memory" in tight.reason
    assert tight.epsilon != 0.5


def test_few_tuples_and_overruns_are_safe() -> None:
    def fails() -> Any:
        raise AssertionError("nothing is sampled")

    assert choose_epsilon((3, 3, 3), fails, True, None, None) is AT_FIRST
    after = choose_epsilon((100, 100, 100), fails, True, None, OVERRAN)
    assert after == Choice(0.5, "as updates took more steps than expected before")


@pytest.mark.parametrize("stream", STREAMS)
def test_the_reference_form_keeps_its_invariants_whatever_is_chosen(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "MARGIN", 2.0)  # whichever is estimated best
    random, tables = Random(5), Tables()
    state: Triangles[int] = Triangles(INTEGER_RING, 0.5, (0,), linear=True, chooses=True)
    changes = list(STREAMS[stream](random, 80))
    seen = set()
    for i in range(0, len(changes), 2):
        for change in changes[i : i + 2]:
            tables.apply(change)
        if i % 4:
            on_batch(state, changes[i : i + 2])
        else:
            for each in changes[i : i + 2]:
                on_update(state, *each)
        invariants.check(state)
        assert dict(state.groups.items()) == tables.groups((0,))
        seen.add(state.parts.epsilons)
    assert all(len(set(each)) == 1 for each in seen)


def test_updates_that_take_longer_than_promised_lead_back_to_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "OVERRUN", 0.1)
    state: Triangles[int] = Triangles(INTEGER_RING, linear=True, chooses=True)
    on_batch(state, [(i, x, y, 1) for x, y in HUBS for i in range(3)])
    assert state.parts.epsilons != (0.5, 0.5, 0.5)
    for step in range(60):
        on_update(state, 0, 0, 0, 1 if step % 2 == 0 else -1)
        invariants.check(state)
    assert state.parts.choice is OVERRAN
    assert state.parts.epsilons == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_from_sql_in_a_directory_and_after_a_batch_that_failed(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "MARGIN", 2.0)
    random, twin = Random(3), viewlet.connect()
    twin.execute(SCHEMA)
    twin.execute(f"CREATE MATERIALIZED VIEW n WITH (strategy = 'first-order') AS {CYCLES}")
    twin.execute(f"CREATE MATERIALIZED VIEW l WITH (strategy = 'first-order') AS {LISTED}")
    held: list[tuple[int, int]] = []
    seen = set()
    for number in range(4):
        with viewlet.connect(tmp_path, engine=engine, fsync=False) as db:
            if number == 0:
                db.execute(SCHEMA)
                for name, sql in (("n", CYCLES), ("l", LISTED)):
                    options = "strategy = 'adaptive', epsilon = 'auto', memory = '1 MB'"
                    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH ({options}) AS {sql}")
            new = [(random.randrange(9), random.randrange(9)) for _ in range(20)]
            new += HUBS if number == 2 else []
            gone = random.sample(held, len(held) // 3)
            for edge in gone:
                held.remove(edge)
            held += new
            for each in (db, twin):
                each.insert("e", new)
                each.delete("e", gone)
            with pytest.raises(viewlet.DataError):
                db.apply({"e": [{"a": 1, "b": 1}, {"a": 99, "b": 99, "_multiplicity": -1}]})
            for name in "nl":
                assert db.view(name).rows() == twin.view(name).rows()
            stats: Any = db.view("n").stats()
            seen.add(stats["epsilons"][0])
            told = db.explain("n", "parts")
            assert told.startswith(f"epsilon = {stats['epsilons'][0]:g}, ")
    assert len(seen) > 1


def test_explain_says_what_was_chosen_and_why() -> None:
    db = viewlet.connect(engine="interpreter")
    db.execute(SCHEMA)
    db.execute(f"CREATE MATERIALIZED VIEW n WITH (strategy = 'adaptive', epsilon = 'auto') AS {CYCLES}")
    assert "epsilon = 'auto': at first 0.5" in db.explain("n", "triangle")
    assert "as there are fewer than" in db.explain("n", "parts")
    db.insert("e", HUBS)
    assert "by the degrees; expected steps for an update: 0: " in db.explain("n", "parts")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("memory = '1 MB'", "memory is for epsilon = 'auto'"),
        ("epsilon = 'auto', memory = 'much'", "memory is a number of bytes"),
        ("epsilon = 'often'", "epsilon is a number from 0 to 1, three of them for the three tables, or 'auto'"),
    ],
)
def test_wrong_options_are_named(options: str, message: str) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    with pytest.raises(viewlet.SqlError, match=message):
        db.execute(f"CREATE MATERIALIZED VIEW n WITH (strategy = 'adaptive', {options}) AS {CYCLES}")
