"""Moving transformers through expressions, and merging them (thesis, Figures 5.2 and 5.3).

Every rule maps an expression to an equal one, or to None where it does not apply. T stands for Repart, Scatter or
Gather. The rules keep what an expression means; whether the outcome is well-formed, `tag_of` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viewlet.algebra.nodes import Add, Extremum, Lift, Mul, Neg, Sum, Value, Var, once
from viewlet.algebra.scope import inputs, outputs
from viewlet.spark.plan.cost import Cost, cost_of
from viewlet.spark.plan.locations import REPLICATED, Dist
from viewlet.spark.plan.nodes import (
    Gather,
    Moved,
    Repart,
    Scatter,
    Transformer,
    as_expr,
    children,
    rebuild,
    strip,
    with_body,
)
from viewlet.spark.plan.wellformed import AT_DRIVER, COPIED, IllFormedError, Placement, Tag, is_scalar, tag_of

Rule = Callable[[Moved], Moved | None]


def push_through_product(moved: Moved) -> Moved | None:
    """T(a * b) = T(a) * T(b), scalars excepted: they are everywhere already.

    A factor without the variables that T partitions by goes to all workers.
    """
    if not isinstance(moved, Transformer) or not isinstance(moved.body, Mul):
        return None
    factors = (f if is_scalar(f) else sent_with(moved, f) for f in moved.body.factors)
    return Mul(tuple(as_expr(factor) for factor in factors))


def push_through_union(moved: Moved) -> Moved | None:
    """T(a + b) = T(a) + T(b), also for -a."""
    match moved:
        case (Repart() | Scatter() | Gather()) as sent if isinstance(sent.body, Add):
            return Add(tuple(as_expr(with_body(sent, term)) for term in sent.body.terms))
        case (Repart() | Scatter() | Gather()) as sent if isinstance(sent.body, Neg):
            return Neg(as_expr(with_body(sent, sent.body.body)))
        case _:
            return None


def push_through_sum(moved: Moved) -> Moved | None:
    """T(Sum[x](a)) = Sum[x](T(a)); not where T partitions by what only the Sum's context knows."""
    if not isinstance(moved, Transformer) or not isinstance(moved.body, Sum):
        return None
    inner = moved.body.body
    if not isinstance(moved, Gather) and isinstance(moved.to, Dist) and not outputs(strip(inner)) >= set(moved.to.by):
        return None
    return Sum(moved.body.keys, as_expr(with_body(moved, inner)))


def push_through_assignment(moved: Moved) -> Moved | None:
    """T(x := a) = (x := T(a)), also for the smallest and largest of a; not where T partitions by x."""
    match moved:
        case Repart(Dist(by), Lift(var, _) | Extremum(var, _, _, _)) if var in by:
            return None
        case Scatter(Dist(by), Lift(var, _) | Extremum(var, _, _, _)) if var in by:
            return None
        case Repart(_, Lift(_, Value())) | Scatter(_, Lift(_, Value())) | Gather(Lift(_, Value())):
            return moved.body
        case Repart(_, Lift(var, body)) | Scatter(_, Lift(var, body)) | Gather(Lift(var, body)):
            return Lift(var, as_expr(sent_with(moved, body)))
        case (Repart() | Scatter() | Gather()) as sent if isinstance(sent.body, Extremum):
            low = sent.body
            return Extremum(low.var, low.which, low.of, as_expr(sent_with(sent, low.body)))
        case _:
            return None


def drop_needless(moved: Moved, placement: Placement) -> Moved | None:
    """Repart[p](a) = a where a is partitioned by p already; Gather(a) = a where a is at the driver."""
    if not isinstance(moved, Transformer):
        return None
    try:
        tag = tag_of(moved.body, placement)
    except IllFormedError:
        return None
    at_target = tag == AT_DRIVER if isinstance(moved, Gather) else _is_at(tag, moved.to)
    return moved.body if at_target else None


def merge(moved: Moved) -> Moved | None:
    """Only the last of two moves counts: T1(T2(a)) is one move from where a is to where T1 goes."""
    match moved:
        case Repart(to, Repart(_, body)):
            return Repart(to, body)
        case Repart(to, Scatter(_, body)):
            return Scatter(to, body)
        case Gather(Repart(_, body)):
            return Gather(body)
        case Gather(Scatter(_, body)):
            return body
        case Scatter(to, Gather(body)):
            return Repart(to, body)
        case _:
            return None


PUSH_RULES: tuple[Rule, ...] = (
    push_through_product,
    push_through_union,
    push_through_sum,
    push_through_assignment,
)


def simplify(moved: Moved, placement: Placement) -> Moved:
    """Merges and drops transformers at the root until none is left to."""
    while (simpler := merge(moved) or drop_needless(moved, placement)) is not None:
        moved = simpler
    return moved


@dataclass(slots=True)
class Improver:
    """Finds the cheapest form that pushing transformers down leads to (thesis, section 5.3.1).

    Trial and error: every transformer is pushed as far as the rules go, and stays where it was if that is ill-formed,
    moves what cannot be computed on its own, or is no cheaper. The same parts are met again and again on the way, so
    that what becomes of each is remembered, where it is, and what it costs.
    """

    placement: Placement
    rows: Mapping[str, float]
    _improved: dict[Moved, Moved] = field(default_factory=dict)
    _costs: dict[Moved, Cost] = field(default_factory=dict)

    def improve(self, moved: Moved) -> Moved:
        found = self._improved.get(moved)
        if found is None:
            found = self._improved[moved] = self._improve(moved)
        return found

    def _improve(self, moved: Moved) -> Moved:
        if self.cost(moved).rounds < 2:
            return moved
        moved = rebuild(moved, self.improve)
        tag = self._tag(moved)
        if not isinstance(moved, Transformer) or tag is None:
            return moved
        moved = simplify(moved, self.placement)
        pushed = (rule(moved) for rule in PUSH_RULES)
        parts = [rebuild(each, self._pushed) for each in pushed if each is not None]
        forms = [moved, *(part for part in parts if self._tag(part) == tag)]
        return min([form for form in forms if is_closed(form)] or forms, key=self.cost)

    def cost(self, moved: Moved) -> Cost:
        """The cost of a whole expression."""
        return cost_of(moved, self.rows, self._costs)

    def _pushed(self, moved: Moved) -> Moved:
        return self.improve(simplify(moved, self.placement))

    def _tag(self, moved: Moved) -> Tag | None:
        try:
            return tag_of(moved, self.placement)
        except IllFormedError:
            return None


@once
def is_closed(moved: Moved) -> bool:
    """Whatever is moved can be computed on its own: a nested aggregate of it reads no variable bound outside.

    Pushing a transformer through a product may leave one around such an aggregate; it has to be pushed further inside.
    """
    if isinstance(moved, Transformer) and inputs(strip(moved.body)):
        return False
    return all(is_closed(child) for child in children(moved))


def sent_with(transformer: Transformer, part: Moved) -> Moved:
    """The transformer over a part of its body; what lacks the columns it partitions by is sent to all."""
    if isinstance(transformer, Gather) or not isinstance(transformer.to, Dist):
        return with_body(transformer, part)
    by: tuple[Var, ...] = transformer.to.by
    if outputs(strip(part)).issuperset(by):
        return with_body(transformer, part)
    return Repart(REPLICATED, part) if isinstance(transformer, Repart) else Scatter(REPLICATED, part)


def _is_at(tag: Tag, to: Dist | object) -> bool:
    return (tag.at == to and tag.adds_up) or (to == REPLICATED and tag == COPIED)
