"""The choice of a plan: the model of a recurrence, the products to keep as views, how a trigger treats each view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewlet.linalg.associate import Sizes
from viewlet.linalg.cost import counted, seconds
from viewlet.linalg.definiteness import with_factors
from viewlet.linalg.errors import ProgramError
from viewlet.linalg.expression import (
    Expression,
    Matrix,
    Product,
    Recurrence,
    children,
    matrices,
    matrix,
    postorder,
    rebuild,
    shape,
)
from viewlet.linalg.machine import Machine
from viewlet.linalg.program import Program, Statement, Statements, Supply, recurrences, statements
from viewlet.linalg.recurrences import candidates
from viewlet.linalg.schedule import Step, schedule
from viewlet.linalg.sizes import Size
from viewlet.linalg.trigger import Policy, Trigger, Update, derive_trigger
from viewlet.visible import described

STRATEGIES = ("auto", "incremental", "hybrid", "reevaluate")
CUTS = 12
"""The most places from which on views are recomputed that "auto" looks at."""
WIDE = 16
"""The rows for each outer product of a change from which a Cholesky factor is rotated, and not recomputed."""
WORTH = 2.0
"""Solutions of systems are computed again from a factor, which sheds errors, unless that takes so many times longer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A trigger, its steps, their estimated time, and the operations that they do."""

    policy: Policy
    trigger: Trigger
    steps: tuple[Step, ...]
    seconds: float
    operations: float


def check_strategy(strategy: str) -> str:
    """The strategy, if there is one of this name."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ProgramError(
            f"strategy {described(strategy)} is not one of {', '.join(repr(each) for each in STRATEGIES)}"
        )
    return strategy


def plan_statements(
    source: Program,
    sizes: Sizes,
    machine: Machine,
    strategy: str,
    memory: float = float("inf"),
    *,
    cholesky: bool = False,
) -> Statements:
    """The statements of a program: models by cost and memory, and products that are worth keeping.

    With `cholesky`, inverses of positive definite matrices are kept as factors.
    """
    models: dict[Recurrence, str] = {}
    for node in recurrences(source):
        options = candidates(node)
        defaults = {other: "linear" if other.kind == "iterate" else "exponential" for other in recurrences(source)}
        scored = []
        for model in options if len(options) > 1 else []:
            trial = statements(source, sizes, defaults | models | {node: model})
            if size_of(trial, sizes) * machine.itemsize <= memory or model == options[-1]:
                scored.append((_total(trial, sizes, machine, strategy), model))
        models[node] = min(scored)[1] if scored else options[0]
    found = statements(source, sizes, models)
    found = with_factors(found) if cholesky else found
    return found if strategy == "reevaluate" else keep_products(found, sizes, machine, strategy)


def size_of(source: Statements, sizes: Sizes) -> float:
    """The entries of all inputs and views."""
    kept = [*source.inputs, *(statement.target for statement in source.views)]
    return sum(each.rows.at(sizes) * each.columns.at(sizes) for each in kept)


def keep_products(source: Statements, sizes: Sizes, machine: Machine, strategy: str) -> Statements:
    """Makes views of products inside statements, such as X'Y, where that makes triggers cheaper."""
    best = _total(source, sizes, machine, strategy)
    for statement in source.views:
        for node in postorder([statement.body]):
            if isinstance(node, Product) and node is not statement.body and matrices(node):
                trial = _with_view(source, node)
                cost = _total(trial, sizes, machine, strategy)
                if cost < best:
                    source, best = trial, cost
    return source


def choose(source: Statements, ranks: Mapping[Matrix, int], sizes: Sizes, machine: Machine, strategy: str) -> Plan:
    """The trigger for changes of these ranks, by the strategy."""
    if strategy == "reevaluate":
        every = frozenset(statement.target for statement in source.views)
        return _plan(source, ranks, sizes, machine, Policy(recomputed=every))
    best = _plan(source, ranks, sizes, machine, Policy(full=strategy != "incremental"))
    if solved := _solutions(source):
        other = _plan(source, ranks, sizes, machine, replace(best.policy, recomputed=solved))
        best = other if other.seconds <= WORTH * best.seconds else best
    if strategy != "auto":
        return best
    affected = [update.view for update in best.trigger.updates if update.view not in ranks]
    step, always = max(1, -(-len(affected) // CUTS)), best.policy.recomputed
    for first in range(0, len(affected), step):
        policy = replace(best.policy, recomputed=always | frozenset(affected[first:]))
        best = min(best, _plan(source, ranks, sizes, machine, policy), key=lambda plan: plan.seconds)
    return best


def _solutions(source: Statements) -> frozenset[Matrix]:
    """The views that are products with a Cholesky factor's inverse."""
    readers = (each for each in source.views if matrices(each.body) & source.factored)
    return frozenset(each.target for each in readers if not isinstance(each.body, Matrix))


def _plan(source: Statements, ranks: Mapping[Matrix, int], sizes: Sizes, machine: Machine, policy: Policy) -> Plan:
    given: dict[Matrix, Size | int] = dict(ranks)
    trigger = derive_trigger(source, given, sizes, policy)
    if wide := [update.view for update in trigger.updates if _is_wide(update, sizes)]:
        policy = replace(policy, recomputed=policy.recomputed | frozenset(wide))
        trigger = derive_trigger(source, given, sizes, policy)
    steps = schedule(trigger, sizes)
    return Plan(policy, trigger, steps, seconds(steps, sizes, machine), counted(steps, sizes))


def _is_wide(update: Update, sizes: Sizes) -> bool:
    return update.factor_of is not None and WIDE * update.rank.at(sizes) > update.view.rows.at(sizes)


def _total(source: Statements, sizes: Sizes, machine: Machine, strategy: str) -> float:
    """The time of one change of rank one for each dynamic input."""
    fixed = "hybrid" if strategy == "auto" else strategy
    return sum(choose(source, {each: 1}, sizes, machine, fixed).seconds for each in source.inputs if each.dynamic)


def _with_view(source: Statements, product: Expression) -> Statements:
    """The same statements with a view for one product, computed before its first reader."""
    taken = {each.name for each in source.inputs} | {statement.target.name for statement in source.views}
    view = matrix(Supply(taken | set(source.outputs))("M"), *shape(product))
    views: list[Statement] = []
    made = False
    for statement in source.views:
        body = _replace(statement.body, product, view)
        if body is not statement.body and not made:
            views.append(Statement(view, product))
            made = True
        views.append(Statement(statement.target, body))
    return replace(source, views=tuple(views))


def _replace(body: Expression, old: Expression, new: Expression) -> Expression:
    done: dict[Expression, Expression] = {}
    for node in postorder([body]):
        done[node] = new if node is old else rebuild(node, tuple(done[child] for child in children(node)))
    return done[body]
