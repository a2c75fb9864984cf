"""Block fusion, dead code and shared temporaries on programs small enough to check by eye."""

from __future__ import annotations

from viewlet.algebra.nodes import Delta, Expr, Sum, Value, Var, View, mul
from viewlet.algebra.traverse import Names
from viewlet.spark.plan.blocks import commute, fuse, levels, one_by_one
from viewlet.spark.plan.dead import live
from viewlet.spark.plan.locations import RANDOM, REPLICATED
from viewlet.spark.plan.program import Compute, Mode, Move, Movement, Step
from viewlet.spark.plan.temporaries import Temporaries
from viewlet.triggers.program import Statement, Update
from viewlet.types import BIGINT


def writes(view: str, *read: str, replaces: bool = False, mode: Mode = Mode.DISTRIBUTED) -> Compute:
    expr = mul(*(View(name, "count", ()) for name in read)) if read else View("nothing", "count", ())
    return Compute(Statement(view, (), (Update("count", expr),), replaces), mode)


def moves(target: str, source: str) -> Move:
    return Move(target, source, Movement.REPART, REPLICATED)


def names(blocks: list[list[Step]]) -> list[list[str]]:
    return [[name for step in steps for name in step.footprint.writes] for steps in blocks]


def fused(*steps: Step) -> list[list[str]]:
    return names([list(block.steps) for block in fuse(one_by_one(steps))])


def test_commutativity() -> None:
    assert commute(writes("v", "a").footprint, writes("w", "a").footprint)
    assert commute(writes("v", "a").footprint, writes("v", "b").footprint)
    assert not commute(writes("v", "a").footprint, writes("w", "v").footprint)
    assert not commute(writes("w", "v").footprint, writes("v", "a").footprint)
    assert not commute(writes("v", "a", replaces=True).footprint, writes("v", "b").footprint)


def test_independent_statements_share_blocks_and_requests() -> None:
    found = fused(
        writes("t1"), moves("m1", "t1"), writes("v", "m1"), writes("t2"), moves("m2", "t2"), writes("w", "m2")
    )
    assert found == [["t1", "t2"], ["m1", "m2"], ["v", "w"]]


def test_a_statement_does_not_overtake_what_it_depends_on() -> None:
    """w is read for t2 before it changes, and after it changes for t3."""
    steps = (
        writes("t1"),
        moves("m1", "t1"),
        writes("t2", "w"),
        writes("w", "m1"),
        writes("t3", "w"),
        moves("m3", "t3"),
        writes("v", "m3", "t2"),
    )
    assert fused(*steps) == [["t1", "t2"], ["m1"], ["w", "t3"], ["m3"], ["v"]]
    assert levels((step.mode, step.footprint) for step in steps) == [0, 1, 0, 2, 2, 3, 4]


def test_an_evaluation_that_is_overwritten_is_dead_with_its_moves() -> None:
    steps = [
        writes("t1", "a", replaces=True),
        moves("m1", "t1"),
        writes("v", "m1"),
        writes("t2", "b", replaces=True),
        moves("m2", "t2"),
        writes("v", "m2", replaces=True),
        writes("t3", "a", replaces=True),
    ]
    assert live([step.footprint for step in steps], {"t1", "m1", "t2", "m2", "t3"}) == [3, 4, 5]


def test_what_is_read_in_between_is_alive() -> None:
    steps = [writes("v", "a", replaces=True), writes("w", "v"), writes("v", "b", replaces=True)]
    assert live([step.footprint for step in steps], ()) == [0, 1, 2]


NUMBER = BIGINT.with_nullable(False)
a, b, x, y = (Var(name, NUMBER) for name in "abxy")


def change(left: Var, right: Var, *others: Expr) -> Sum:
    return Sum((left,), mul(Delta("r", (left, right)), *others))


def test_equal_contents_are_computed_once() -> None:
    temporaries = Temporaries(Names(), set())
    first, atom = temporaries.computed(change(a, b, Value(b)), RANDOM)
    second, renamed = temporaries.computed(change(x, y, Value(y)), RANDOM)
    assert first is second
    assert (atom.field, atom.args, renamed.field, renamed.args) == ("sum_1", (a,), "sum_1", (x,))
    third, count = temporaries.computed(change(a, b), RANDOM)
    assert (third, count.field) == (first, "sum_2")
    elsewhere, _ = temporaries.computed(change(a, b), REPLICATED)
    assert elsewhere is not first


def test_contents_that_changed_in_between_are_computed_again() -> None:
    temporaries = Temporaries(Names(), set())
    expr = Sum((a,), mul(Delta("r", (a, b)), View("v", "count", (a,))))
    before, _ = temporaries.computed(expr, RANDOM)
    temporaries.run(writes("v"))
    after, _ = temporaries.computed(expr, RANDOM)
    assert before is not after


def test_sums_over_several_fields_of_a_view_travel_together() -> None:
    temporaries = Temporaries(Names(), set())
    count, _ = temporaries.computed(Sum((a,), mul(Delta("r", (a, b)), View("v", "count", (a,)))), RANDOM)
    total, atom = temporaries.computed(Sum((a,), mul(Delta("r", (a, b)), View("v", "total", (a,)))), RANDOM)
    assert count is total
    assert atom.field == "sum_2"
    (step,) = temporaries.finish()[0]
    assert isinstance(step, Compute)
    assert len(step.statement.updates) == 2
