"""Puts transformers into the expressions of statements, as few and as cheap as possible (thesis, sections 5.2, 5.3.1).

    M[a] += Sum[a](ΔR(a, b) * V[b, c] * c)          M by a, V by b, ΔR anywhere
    M[a] += Repart[a](Sum[a](Repart[b](Sum[a, b](ΔR(a, b))) * V[b, c] * c))

To bring an expression to a location, the planner either moves the whole expression, or brings its parts there by the
rules of Figure 5.2, whichever is cheaper. An unnecessary transformer is never created, so the simplifications of Figure
5.3 are not needed. An expression is pre-aggregated before it is moved: it is summed down to the columns that are used
outside, after every filter and value that its own columns determine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from viewlet.algebra.nodes import (
    Add,
    Cond,
    Const,
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
    add,
    factors_of,
    mul,
    neg,
)
from viewlet.algebra.order import try_order
from viewlet.algebra.scope import NONE, Vars, free_variables, inputs, outputs
from viewlet.algebra.traverse import all_variables, atoms, has_delta
from viewlet.errors import InternalError
from viewlet.spark.plan.cost import NOTHING, Cost, sent
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation
from viewlet.spark.plan.nodes import Gather, Moved, Repart, Scatter, Transformer, as_expr, strip
from viewlet.spark.plan.products import absorb, connected, distributed, flattened, project
from viewlet.spark.plan.rules import Improver
from viewlet.spark.plan.wellformed import (
    AT_DRIVER,
    COPIED,
    FREE,
    SPREAD,
    IllFormedError,
    Placement,
    Tag,
    assigned_tag,
    exists_tag,
    is_domain,
    is_scalar,
    is_spread,
    join_tags,
    sum_tag,
    union_tags,
)
from viewlet.types import BIGINT

MANY_SITES = 5
"""Of more sites than this, only one is tried for each part of a product."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A distributed expression, where it ends up, and what it costs."""

    expr: Moved
    tag: Tag
    cost: Cost


UNPLANNED = Plan(Value(Const(0, BIGINT)), FREE, NOTHING)
"""Stands for a plan that has not been made yet, where None says that there is none."""

Brought = tuple[list[Plan], list[Expr]]
"""Factors brought to a site, and the scalars that have not gone into them."""


@dataclass(slots=True)
class PlanCache:
    """Plans for parts of expressions; None where there is none."""

    wanted: dict[tuple[Expr, ViewLocation, Vars], Plan | None] = field(default_factory=dict)
    anywhere: dict[tuple[Expr, Vars], Plan | None] = field(default_factory=dict)
    composed: dict[tuple[Expr, ViewLocation, Vars], Plan | None] = field(default_factory=dict)
    cores: dict[tuple[tuple[Expr, ...], tuple[Expr, ...], ViewLocation, Vars], Brought | None] = field(
        default_factory=dict
    )


@dataclass(slots=True)
class Planner:
    """Plans expressions for changes that arrive in certain places.

    What reads no change is planned alike wherever changes arrive: planners over the same views share `stored`.
    """

    placement: Placement
    rows: Mapping[str, float] = field(default_factory=dict)
    stored: PlanCache = field(default_factory=PlanCache)
    _changing: PlanCache = field(default_factory=PlanCache)
    _placed: dict[tuple[Expr, ViewLocation, tuple[Var, ...]], Plan] = field(default_factory=dict)
    _improver: Improver = field(init=False)

    def __post_init__(self) -> None:
        self._improver = Improver(self.placement, self.rows)

    def place(self, expr: Expr, location: ViewLocation, args: tuple[Var, ...]) -> Plan:
        """The cheapest form of a statement's expression that ends up, and adds up, where its view lives."""
        key = (expr, location, args)
        if key not in self._placed:
            self._placed[key] = self._place(expr, location, frozenset(args))
        return self._placed[key]

    def _place(self, expr: Expr, location: ViewLocation, needed: Vars) -> Plan:
        there = self.at(expr, location, needed)
        if there is not None and there.cost == NOTHING and _is_at(there.tag, location):
            return there
        options = [there]
        if isinstance(location, Dist):
            options += [
                self.moved(source, location) for source in (self.spread(expr, needed), self.at_driver(expr, needed))
            ]
        ready = [plan for plan in options if plan is not None and _is_at(plan.tag, location)]
        if not ready:
            raise InternalError("no way to distribute an expression")
        best = min(ready, key=lambda plan: plan.cost)
        better = self._improver.improve(best.expr)
        return best if better == best.expr else Plan(better, best.tag, self._improver.cost(better))

    def place_anywhere(self, expr: Expr, args: tuple[Var, ...]) -> Plan:
        """The cheapest form of an expression over these variables that adds up at the workers, wherever that is."""
        spread = self.spread(expr, frozenset(args))
        apart = self.place(expr, Dist(args), args)
        return apart if spread is None or spread.tag == COPIED or apart.cost < spread.cost else spread

    def at(self, expr: Expr, site: ViewLocation, needed: Vars) -> Plan | None:
        """The expression made readable at a site: moved as a whole, or composed of parts at that site."""
        needed &= outputs(expr)
        site = _site_for((expr,), site)
        known, key = self._known(expr).wanted, (expr, site, needed)
        found = known.get(key, UNPLANNED)
        if found is UNPLANNED:
            here = self.in_place(expr, site, needed)
            is_there = site == LOCAL and here is not None and here.cost == NOTHING
            found = known[key] = here if is_there else _cheapest([*self._moved_whole(expr, site, needed), here])
        return found

    def _known(self, expr: Expr) -> PlanCache:
        return self._changing if has_delta(expr) else self.stored

    def _moved_whole(self, expr: Expr, site: ViewLocation, needed: Vars) -> list[Plan | None]:
        """The ways to compute an expression somewhere else and to bring it to a site."""
        if inputs(expr) or is_scalar(expr) or isinstance(expr, Lift | Extremum):
            return []
        source = project(expr, needed | (frozenset(site.by) if isinstance(site, Dist) else NONE))
        from_workers = self.moved(self.spread(source, needed), site)
        return [from_workers] if site == LOCAL else [from_workers, self.moved(self.at_driver(source, needed), site)]

    def at_driver(self, expr: Expr, needed: Vars) -> Plan | None:
        """The expression computed at the driver, if all its parts are at the driver."""
        if any(self.placement.tag(atom) != AT_DRIVER for atom in atoms(expr)):
            return None
        return self.in_place(expr, LOCAL, needed)

    def moved(self, plan: Plan | None, site: ViewLocation) -> Plan | None:
        """A plan's outcome brought to a site; to all workers if it lacks the columns the site goes by."""
        if plan is None or (not is_spread(plan.tag) and plan.tag not in (AT_DRIVER, FREE)):
            return None
        if site == LOCAL:
            if plan.tag in (AT_DRIVER, FREE):
                return plan
            return self._sent(Gather(plan.expr), plan, AT_DRIVER)
        keyed = isinstance(site, Dist) and outputs(strip(plan.expr)).issuperset(site.by)
        if plan.tag == Tag(site, True) or (plan.tag == COPIED and not keyed):
            return plan
        to, tag = (site, Tag(site, True)) if keyed and isinstance(site, Dist) else (REPLICATED, COPIED)
        transformer = Scatter(to, plan.expr) if plan.tag in (AT_DRIVER, FREE) else Repart(to, plan.expr)
        return self._sent(transformer, plan, tag)

    def _sent(self, transformer: Transformer, plan: Plan, tag: Tag) -> Plan:
        return Plan(transformer, tag, sent(transformer, plan.cost, self.rows))

    def spread(self, expr: Expr, needed: Vars) -> Plan | None:
        """The expression computed by the workers, wherever that is cheapest."""
        needed = NONE if isinstance(expr, Sum | Rel | Delta | View) else needed & outputs(expr)
        known, key = self._known(expr).anywhere, (expr, needed)
        found = known.get(key, UNPLANNED)
        if found is UNPLANNED:
            ways = (plan for plan in self._ways_to_spread(expr, needed) if plan is not None and is_spread(plan.tag))
            found = known[key] = self._without_state(_cheapest(ways), expr, needed)
        return found

    def _without_state(self, plan: Plan | None, expr: Expr, needed: Vars) -> Plan | None:
        """Where stored state would have to travel, perhaps it need not if the product is written differently."""
        if (plan is not None and plan.cost.state == 0.0) or not isinstance(expr, Mul):
            return plan
        others = (self.spread(other, needed) for other in (flattened(expr), distributed(expr)) if other is not None)
        return _cheapest([plan, *others])

    def _ways_to_spread(self, expr: Expr, needed: Vars) -> Iterator[Plan | None]:
        match expr:
            case Rel() | Delta() | View():
                yield Plan(expr, self.placement.tag(expr), NOTHING)
            case Sum(keys, body):
                hidden = outputs(body) - set(keys)
                yield _over(self.spread(body, frozenset(keys)), lambda b: Sum(keys, b), lambda t: sum_tag(t, hidden))
            case Neg(body):
                yield _over(self.spread(body, needed), neg, lambda t: t)
            case Add():
                parts = [self.spread(term, wanted) for term, wanted in _alike(expr, needed)]
                yield _together(add, parts, union_tags)
                yield from self._at_sites(expr, needed)
            case Mul(factors):
                yield self._one_apart(factors, needed)
                yield from self._at_sites(expr, needed)
            case _:
                yield from self._at_sites(expr, needed)

    def _at_sites(self, expr: Expr, needed: Vars) -> Iterator[Plan | None]:
        """The expression at each site that parts of it are at; of many, at the first one where it can be.

        What is left of a product is brought to a site by way of the other ones. All orders of many sites would take too
        long to try, and every site has to be visited in each of them.
        """
        sites = self.sites(expr)
        for site in sites:
            plan = self.in_place(expr, site, needed)
            yield plan
            if len(sites) > MANY_SITES and plan is not None and is_spread(plan.tag):
                return

    def sites(self, expr: Expr) -> list[ViewLocation]:
        """Where parts of the expression are, as far as its own columns tell."""
        tags = [self.placement.tag(node).at for node in atoms(expr) if isinstance(node, View)]
        visible = free_variables(expr)
        apart: list[ViewLocation] = [
            at for at in dict.fromkeys(tags) if isinstance(at, Dist) and visible.issuperset(at.by)
        ]
        if not apart:
            apart = [Dist((var,)) for var in sorted(outputs(expr), key=lambda var: var.name)]
        return [*apart, REPLICATED] if REPLICATED in tags else apart

    def _one_apart(self, factors: tuple[Expr, ...], needed: Vars) -> Plan | None:
        """A product of which all factors but one are at every worker: that one may be anywhere."""
        here, apart = list[Plan | None](), list[int]()
        for i, factor in enumerate(factors):
            here.append(self.in_place(factor, REPLICATED, outputs(factor)))
            if (plan := here[-1]) is None or plan.cost != NOTHING:
                apart.append(i)
            if len(apart) > 1:
                return None
        if not apart:
            return None
        (i,) = apart
        here[i] = self.spread(factors[i], outputs(factors[i]))
        return _together(mul, here, join_tags)

    def in_place(self, expr: Expr, site: ViewLocation, needed: Vars) -> Plan | None:
        """The expression evaluated at a site over parts that are at that site or moved to it."""
        known, key = self._known(expr).composed, (expr, _site_for((expr,), site), needed & outputs(expr))
        found = known.get(key, UNPLANNED)
        if found is UNPLANNED:
            found = known[key] = self._in_place(*key)
        return found

    def _in_place(self, expr: Expr, site: ViewLocation, needed: Vars) -> Plan | None:
        match expr:
            case Value() | Cond() | Lift(_, Value()):
                return Plan(expr, FREE, NOTHING)
            case Rel() | Delta() | View():
                tag = self.placement.tag(expr)
                readable = tag.at == site or (tag == COPIED and isinstance(site, Dist))
                return Plan(expr, tag, NOTHING) if readable else None
            case Neg(body):
                return _over(self.at(body, site, needed), neg, lambda t: t)
            case Add():
                parts = [self.at(term, site, wanted) for term, wanted in _alike(expr, needed)]
                return _together(add, parts, union_tags)
            case Mul(factors):
                return self._product(factors, site, needed)
            case Sum(keys, body):
                hidden = outputs(body) - set(keys)
                if isinstance(site, Dist) and not hidden.isdisjoint(site.by):
                    return None
                return _over(self.at(body, site, frozenset(keys)), lambda b: Sum(keys, b), lambda t: sum_tag(t, hidden))
            case Exists(body):
                return _over(self._tested(body, site), Exists, exists_tag)
            case Lift(var, body):
                inner = self._whole(body, site, {var})
                return _over(inner, lambda b: Lift(var, b), lambda t: assigned_tag(t, frozenset((var,))))
            case Extremum(var, which, of, body):
                inner, hidden = self._whole(body, site, {var, of}), frozenset((var, of))
                return _over(inner, lambda b: Extremum(var, which, of, b), lambda t: assigned_tag(t, hidden))

    def _whole(self, body: Expr, site: ViewLocation, hidden: set[Var]) -> Plan | None:
        if isinstance(site, Dist) and not hidden.isdisjoint(site.by):
            return None
        return self.at(body, site, outputs(body))

    def _tested(self, body: Expr, site: ViewLocation) -> Plan | None:
        """The body of an Exists; a domain may be computed where its change is and then brought together."""
        if is_domain(body):
            changes = [self.placement.tag(node) for node in atoms(body) if isinstance(node, Delta)]
            if all(tag == SPREAD for tag in changes):
                return self.moved(Plan(body, SPREAD, NOTHING), site)
        return self.at(body, site, outputs(body))

    def _product(self, factors: tuple[Expr, ...], site: ViewLocation, needed: Vars) -> Plan | None:
        """A product at a site: its factors at that site, and the others moved to it, together or one by one."""
        scalars = [factor for factor in factors if is_scalar(factor)]
        here, away = list[Plan](), list[Expr]()
        for factor in factors:
            if not is_scalar(factor):
                plan = self.in_place(factor, site, outputs(factor))
                if plan is not None and plan.cost == NOTHING:
                    here.append(plan)
                else:
                    away.append(factor)
        for group in connected(away):
            others = [*(strip(plan.expr) for plan in here), *_without(away, group)]
            alone = len(group) == len(away) and not here
            brought = self._bring(group, scalars, site, needed.union(*map(free_variables, others)), not alone)
            if brought is None:
                return None
            plans, scalars = brought
            here += plans
        return _together(mul, [*here, *(Plan(scalar, FREE, NOTHING) for scalar in scalars)], join_tags)

    def _bring(
        self, group: list[Expr], scalars: list[Expr], site: ViewLocation, outside: Vars, together: bool
    ) -> Brought | None:
        """Factors brought to a site, together or one by one, and the scalars that have not gone into them.

        `outside` are the variables that are used beside the group and the scalars.
        """
        options = [self._bring_each(group, scalars, site, outside, together or len(group) > 1)]
        if together and len(group) > 1:
            options.append(self._bring_core(group, scalars, site, outside))
        atoms: list[Expr] = [factor for factor in group if not isinstance(factor, Lift | Extremum | Exists)]
        if 1 < len(atoms) < len(group):
            options.append(self._bring_apart(group, atoms, scalars, site, outside))
        found = [option for option in options if option is not None]
        return min(found, key=lambda option: _total(option[0]), default=None)

    def _bring_apart(
        self, group: list[Expr], atoms: list[Expr], scalars: list[Expr], site: ViewLocation, outside: Vars
    ) -> Brought | None:
        """What is joined comes together, the nested aggregates next to it one by one."""
        nested = _without(group, atoms)
        core = self._bring_core(atoms, scalars, site, outside.union(*map(free_variables, nested)))
        if core is None:
            return None
        brought = (free_variables(strip(plan.expr)) for plan in core[0])
        joined = outside.union(*brought, *map(free_variables, atoms))
        rest = self._bring_each(nested, core[1], site, joined, True)
        return (core[0] + rest[0], rest[1]) if rest is not None else None

    def _bring_each(
        self, group: list[Expr], scalars: list[Expr], site: ViewLocation, outside: Vars, absorbing: bool
    ) -> Brought | None:
        plans = list[Plan]()
        for factor, later in zip(group, _used_later(group), strict=True):
            rest = outside | later
            core = self._bring_core([factor], scalars, site, rest) if absorbing else None
            single = self.at(factor, site, rest.union(*map(free_variables, scalars)))
            if core is not None and (single is None or _total(core[0]) <= single.cost):
                brought, scalars = core
            elif single is not None:
                brought = [single]
            else:
                return None
            plans += brought
            # a plan may have absorbed scalars that bind what later factors are joined by
            outside = outside.union(free_variables(factor), *(free_variables(strip(plan.expr)) for plan in brought))
        return plans, scalars

    def _bring_core(
        self, group: Sequence[Expr], scalars: Sequence[Expr], site: ViewLocation, outside: Vars
    ) -> Brought | None:
        """A sub-product with the scalars that its columns decide, summed down to what is used outside, and moved."""
        if not _may_bind(group, scalars):
            return None
        own = NONE.union(*map(free_variables, group), *map(free_variables, scalars))
        known = self._changing if any(map(has_delta, group)) else self.stored
        key = (tuple(group), tuple(scalars), _site_for((*group, *scalars), site), own & outside)
        if key not in known.cores:
            known.cores[key] = self._core(*key)
        return known.cores[key]

    def _core(
        self, group: tuple[Expr, ...], scalars: tuple[Expr, ...], site: ViewLocation, outside: Vars
    ) -> Brought | None:
        absorbed = absorb(group, scalars)
        core = mul(*group, *absorbed)
        if any(map(inputs, group)) and try_order(factors_of(core), NONE) is None:
            return None
        left = list(scalars)
        for scalar in absorbed:
            left.remove(scalar)
        used = outside.union(*map(free_variables, left))
        kept = used | (frozenset(site.by) if isinstance(site, Dist) else NONE)
        source = project(core, kept)
        plan = _cheapest([self.moved(self.spread(source, kept), site), self.moved(self.at_driver(source, kept), site)])
        return ([plan], left) if plan is not None else None


def _site_for(parts: Sequence[Expr], site: ViewLocation) -> ViewLocation:
    """The site, or all workers where the parts do not mention what it goes by: they are planned alike for both."""
    if isinstance(site, Dist) and all(all_variables(part).isdisjoint(site.by) for part in parts):
        return REPLICATED
    return site


def _without(factors: Sequence[Expr], left_out: Sequence[Expr]) -> list[Expr]:
    """The factors but for some of them."""
    ids = set(map(id, left_out))
    return [factor for factor in factors if id(factor) not in ids]


def _used_later(factors: Sequence[Expr]) -> list[Vars]:
    """For each factor, the variables of those after it."""
    found, later = list[Vars](), NONE
    for factor in reversed(factors):
        found.append(later)
        later |= free_variables(factor)
    return found[::-1]


def _may_bind(factors: Sequence[Expr], scalars: Sequence[Expr]) -> bool:
    """All that the factors need from outside, they or the scalars bind: otherwise their product has no order."""
    needed = NONE.union(*map(inputs, factors))
    return not needed or needed <= NONE.union(*map(outputs, factors), *map(outputs, scalars))


def _is_at(tag: Tag, location: ViewLocation) -> bool:
    if location == LOCAL:
        return tag in (AT_DRIVER, FREE)
    return tag == COPIED if location == REPLICATED else tag == Tag(location, True)


def _cheapest(plans: Iterable[Plan | None]) -> Plan | None:
    """The first of the cheapest plans; those after one that moves nothing are not made."""
    best: Plan | None = None
    for plan in plans:
        if plan is not None and (best is None or plan.cost < best.cost):
            best = plan
            if best.cost == NOTHING:
                break
    return best


def _total(plans: Sequence[Plan]) -> Cost:
    total = NOTHING
    for plan in plans:
        if plan.cost is not NOTHING:
            total = plan.cost if total is NOTHING else total.beside(plan.cost)
    return total


def _together(join: Callable[..., Expr], plans: Sequence[Plan | None], tags: Callable[[list[Tag]], Tag]) -> Plan | None:
    """Plans combined into one product or union; None if they do not fit together."""
    ready = [plan for plan in plans if plan is not None]
    if len(ready) < len(plans):
        return None
    try:
        tag = tags([plan.tag for plan in ready])
    except IllFormedError:
        return None
    return Plan(join(*(as_expr(plan.expr) for plan in ready)), tag, _total(ready))


def _alike(union: Add, needed: Vars) -> list[tuple[Expr, Vars]]:
    """The terms of a union with the same columns each, and the columns that are used of them.

    A variable that one term binds and another one reads comes from outside: the first has to keep it. A column that
    is not used is left out of all terms or of none, because a variable that only some terms bind counts as one from
    outside.
    """
    wanted = needed | inputs(union)
    return [(term if outputs(term) <= wanted else project(term, wanted), wanted) for term in union.terms]


def _over(inner: Plan | None, build: Callable[[Expr], Expr], tag: Callable[[Tag], Tag]) -> Plan | None:
    """A plan with one more operator around it; None if that would be ill-formed."""
    if inner is None:
        return None
    try:
        return Plan(build(as_expr(inner.expr)), tag(inner.tag), inner.cost)
    except IllFormedError:
        return None
