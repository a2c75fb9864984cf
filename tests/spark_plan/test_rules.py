"""Every rule that moves or merges transformers keeps what an expression means, worker by worker."""

from __future__ import annotations

from random import Random

import pytest

from viewlet.algebra.evaluate import Number, State, evaluate
from viewlet.algebra.nodes import (
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Lift,
    Mul,
    Neg,
    Sum,
    Value,
    Var,
    View,
    add,
    compare,
    mul,
)
from viewlet.algebra.scope import outputs
from viewlet.spark.plan.annotate import Planner
from viewlet.spark.plan.cost import cost_of
from viewlet.spark.plan.explain import show_moved
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation
from viewlet.spark.plan.nodes import Gather, Moved, Repart, Scatter, Transformer, as_expr, rebuild, strip
from viewlet.spark.plan.products import distributed, flattened
from viewlet.spark.plan.rules import (
    Improver,
    drop_needless,
    merge,
    push_through_assignment,
    push_through_product,
    push_through_sum,
    push_through_union,
    simplify,
)
from viewlet.spark.plan.wellformed import AT_DRIVER, COPIED, FREE, SPREAD, IllFormedError, Placement, Tag, tag_of
from viewlet.triggers.store import MapStore
from viewlet.types import BIGINT, Row

WORKERS = 3
NUMBER = BIGINT.with_nullable(False)
a, b, c, d, n = (Var(name, NUMBER) for name in "abcdn")
KEYS = {"m1": (a, b), "m2": (a, b), "copied": (b, c), "driver": (a,)}
LOCATIONS: dict[str, ViewLocation] = {"m1": Dist((a,)), "m2": Dist((b,)), "copied": REPLICATED, "driver": LOCAL}
PLACEMENT = Placement(LOCATIONS, KEYS)
BY_A, BY_B = Dist((a,)), Dist((b,))
M1, M2 = View("m1", "count", (a, b)), View("m2", "count", (a, b))
COPY, AT_HOME, CHANGE = View("copied", "count", (b, c)), View("driver", "count", (a,)), Delta("r", (a, b))
OTHER_M1, OTHER_M2 = View("m1", "count", (a, d)), View("m2", "count", (a, d))
SMALL = Cond(compare("<", a, Const(3, NUMBER)))


class Workers:
    """Random contents of the views above, split as their locations say, and one change, split anyhow."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.states = [State({}, {"r": MapStore()}, {name: MapStore() for name in KEYS}) for _ in range(WORKERS)]
        self.driver = State({}, {"r": MapStore()}, {name: MapStore() for name in KEYS})
        self.whole = State({}, {"r": MapStore()}, {name: MapStore() for name in KEYS})
        for name, keys in KEYS.items():
            for _ in range(9):
                key: Row = tuple(random.randrange(5) for _ in keys)
                self._add(name, keys, key, random.choice((1, 1, 2, -1)))
        for _ in range(8):
            key = (random.randrange(5), random.randrange(5))
            count = random.choice((1, -1))
            _store(self.whole.deltas["r"]).add(key, (count,))
            _store(random.choice(self.states).deltas["r"]).add(key, (count,))

    def _add(self, name: str, keys: tuple[Var, ...], key: Row, count: int) -> None:
        location = LOCATIONS[name]
        _store(self.whole.views[name]).add(key, (count,))
        if location == LOCAL:
            _store(self.driver.views[name]).add(key, (count,))
        for number, state in enumerate(self.states):
            mine = isinstance(location, Dist) and number == partition_of(
                (key[keys.index(v)] for v in location.by), WORKERS
            )
            if location == REPLICATED or mine:
                _store(state.views[name]).add(key, (count,))

    def value(self, moved: Moved, keys: tuple[Var, ...]) -> dict[Row, Number]:
        """What the expression is, computed where its parts are and put together."""
        tag = tag_of(moved, PLACEMENT)
        bare = self._materialized(moved)
        if tag in (AT_DRIVER, FREE):
            return evaluate(bare, keys, self.driver)
        total: dict[Row, Number] = {}
        for state in self.states[:1] if tag == COPIED else self.states:
            for key, number in evaluate(bare, keys, state).items():
                total[key] = total.get(key, 0) + number
        return {key: number for key, number in total.items() if number}

    def _materialized(self, moved: Moved) -> Expr:
        """The expression with the outcome of every transformer stored, at its destination, as a view."""
        if not isinstance(moved, Transformer):
            return as_expr(rebuild(moved, self._materialized))
        keys = tuple(sorted(outputs(strip(moved)), key=lambda var: var.name))
        contents = self.value(moved.body, keys)
        name = f"moved {len(self.driver.views)}"
        for number, state in enumerate([*self.states, self.driver]):
            store = MapStore(("count",), None)
            state.views[name] = store  # type: ignore[index]
            for key, count in contents.items():
                if _arrives(moved, keys, key, number):
                    store.add(key, (count,))
        return View(name, "count", keys)


def _arrives(moved: Transformer, keys: tuple[Var, ...], key: Row, node: int) -> bool:
    if isinstance(moved, Gather):
        return node == WORKERS
    if isinstance(moved.to, Dist):
        return node == partition_of((key[keys.index(var)] for var in moved.to.by), WORKERS)
    return node < WORKERS


def _store(relation: object) -> MapStore:
    assert isinstance(relation, MapStore)
    return relation


def same(left: Moved, right: Moved) -> bool:
    keys = tuple(sorted(outputs(strip(left)), key=lambda var: var.name))
    found = []
    for seed in range(12):
        expected = evaluate(strip(left), keys, Workers(seed).whole)
        assert Workers(seed).value(left, keys) == expected, show_moved(left)
        assert Workers(seed).value(right, keys) == expected, show_moved(right)
        found.append(expected)
    return any(found)


@pytest.mark.parametrize(
    ("rule", "moved"),
    [
        (push_through_product, Repart(BY_A, mul(Sum((a, b), CHANGE), COPY, SMALL))),
        (push_through_product, Repart(BY_B, mul(M1, COPY))),
        (push_through_product, Gather(mul(M1, COPY, Value(b)))),
        (push_through_product, Scatter(BY_A, mul(AT_HOME, SMALL))),
        (push_through_union, Repart(BY_B, add(M1, CHANGE, mul(M2, Value(a))))),
        (push_through_union, Gather(add(M1, Neg(CHANGE)))),
        (push_through_union, Repart(BY_B, Neg(M1))),
        (push_through_sum, Repart(BY_B, Sum((b,), M1))),
        (push_through_sum, Gather(Sum((), mul(CHANGE, Value(a))))),
        (push_through_sum, Scatter(BY_A, Sum((a,), AT_HOME))),
        (push_through_assignment, Repart(REPLICATED, Lift(n, Sum((), View("copied", "count", (b, c)))))),
        (push_through_assignment, Gather(Lift(n, Value(Const(7, NUMBER))))),
    ],
    ids=lambda value: value.__name__ if callable(value) else show_moved(value),
)
def test_pushing_keeps_the_meaning(rule: object, moved: Moved) -> None:
    assert callable(rule)
    if isinstance(moved, Gather) and isinstance(strip(moved), Lift):
        assert rule(moved) == moved.body
        return
    pushed = rule(moved)
    assert pushed is not None
    assert pushed != moved
    assert same(moved, pushed)


@pytest.mark.parametrize(
    ("moved", "merged"),
    [
        (Repart(BY_A, Repart(BY_B, CHANGE)), Repart(BY_A, CHANGE)),
        (Repart(BY_A, Scatter(REPLICATED, AT_HOME)), Scatter(BY_A, AT_HOME)),
        (Gather(Repart(BY_B, M1)), Gather(M1)),
        (Gather(Scatter(BY_A, AT_HOME)), AT_HOME),
        (Scatter(BY_B, Gather(M1)), Repart(BY_B, M1)),
    ],
    ids=lambda value: show_moved(value),
)
def test_merging_keeps_the_meaning(moved: Moved, merged: Moved) -> None:
    assert merge(moved) == merged
    assert same(moved, merged)


def test_needless_transformers_go() -> None:
    assert drop_needless(Repart(BY_A, M1), PLACEMENT) == M1
    assert drop_needless(Gather(AT_HOME), PLACEMENT) == AT_HOME
    assert drop_needless(Repart(REPLICATED, COPY), PLACEMENT) == COPY
    assert drop_needless(Repart(BY_B, M1), PLACEMENT) is None
    assert simplify(Repart(BY_A, Repart(BY_B, Repart(BY_A, M1))), PLACEMENT) == M1


def test_the_worked_example_needs_one_round() -> None:
    """Example 5.2.1 of the thesis: M(A) += Sum[A](M1(A, B) * M2(A, B)), M and M1 by A, M2 by B."""
    plan = Planner(PLACEMENT).place(Sum((a,), mul(M1, M2)), BY_A, (a,))
    assert show_moved(plan.expr) == "Sum[a](m1.count[a, b] * Repart[a](m2.count[a, b]))"
    assert plan.cost.rounds == 1
    naive = Repart(BY_A, Sum((a,), as_expr(mul(as_expr(Repart(BY_B, M1)), M2))))
    assert cost_of(naive, {}) > plan.cost
    assert same(naive, plan.expr)
    better = Improver(PLACEMENT, {}).improve(naive)
    assert cost_of(better, {}).rounds == 1
    assert same(naive, better)


def test_changes_are_summed_up_before_they_travel() -> None:
    expr = Sum((a,), mul(CHANGE, Value(b), SMALL, View("driver", "count", (a,))))
    locations: dict[str, ViewLocation] = {**LOCATIONS, "driver": BY_A}
    plan = Planner(Placement(locations, KEYS)).place(expr, BY_A, (a,))
    assert show_moved(plan.expr) == "Sum[a](driver.count[a] * Repart[a](Sum[a](Δr(a, b) * b * {a < 3})))"


ILL_FORMED: tuple[Moved, ...] = (
    mul(M1, M2),
    mul(M1, AT_HOME),
    mul(CHANGE, M1),
    add(M1, AT_HOME),
    Exists(CHANGE),
    Exists(Sum((b,), M1)),
    Lift(n, Sum((), M1)),
    Sum((c,), mul(View("copied", "count", (a, c)), Lift(n, Sum((a,), M1)))),
    Repart(BY_A, AT_HOME),
    Scatter(BY_A, M1),
    Gather(AT_HOME),
    Repart(Dist((c,)), M1),
)


@pytest.mark.parametrize("moved", ILL_FORMED, ids=lambda value: show_moved(value))
def test_ill_formed_expressions_are_refused(moved: Moved) -> None:
    with pytest.raises(IllFormedError):
        tag_of(moved, PLACEMENT)


@pytest.mark.parametrize(
    ("moved", "tag"),
    [
        (Sum((a,), M1), Tag(BY_A, True)),
        (Sum((b,), M1), SPREAD),
        (mul(M1, COPY), Tag(BY_A, True)),
        (mul(CHANGE, COPY), SPREAD),
        (mul(M1, Lift(n, Sum((a,), M1))), Tag(BY_A, True)),
        (Lift(n, Sum((a,), M1)), Tag(BY_A, False)),
        (Exists(M1), Tag(BY_A, True)),
        (add(M1, M2), SPREAD),
        (add(COPY, COPY), COPIED),
        (Exists(as_expr(Repart(BY_A, Sum((a,), Exists(CHANGE))))), Tag(BY_A, True)),
    ],
    ids=lambda value: show_moved(value) if not isinstance(value, Tag) else "",
)
def test_tags(moved: Moved, tag: Tag) -> None:
    assert tag_of(moved, PLACEMENT) == tag


@pytest.mark.parametrize(
    ("expr", "location", "args"),
    [
        (Sum((b,), mul(M1, COPY, Value(c))), BY_B, (b,)),
        (Sum((), mul(M1, M2)), LOCAL, ()),
        (Sum((c,), mul(M1, M2, COPY)), LOCAL, (c,)),
        (Sum((a,), mul(M1, Lift(n, Sum((a,), OTHER_M2)), Value(n))), BY_A, (a,)),
        (Sum((a, n), mul(Exists(M1), Lift(n, Sum((), View("m2", "count", (c, d)))))), BY_A, (a, n)),
        (Exists(Sum((b,), M1)), BY_B, (b,)),
        (mul(AT_HOME, Lift(n, Sum((a,), M1)), Value(n)), LOCAL, (a,)),
        (Sum((b,), mul(AT_HOME, M1)), BY_B, (b,)),
        (Sum((b, c), mul(CHANGE, COPY)), REPLICATED, (b, c)),
        (Sum((b,), mul(CHANGE, Sum((a,), OTHER_M1), Sum((b,), View("m2", "count", (c, b))))), BY_B, (b,)),
        (Value(Const(3, NUMBER)), LOCAL, ()),
        (Sum((a,), mul(Lift(a, Value(Const(3, NUMBER))), Value(a))), BY_A, (a,)),
    ],
    ids=lambda value: show_moved(value) if not isinstance(value, tuple | ViewLocation) else str(value),
)
def test_placed_expressions_mean_the_same(expr: Expr, location: ViewLocation, args: tuple[Var, ...]) -> None:
    plan = Planner(PLACEMENT).place(expr, location, args)
    assert tag_of(plan.expr, PLACEMENT) == plan.tag
    assert cost_of(plan.expr, {}) == plan.cost
    for seed in range(12):
        workers = Workers(seed)
        assert workers.value(plan.expr, args) == evaluate(expr, args, workers.whole), show_moved(plan.expr)


def test_products_may_be_written_differently() -> None:
    nested = mul(CHANGE, Sum((a,), OTHER_M1))
    assert isinstance(nested, Mul)
    flat = flattened(nested)
    assert flat is not None
    assert flattened(Mul((M1, M2))) is None
    union = Mul((CHANGE, add(Sum((a,), OTHER_M1), Sum((b,), View("m2", "count", (c, b))))))
    apart = distributed(union)
    assert apart is not None
    assert distributed(nested) is None
    for seed in range(12):
        whole = Workers(seed).whole
        assert evaluate(flat, (a, b), whole) == evaluate(nested, (a, b), whole)
        assert evaluate(apart, (a, b), whole) == evaluate(union, (a, b), whole)
