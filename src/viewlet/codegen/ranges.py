"""Range plans: sums over ranges by ordered indexes instead of scans.

    Sum[](asks.sum_volume[broker, p] * {p - price > 1000})       one path down the tree of (broker, p)
    Sum[](bids.count[p] * (s := Sum[](bids.sum_volume[q] * {q > p})) * {total > s})
                                                                 the p at which s crosses total, then as above
    Sum[broker](...)                                             the same for each broker, leaping to the next

Rows are still visited one by one while they are few, and where a running sum is not monotone because it has negative
summands, which the tree tracks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Cond, Expr, Lift, Scalar, Value, Var, View
from viewlet.algebra.scope import free_variables
from viewlet.algebra.traverse import scalar_variables
from viewlet.codegen.monotone import (
    Direction,
    Interval,
    RunningSum,
    Test,
    intervals,
    is_false_at_null,
    is_ordered,
    running_sum,
    truth_direction,
    without_null,
)
from viewlet.codegen.numbers import Part, Product, nonzero
from viewlet.codegen.thresholds import ThresholdWriter
from viewlet.codegen.trees import Path, TreeWriter, Words
from viewlet.codegen.word import ALWAYS, NEVER, both

if TYPE_CHECKING:
    from viewlet.codegen.products import Bound, Done, ProductWriter


@dataclass(frozen=True, slots=True)
class Plan:
    """A sum over a range of x, for each value of the groups."""

    x: Var
    groups: tuple[Var, ...]
    parts: tuple[Interval, ...]
    runnings: dict[Scalar, tuple[RunningSum, ...]]  # condition -> the running sums it reads
    lifted: tuple[Var, ...] = ()
    """The running sums, which are 0 where x is NULL."""
    at_null: tuple[Scalar, ...] | None = None
    """The conditions on a row where x is NULL, if there are such rows and the conditions may hold."""


class RangeWriter:
    def __init__(self, out: ProductWriter, trees: TreeWriter) -> None:
        self.out = out
        self.trees = trees
        self.thresholds = ThresholdWriter(out, trees)

    def sums(
        self,
        chains: Sequence[Sequence[Expr]],
        values: Sequence[Sequence[Expr]],
        bound: Bound,
        numbers: list[Product],
        wanted: Bound | None,
        done: Done,
        slowly: Callable[[], None],
    ) -> bool:
        """Writes the sum over the first atom of the chains as a range plan, if it is one."""
        plan = self._plan(chains[0], values, bound, wanted)
        if plan is None:
            return False
        atoms = [chain[0] for chain in chains if isinstance(chain[0], View)]
        lines, depth = self.out.lines, self.out.lines.depth
        path = self.trees.path(atoms[0], plan.x, bound, plan.groups)
        lines.open(f"if {self._worth(path, bound, plan)}")
        self._fast(plan, path, atoms, bound, numbers, done)
        lines.close_to(depth)
        self.out.otherwise(slowly)
        return True

    def _plan(
        self, chain: Sequence[Expr], values: Sequence[Sequence[Expr]], bound: Bound, wanted: Bound | None
    ) -> Plan | None:
        atom = chain[0]
        assert isinstance(atom, View)
        fresh = [arg for arg in atom.args if arg not in bound]
        if wanted is None or not fresh or len(set(atom.args)) < len(atom.args) or not self.trees.pays(atom, bound):
            return None
        outer = {
            var for row in values for value in row if isinstance(value, Value) for var in scalar_variables(value.scalar)
        }
        rest = [(factor, _order_variables(factor, fresh)) for factor in chain[1:]]
        ordering = {var for _, found in rest for var in found}
        if len(ordering) != 1 or not all(isinstance(factor, Cond | Lift) for factor, _ in rest):
            return None
        (x,) = ordering
        runs = [running_sum(factor, x, bound) for factor, _ in rest if isinstance(factor, Lift)]
        lifted = frozenset(run.var for run in runs if run is not None)
        if None in runs or x in wanted | outer or lifted & (wanted | outer) or not is_ordered(x):
            return None
        groups = tuple(arg for arg in fresh if arg in wanted | outer)
        conditions = [factor.scalar for factor, _ in rest if isinstance(factor, Cond)]
        return self._cut(x, groups, conditions, tuple(run for run in runs if run is not None))

    def _cut(
        self, x: Var, groups: tuple[Var, ...], conditions: Sequence[Scalar], runs: tuple[RunningSum, ...]
    ) -> Plan | None:
        directions = {x: Direction.UP} | {run.var: run.direction for run in runs}
        split: list[Scalar] = []
        for condition in conditions:
            bare, guards = without_null(condition, frozenset(run.var for run in runs))
            split += [bare, *guards]
        parts = intervals(split, directions)
        if parts is None:
            return None
        runnings: dict[Scalar, tuple[RunningSum, ...]] = {}
        for test in (test for part in parts for test in (*part.ups, *part.downs)):
            read = tuple(run for run in runs if run.var in scalar_variables(test.condition))
            if read and not self._is_threshold(test, read, x, directions):
                return None
            if read:
                runnings[test.condition] = read
        excluded = not x.type.nullable or any(is_false_at_null(condition, x) for condition in conditions)
        at_null = None if excluded else tuple(conditions)
        return Plan(x, groups, tuple(parts), runnings, tuple(run.var for run in runs), at_null)

    def _is_threshold(self, test: Test, runs: tuple[RunningSum, ...], x: Var, directions: dict[Var, Direction]) -> bool:
        """A condition on running sums over the same rows, and on nothing else that varies."""
        same = {(run.atom.name, run.atom.args, run.op) for run in _alike(runs)}
        kinds = {self.out.layouts[run.atom.name].kind(run.atom.field) for run in runs}
        direction = truth_direction(test.condition, directions)
        return (
            len(same) == 1
            and "double" not in kinds
            and x not in scalar_variables(test.condition)
            and direction is not None
        )

    def _fast(
        self, plan: Plan, path: Path, atoms: list[View], bound: Bound, numbers: list[Product], done: Done
    ) -> None:
        tests: dict[Scalar, str] = {}

        def cut(ready: Bound) -> None:
            for condition, runs in plan.runnings.items():
                if condition not in tests and all(arg in ready or arg == runs[0].of for arg in runs[0].atom.args):
                    tests[condition] = self.thresholds.threshold(condition, runs, plan.x)

        def sum_up(path: Path, now: Bound) -> None:
            cut(now)
            fields = {atom.field: self.out.numbers.start(path.layout.kind(atom.field)) for atom in atoms}
            for part in plan.parts:
                self._interval(plan, path, part, tests, fields)
            if plan.at_null is not None:
                self._at_null(plan, plan.at_null, path, fields)
            loads = {field: Part(path.layout.kind(field), words) for field, words in fields.items()}
            products = [n.times(loads[atom.field]) for n, atom in zip(numbers, atoms, strict=True)]
            words = tuple(word for part in loads.values() for word in part.code)
            self.out.write_if(nonzero(words), lambda: done(products, now))

        cut(bound)
        if plan.groups:
            self._each_group(plan, path, bound, sum_up)
        else:
            sum_up(path, bound)

    def _interval(self, plan: Plan, path: Path, part: Interval, tests: dict[Scalar, str], fields: Words) -> None:
        """Adds what is above the lower end and takes away what is above the upper one."""
        present = f"({path.x} != NULL)" if plan.x.type.nullable else ALWAYS
        lower = both(present, *(self.trees.code(test, tests) for test in part.ups))
        self.trees.descend(path, lower, fields, "+")
        if part.downs:
            beyond = both(*(self.trees.code(test, tests) for test in part.downs))
            self.trees.descend(path, both(lower, f"(not {beyond})"), fields, "-")
        elif path.prefix:
            self.trees.descend(path, NEVER, fields, "-")

    def _at_null(self, plan: Plan, conditions: Sequence[Scalar], path: Path, fields: Words) -> None:
        """Adds the row where x is NULL, for which running sums have no rows, if the conditions hold there."""
        lines = self.out.lines
        lines.add(f"{path.x} = NULL")
        for var in plan.lifted:
            lines.add(f"{self.out.names.of(var)} = 0")

        def add() -> None:
            self.trees.descend(path, ALWAYS, fields, "+")
            self.trees.descend(path, f"({path.x} != NULL)", fields, "-")

        self.out.write_if(both(*(self.out.scalars.truth(condition) for condition in conditions)), add)

    def _each_group(self, plan: Plan, path: Path, bound: Bound, body: Callable[[Path, Bound], None]) -> None:
        """Leaps from each value of the groups to the next."""
        out, lines, depth = self.out, self.out.lines, self.out.lines.depth
        given = replace(path, prefix=path.prefix[: -len(plan.groups)])
        node = self.trees.first_past(given, ALWAYS)
        out.loops.append(path.alive)
        lines.open(given.while_at_prefix(node))
        for var in plan.groups:
            word = f"{path.pool}[{node} - 1, {path.view.args.index(var)}]"
            lines.add(f"{out.names.of(var)} = " + (f"double_of({word})" if var.type.is_float else word))
        following = self.trees.first_past(path, NEVER)
        body(path, bound | frozenset(plan.groups))
        lines.close_to(depth + 1)
        lines.add(f"{node} = {following}")
        lines.close_to(depth)
        out.loops.pop()

    def _worth(self, path: Path, bound: Bound, plan: Plan) -> str:
        """Code for: there are enough rows, and the running sums of the plan are monotone."""
        conditions = [self.trees.ready(path, bound)]
        for run in dict.fromkeys(run for runs in plan.runnings.values() for run in runs):
            inner = self.trees.path(run.atom, run.of, frozenset(run.atom.args) - {run.of}, ())
            self.out.requests.watch(run.atom.name, inner.number, run.atom.field)
            negatives = f"{inner.tree}[{inner.tree}[0, ROOT], NEGATIVES]"
            conditions += [self.trees.ready(inner, frozenset()), f"{negatives} == 0"]
        return " and ".join(dict.fromkeys(conditions))


def _order_variables(factor: Expr, fresh: Sequence[Var]) -> set[Var]:
    """The variables of an atom that a later factor depends on."""
    return set(fresh) & free_variables(factor)


def _alike(runs: Sequence[RunningSum]) -> list[RunningSum]:
    """The running sums with the variable that varies called the same."""
    first = runs[0].of
    return [
        RunningSum(
            run.var,
            View(run.atom.name, run.atom.field, tuple(first if arg == run.of else arg for arg in run.atom.args)),
            first,
            run.op,
        )
        for run in runs
    ]
