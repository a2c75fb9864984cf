"""Which distributed expressions mean what the plain ones mean (thesis, section 5.2).

An expression is evaluated at every worker on what that worker holds. Write Q_p for what worker p computes. A tag says
how the Q_p relate to the true Q:

    Random             the sum of all Q_p is Q
    Dist(x), anchored  Q_p is Q where the hash of x names p, and 0 elsewhere (so that they add up to Q as well)
    Dist(x)            Q_p is Q where the hash of x names p; elsewhere it is anything
    Replicated         every Q_p is Q

The third kind is what an assignment yields: (s := Sum[x](V[x, y])) is right for the x that live here, and assigns a
wrong 0 to all others. It may stand in a product next to a factor that is anchored in the same place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from viewlet.algebra.nodes import (
    Add,
    Cond,
    Delta,
    Exists,
    Expr,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Sum,
    Value,
    Var,
    View,
)
from viewlet.algebra.scope import Vars, outputs
from viewlet.errors import InternalError
from viewlet.spark.plan.locations import (
    EVERYWHERE,
    LOCAL,
    RANDOM,
    REPLICATED,
    Arrival,
    Dist,
    Location,
    ViewLocation,
)
from viewlet.spark.plan.nodes import Gather, Moved, Repart, Scatter, strip


class IllFormedError(InternalError):
    """An expression that would be evaluated wrongly."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Where an expression is; `adds_up` if what the workers hold sums up to it (true at the driver as well)."""

    at: Location
    adds_up: bool


AT_DRIVER, SPREAD = Tag(LOCAL, True), Tag(RANDOM, True)
COPIED, FREE = Tag(REPLICATED, False), Tag(EVERYWHERE, False)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where views live and changes arrive."""

    locations: Mapping[str, ViewLocation]
    keys: Mapping[str, tuple[Var, ...]]
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)
    tags: dict[tuple[Moved, bool], Tag | str] = field(default_factory=dict, repr=False, compare=False)
    """What `tag_of` has found: the same parts are met again and again. A text says what is wrong with a part."""

    def tag(self, atom: Rel | Delta | View) -> Tag:
        match atom:
            case Delta(name, _):
                return AT_DRIVER if self.arrivals.get(name, RANDOM) == LOCAL else SPREAD
            case View(name, _, args):
                return location_tag(self.locations[name], self.keys[name], args)
            case Rel(name, _):
                raise InternalError(f"a distributed program reads views only, not table {name}")


def location_tag(location: ViewLocation, keys: tuple[Var, ...], args: tuple[Var, ...]) -> Tag:
    """The tag of a view read under other names."""
    if isinstance(location, Dist):
        return Tag(rename(location, keys, args), True)
    return COPIED if location == REPLICATED else AT_DRIVER


def rename(location: Dist, keys: tuple[Var, ...], args: tuple[Var, ...]) -> Dist:
    return Dist(tuple(args[keys.index(key)] for key in location.by))


def tag_of(moved: Moved, placement: Placement, tested: bool = False) -> Tag:
    """The tag of a well-formed expression; any other raises IllFormedError.

    `tested` says that an Exists around it turns what it yields into 0 or 1.
    """
    key = (moved, tested)
    found = placement.tags.get(key)
    if found is None:
        try:
            found = _tag_of(moved, placement, tested)
        except IllFormedError as error:
            found = str(error)
        placement.tags[key] = found
    if isinstance(found, str):
        raise IllFormedError(found)
    return found


def _tag_of(moved: Moved, placement: Placement, tested: bool) -> Tag:
    match moved:
        case Value() | Cond() | Lift(_, Value()):
            return FREE
        case Rel() | Delta() | View():
            return placement.tag(moved)
        case Mul(factors):
            return join_tags([tag_of(factor, placement, tested) for factor in factors])
        case Add(terms):
            return union_tags([tag_of(term, placement, tested) for term in terms])
        case Neg(body):
            return tag_of(body, placement)
        case Sum(keys, body):
            return sum_tag(tag_of(body, placement, tested), outputs(strip(body)) - set(keys))
        case Exists(body):
            inner = tag_of(body, placement, is_domain(strip(body)))
            return inner if inner == SPREAD and tested and is_domain(strip(moved)) else exists_tag(inner)
        case Lift(var, body):
            return assigned_tag(tag_of(body, placement), frozenset((var,)))
        case Extremum(var, _, of, body):
            return assigned_tag(tag_of(body, placement), frozenset((var, of)))
        case Repart(to, body):
            return _arrived(to, body, is_spread(tag_of(body, placement, tested)))
        case Scatter(to, body):
            return _arrived(to, body, tag_of(body, placement, tested) in (AT_DRIVER, FREE))
        case Gather(body):
            if not is_spread(tag_of(body, placement, tested)):
                raise IllFormedError("Gather takes what is spread over the workers")
            return AT_DRIVER
        case _:
            assert_never(moved)


def is_spread(tag: Tag) -> bool:
    """It is at the workers, and whole: adding up, or in full at each."""
    return tag == COPIED or (tag.adds_up and tag != AT_DRIVER)


def join_tags(tags: Sequence[Tag]) -> Tag:
    """A product: all factors in one place, or one of them anywhere and the others everywhere."""
    fixed = [tag for tag in tags if tag != FREE]
    if any(tag == AT_DRIVER for tag in fixed):
        if all(tag == AT_DRIVER for tag in fixed):
            return AT_DRIVER
        raise IllFormedError("a join of driver and workers")
    apart = [tag for tag in fixed if tag != COPIED]
    if not apart:
        return COPIED if fixed else FREE
    if len(apart) == 1:
        return apart[0]
    if any(tag.at != apart[0].at or tag.at == RANDOM for tag in apart):
        raise IllFormedError("a join of parts that are not partitioned alike")
    return Tag(apart[0].at, any(tag.adds_up for tag in apart))


def union_tags(tags: Sequence[Tag]) -> Tag:
    """A union: all terms in one place, or all of them adding up."""
    fixed = [tag for tag in tags if tag != FREE]
    if not fixed:
        return FREE
    if any(tag == AT_DRIVER for tag in fixed):
        if all(tag == AT_DRIVER for tag in fixed):
            return AT_DRIVER
        raise IllFormedError("a union of driver and workers")
    if all(tag.adds_up for tag in tags):
        return fixed[0] if all(tag == fixed[0] for tag in fixed) else SPREAD
    apart = [tag for tag in fixed if tag != COPIED]
    if not apart:
        return COPIED
    if any(tag.at != apart[0].at or tag.at == RANDOM for tag in apart):
        raise IllFormedError("a union of parts that are not partitioned alike")
    return Tag(apart[0].at, False)


def sum_tag(body: Tag, hidden: Vars) -> Tag:
    """A Sum that hides what its body is partitioned by leaves partial sums."""
    if not isinstance(body.at, Dist) or hidden.isdisjoint(body.at.by):
        return body
    if not body.adds_up:
        raise IllFormedError("a Sum over assignments that hold at one worker only")
    return SPREAD


def exists_tag(body: Tag) -> Tag:
    if body == SPREAD:
        raise IllFormedError("parts that add up cannot be tested one by one")
    return body


def assigned_tag(body: Tag, hidden: Vars) -> Tag:
    """An assignment of an aggregate holds where the aggregate is whole."""
    if body.at == RANDOM or (isinstance(body.at, Dist) and not hidden.isdisjoint(body.at.by)):
        raise IllFormedError("partial aggregates cannot be assigned")
    return Tag(body.at, False) if isinstance(body.at, Dist) else body


def is_domain(moved: Moved) -> bool:
    """Built from Exists(Δ...) alone: a set of keys at which something may have changed.

    It only ever restricts a difference that is 0 at all other keys (`viewlet.algebra.domain`). Rows that cancel each
    other out at different workers may therefore stay in it, and it can be made from parts: the Exists around it has
    to see all parts of a key, those inside need not.
    """
    match moved:
        case Exists(body):
            return isinstance(body, Delta) or is_domain(body)
        case Sum(_, body):
            return is_domain(body)
        case Mul(factors):
            scalars = [f for f in factors if isinstance(f, Cond) or (isinstance(f, Lift) and isinstance(f.body, Value))]
            rest = [f for f in factors if f not in scalars]
            return len(rest) == 1 and is_domain(rest[0])
        case Add(terms):
            return all(is_domain(term) for term in terms)
        case _:
            return False


def _arrived(to: Location, body: Moved, movable: bool) -> Tag:
    if not movable:
        raise IllFormedError("a transformer over contents that are elsewhere")
    if isinstance(to, Dist):
        if not outputs(strip(body)).issuperset(to.by):
            raise IllFormedError("a partitioning by what is not there")
        return Tag(to, True)
    return COPIED


def is_scalar(expr: Expr) -> bool:
    """A value, a condition, or an assignment of a scalar: computed wherever it is wanted."""
    return isinstance(expr, Value | Cond) or (isinstance(expr, Lift) and isinstance(expr.body, Value))
