"""Range plans: sums, thresholds and extremes by ordered indexes instead of scans.

    Sum[](asks.sum_volume[broker, p] * {p - price > 1000})       one path down the tree of (broker, p)
    Sum[](bids.count[p] * (s := Sum[](bids.sum_volume[q] * {q > p})) * {total > s})
                                                                 the p at which s crosses total, then as above
    Sum[broker](...)                                             the same for each broker, leaping to the next

The rows are still visited one by one while they are few, and where a running sum is not monotone because some of what
it adds up is negative: the tree knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Cond, Exists, Expr, Extreme, Lift, Scalar, Sum, Value, Var, View, factors_of
from viewlet.algebra.scope import free_variables
from viewlet.algebra.traverse import scalar_variables
from viewlet.codegen.monotone import Interval, Running, Test, Way, intervals, running_sum, truth_way, without_null
from viewlet.codegen.numbers import Part, Product, nonzero
from viewlet.codegen.scalars import ALWAYS, NEVER, both
from viewlet.runtime.flat import Layout
from viewlet.types import Kind

if TYPE_CHECKING:
    from viewlet.codegen.products import Bound, Done, ProductWriter


@dataclass(frozen=True, slots=True)
class Path:
    """The ordered index of a view: words that are given, then the one that varies."""

    view: View
    layout: Layout
    number: int
    prefix: tuple[tuple[int, str], ...]
    position: int
    x: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A sum over a range of x, for each value of the groups."""

    x: Var
    groups: tuple[Var, ...]
    parts: tuple[Interval, ...]
    runnings: dict[Scalar, tuple[Running, ...]]  # condition -> the running sums it reads


@dataclass(frozen=True, slots=True)
class Top:
    """Only so many rows are wanted, the first or last by x; one more tells that there are others."""

    x: Var
    descending: bool
    size: int


class RangeWriter:
    def __init__(self, out: ProductWriter) -> None:
        self.out = out
        self.top: Top | None = None
        self.covered: set[Scalar] = set()
        """Conditions that an order answers: no row is visited that fails them."""

    # Sums over ranges

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
        path = self._path(atoms[0], plan.x, bound, plan.groups)
        lines.open(f"if {self._worth(path, bound, plan)}")
        self._fast(plan, path, atoms, bound, numbers, done)
        lines.close_to(depth)
        lines.open("else")
        slowly()
        lines.add("pass")
        lines.close_to(depth)
        return True

    def _plan(
        self, chain: Sequence[Expr], values: Sequence[Sequence[Expr]], bound: Bound, wanted: Bound | None
    ) -> Plan | None:
        atom = chain[0]
        assert isinstance(atom, View)
        fresh = [arg for arg in atom.args if arg not in bound]
        if wanted is None or not fresh or len(set(atom.args)) < len(atom.args):
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
        if None in runs or x in wanted | outer or lifted & (wanted | outer) or not _is_ordered(x):
            return None
        groups = tuple(arg for arg in fresh if arg in wanted | outer)
        conditions = [factor.scalar for factor, _ in rest if isinstance(factor, Cond)]
        return self._cut(x, groups, conditions, tuple(run for run in runs if run is not None))

    def _cut(
        self, x: Var, groups: tuple[Var, ...], conditions: Sequence[Scalar], runs: tuple[Running, ...]
    ) -> Plan | None:
        ways = {x: Way.UP} | {run.var: run.way for run in runs}
        split: list[Scalar] = []
        for condition in conditions:
            bare, guards = without_null(condition, frozenset(run.var for run in runs))
            split += [bare, *guards]
        if x.type.nullable and (runs or any(truth_way(each, ways) is Way.FLAT for each in split)):
            return None
        parts = intervals(split, ways)
        if parts is None:
            return None
        runnings: dict[Scalar, tuple[Running, ...]] = {}
        for test in (test for part in parts for test in (*part.ups, *part.downs)):
            read = tuple(run for run in runs if run.var in scalar_variables(test.condition))
            if read and not self._is_threshold(test, read, x, ways):
                return None
            if read:
                runnings[test.condition] = read
        return Plan(x, groups, tuple(parts), runnings)

    def _is_threshold(self, test: Test, runs: tuple[Running, ...], x: Var, ways: dict[Var, Way]) -> bool:
        """A condition on running sums over the same rows, and on nothing else that varies."""
        same = {(run.atom.name, run.atom.args, run.op) for run in _alike(runs)}
        kinds = {self.out.layouts[run.atom.name].kind(run.atom.field) for run in runs}
        way = truth_way(test.condition, ways)
        return (
            len(same) == 1 and "double" not in kinds and x not in scalar_variables(test.condition) and way is not None
        )

    def _fast(
        self, plan: Plan, path: Path, atoms: list[View], bound: Bound, numbers: list[Product], done: Done
    ) -> None:
        tests: dict[Scalar, str] = {}

        def cut(ready: Bound) -> None:
            for condition, runs in plan.runnings.items():
                if condition not in tests and all(arg in ready or arg == runs[0].of for arg in runs[0].atom.args):
                    tests[condition] = self._threshold(condition, runs, plan.x)

        def sum_up(path: Path, now: Bound) -> None:
            cut(now)
            fields = {atom.field: self.out.numbers.start(path.layout.kind(atom.field)) for atom in atoms}
            for part in plan.parts:
                self._interval(plan, path, part, tests, fields)
            loads = {field: Part(path.layout.kind(field), words) for field, words in fields.items()}
            products = [n.times(loads[atom.field]) for n, atom in zip(numbers, atoms, strict=True)]
            words = tuple(word for part in loads.values() for word in part.code)
            self.out.write_if(nonzero(words), lambda: done(products, now))

        cut(bound)
        if plan.groups:
            self._each_group(plan, path, bound, sum_up)
        else:
            sum_up(path, bound)

    def _interval(
        self, plan: Plan, path: Path, part: Interval, tests: dict[Scalar, str], fields: dict[str, tuple[str, ...]]
    ) -> None:
        """Adds what is above the lower end and takes away what is above the upper one."""
        present = f"({path.x} != NULL)" if plan.x.type.nullable else ALWAYS
        lower = both(present, *(self._code(test, tests) for test in part.ups))
        self._descend(path, lower, fields, "+")
        if part.downs:
            beyond = both(*(self._code(test, tests) for test in part.downs))
            self._descend(path, both(lower, f"(not {beyond})"), fields, "-")
        elif path.prefix:
            self._descend(path, NEVER, fields, "-")

    def _code(self, test: Test, tests: dict[Scalar, str]) -> str:
        code = tests.get(test.condition) or self.out.scalars.truth(test.condition)
        return code if test.holds else f"(not {code})"

    def _descend(self, path: Path, condition: str, fields: dict[str, tuple[str, ...]], sign: str) -> None:
        """fields += or -= the sums over the rows past the prefix, or at it where the condition, which is up, holds."""
        lines, tree, depth = self.out.lines, self._tree(path), self.out.lines.depth
        node, left = lines.fresh("n"), lines.fresh("c")
        lines.add(f"{node} = {tree}[0, 0]")
        exact = all(path.layout.kind(field) != "double" for field in fields)
        if condition == ALWAYS and not path.prefix and exact:  # the root has it all
            lines.add(f"{left} = 0")
            self._add_span(path, node, left, fields, sign)
            return
        lines.open(f"while {node} != 0")
        lines.add(f"{left} = {tree}[{node}, 0]")
        if condition not in (ALWAYS, NEVER):
            lines.add(f"{path.x} = {self._pool(path)}[{node} - 1, {path.position}]")
        lines.open(f"if {self._past(path, node, condition)}")
        self._add_span(path, node, left, fields, sign)
        lines.add(f"{node} = {left}")
        lines.close_to(depth + 1)
        lines.add("else:")
        lines.add(f"    {node} = {tree}[{node}, 1]")
        lines.close_to(depth)

    def _add_span(self, path: Path, node: str, left: str, fields: dict[str, tuple[str, ...]], sign: str) -> None:
        """A node and all to the right of it in its subtree."""
        lines, tree, pool = self.out.lines, self._tree(path), self._pool(path)
        for field, words in fields.items():
            to = path.layout.tree_offset(field)
            both_words = ", ".join(words)
            match path.layout.kind(field):
                case "count":
                    lines.add(f"{words[0]} {sign}= {tree}[{node}, {to}] - {tree}[{left}, {to}]")
                case "wide":
                    ends = f"{node}, {left}" if sign == "+" else f"{left}, {node}"
                    lines.add(f"{both_words} = wide_span({both_words}, {tree}, {ends}, {to})")
                case _:
                    at = path.layout.offset(field)
                    lines.add(
                        f"{both_words} = double_span({both_words}, {pool}, {tree}, {node}, {at}, {to}, {sign}1.0)"
                    )

    def _past(self, path: Path, node: str, condition: str) -> str:
        """Whether a node is past the prefix, or at it and the condition holds there."""
        code = condition
        for position, word in reversed(path.prefix):
            at = f"{self._pool(path)}[{node} - 1, {position}]"
            code = (
                f"({at} > {word})"
                if code == NEVER
                else f"({at} >= {word})"
                if code == ALWAYS
                else f"({at} > {word} or ({at} == {word} and {code}))"
            )
        return code

    # Running sums

    def _threshold(self, condition: Scalar, runs: tuple[Running, ...], x: Var) -> str:
        """Finds where a condition on running sums changes; the condition as code on x."""
        out, lines = self.out, self.out.lines
        ways = {run.var: run.way for run in runs}
        upward = truth_way(condition, ways) is Way.UP
        atom, op = runs[0].atom, runs[0].op
        bound = frozenset(atom.args) - {runs[0].of}
        path = self._path(atom, runs[0].of, bound, ())
        fields = list(dict.fromkeys(run.atom.field for run in runs))
        totals = {field: out.numbers.start(path.layout.kind(field)) for field in fields}
        above = {field: out.numbers.start(path.layout.kind(field)) for field in fields}
        if path.prefix:
            self._descend(path, NEVER, above, "-")
        self._descend(path, ALWAYS, totals, "+")
        for field in fields:
            self._add_words(path, field, totals[field], above[field])
        strict = op in (">", "<=")
        depth, tree = lines.depth, self._tree(path)
        at, found, node, left = lines.fresh("t"), lines.fresh("b"), lines.fresh("n"), lines.fresh("c")
        lines.add(f"{at} = 0")
        lines.add(f"{found} = False")
        lines.add(f"{node} = {tree}[0, 0]")
        lines.open(f"while {node} != 0")
        lines.add(f"{left} = {tree}[{node}, 0]")
        if path.prefix:
            lines.open(f"if {self._past(path, node, NEVER)}")
            self._add_span(path, node, left, above, "+")
            lines.add(f"{node} = {left}")
            lines.add("continue")
            lines.close_to(depth + 1)
            lines.add(f"if not {self._past(path, node, ALWAYS)}:")
            lines.add(f"    {node} = {tree}[{node}, 1]")
            lines.add("    continue")
        here = {field: tuple(lines.fresh("r") for _ in above[field]) for field in fields}
        for field in fields:
            self._copy(here[field], above[field])
            if strict:
                self._add_subtree(path, field, here[field], f"{tree}[{node}, 1]")
        if not strict:
            self._add_span(path, node, left, here, "+")
        self._assign(path, runs, here, totals)
        truth = out.scalars.truth(condition)
        lines.open(f"if {truth if upward else f'not {truth}'}")
        if strict:
            self._note(path, node, at, found)
        self._add_span(path, node, left, above, "+")
        lines.add(f"{node} = {left}")
        lines.close_to(depth + 1)
        lines.open("else")
        if not strict:
            self._note(path, node, at, found)
        lines.add(f"{node} = {tree}[{node}, 1]")
        lines.close_to(depth)
        return self._beyond(path, condition, runs, totals, out.names.of(x), at, found, strict, upward)

    def _beyond(
        self,
        path: Path,
        condition: Scalar,
        runs: tuple[Running, ...],
        totals: dict[str, tuple[str, ...]],
        x: str,
        at: str,
        found: str,
        strict: bool,
        upward: bool,
    ) -> str:
        """The condition as code on x, given the key at which it changes and its truth beyond all keys."""
        out, lines = self.out, self.out.lines
        zero = {field: out.numbers.start(path.layout.kind(field)) for field in totals}
        self._assign(path, runs, totals if strict else zero, totals)
        end = lines.fresh("b")
        truth = out.scalars.truth(condition)
        lines.add(f"{end} = {truth if upward else f'not {truth}'}")
        code = f"({end} or ({found} and {x} >= {at}))" if strict else f"({end} and (not {found} or {x} > {at}))"
        return code if upward else f"(not {code})"

    def _note(self, path: Path, node: str, at: str, found: str) -> None:
        self.out.lines.add(f"{at} = {self._pool(path)}[{node} - 1, {path.position}]")
        self.out.lines.add(f"{found} = True")

    def _assign(
        self,
        path: Path,
        runs: tuple[Running, ...],
        above: dict[str, tuple[str, ...]],
        totals: dict[str, tuple[str, ...]],
    ) -> None:
        """Gives the running sums their values: what is above, or the rest of the total."""
        lines = self.out.lines
        for run in runs:
            words, field = above[run.atom.field], run.atom.field
            if run.way is Way.UP:
                below = tuple(lines.fresh("r") for _ in words)
                self._copy(below, totals[field])
                if len(words) == 1:
                    lines.add(f"{below[0]} -= {words[0]}")
                else:
                    lines.add(f"{', '.join(below)} = wide_add({', '.join(below)}, *wide_mul({', '.join(words)}, -1))")
                words = below
            if len(words) == 2:
                lines.add(f"if {words[0]} != {words[1]} >> 63:")
                lines.add("    control[0] = 1")
            lines.add(f"{self.out.names.of(run.var)} = {words[-1]}")

    def _copy(self, to: tuple[str, ...], words: tuple[str, ...]) -> None:
        for name, word in zip(to, words, strict=True):
            self.out.lines.add(f"{name} = {word}")

    def _add_words(self, path: Path, field: str, to: tuple[str, ...], words: tuple[str, ...]) -> None:
        if len(to) == 1:
            self.out.lines.add(f"{to[0]} += {words[0]}")
        else:
            self.out.lines.add(f"{', '.join(to)} = wide_add({', '.join((*to, *words))})")

    def _add_subtree(self, path: Path, field: str, to: tuple[str, ...], node: str) -> None:
        tree, at, child = self._tree(path), path.layout.tree_offset(field), self.out.lines.fresh("c")
        self.out.lines.add(f"{child} = {node}")
        self._add_words(path, field, to, tuple(f"{tree}[{child}, {at + i}]" for i in range(len(to))))

    # Groups

    def _each_group(self, plan: Plan, path: Path, bound: Bound, body: Callable[[Path, Bound], None]) -> None:
        """Leaps from each value of the groups to the next."""
        out, lines, depth = self.out, self.out.lines, self.out.lines.depth
        given = replace(path, prefix=path.prefix[: -len(plan.groups)])
        node = self._first_past(given, ALWAYS)
        name = self._pool(path)
        at_prefix = "".join(f" and {name}[{node} - 1, {position}] == {word}" for position, word in given.prefix)
        out.loops.append(f"{out.names.store(path.view.name)}_meta[2]")
        lines.open(f"while {node} != 0{at_prefix}")
        for var in plan.groups:
            word = f"{name}[{node} - 1, {path.view.args.index(var)}]"
            lines.add(f"{out.names.of(var)} = " + (f"double_of({word})" if var.type.is_float else word))
        following = self._first_past(path, NEVER)
        body(path, bound | frozenset(plan.groups))
        lines.close_to(depth + 1)
        lines.add(f"{node} = {following}")
        lines.close_to(depth)
        out.loops.pop()

    def _first_past(self, path: Path, condition: str) -> str:
        """The first node past the prefix, or at it where the condition holds."""
        lines, tree, depth = self.out.lines, self._tree(path), self.out.lines.depth
        found, node = lines.fresh("n"), lines.fresh("n")
        lines.add(f"{found} = 0")
        lines.add(f"{node} = {tree}[0, 0]")
        lines.open(f"while {node} != 0")
        self._read(path, node, condition)
        lines.open(f"if {self._past(path, node, condition.replace('{node}', node))}")
        lines.add(f"{found} = {node}")
        lines.add(f"{node} = {tree}[{node}, 0]")
        lines.close_to(depth + 1)
        lines.add("else:")
        lines.add(f"    {node} = {tree}[{node}, 1]")
        lines.close_to(depth)
        return found

    # Rows of a range

    def rows(
        self,
        chains: Sequence[Sequence[Expr]],
        bound: Bound,
        numbers: list[Product],
        done: Done,
        slowly: Callable[[], None],
    ) -> bool:
        """Writes a loop over the rows of the first atom that pass a later condition, if an order finds them."""
        factors = [chain[0] for chain in chains]
        exists = isinstance(factors[0], Exists)
        atoms = [atom for f in factors if isinstance(atom := f.body if isinstance(f, Exists) else f, View)]
        if len(atoms) < len(chains) or len(set(atoms[0].args)) < len(atoms[0].args):
            return False
        out, lines, depth = self.out, self.out.lines, self.out.lines.depth
        if (first := self._by_rank(atoms[0], chains[0][1:], bound)) is not None:
            path = first
            lines.open(f"if {self._ready(path, bound)}")
            node, step = self._until_enough(path)
        elif (stretch := self._stretch(atoms[0], chains[0][1:], bound)) is not None:
            path, lower, upper = stretch
            lines.open(f"if {self._ready(path, bound)}")
            node, step = self._while(path, lower, upper)
        else:
            return False
        out.loops.append(f"{out.names.store(path.view.name)}_meta[2]")
        slot, inner = lines.fresh("s"), lines.depth
        lines.add(f"{slot} = {node} - 1")
        lines.add(f"{node} = {step}({self._tree(path)}, {node})")
        known = [position for position, _ in path.prefix]
        if exists:
            out.visit(atoms[:1], slot, known, bound, [Product()], lambda _, now: done(numbers, now))
        else:
            out.visit(atoms, slot, known, bound, numbers, done)
        lines.close_to(inner)
        out.loops.pop()
        lines.close_to(depth)
        lines.open("else")
        slowly()
        lines.add("pass")
        lines.close_to(depth)
        return True

    def _while(self, path: Path, lower: str, upper: str) -> tuple[str, str]:
        """Opens a loop over an interval: the node, and the function that leads to the next."""
        lines, pool = self.out.lines, self._pool(path)
        node = self._first_past(path, lower)
        at_prefix = "".join(f" and {pool}[{node} - 1, {position}] == {word}" for position, word in path.prefix)
        lines.open(f"while {node} != 0{at_prefix}")
        self._read(path, node, upper)
        if upper != ALWAYS:
            lines.add(f"if not {upper.replace('{node}', node)}:")
            lines.add("    break")
        return node, "following"

    def _until_enough(self, path: Path) -> tuple[str, str]:
        """Opens a loop from one end of the order until enough rows are found and no other ranks with the last."""
        lines, pool, top = self.out.lines, self._pool(path), self.top
        assert top is not None
        node = self._last_until(path) if top.descending else self._first_past(path, ALWAYS)
        last, now = lines.fresh("x"), lines.fresh("x")
        lines.add(f"{last} = 0")
        lines.open(f"while {node} != 0")
        lines.add(f"{now} = {pool}[{node} - 1, {path.position}]")
        lines.add(f"if n >= {top.size} and {now} != {last}:")
        lines.add("    break")
        lines.add(f"{last} = {now}")
        return node, "preceding" if top.descending else "following"

    def _by_rank(self, atom: View, rest: Sequence[Expr], bound: Bound) -> Path | None:
        """The index that ranks the rows of an atom as the result wants them."""
        if self.top is None or bound or self.top.x.type.nullable or not _is_ordered(self.top.x):
            return None
        if self.top.x in atom.args:
            return self._path(atom, self.top.x, bound, ())
        for factor in rest:
            match factor:
                case Lift(var, View(name, field, args)) if var == self.top.x and (name, args) == (atom.name, atom.args):
                    return self._path(atom, var, bound, (), field)
        return None

    def _stretch(self, atom: View, rest: Sequence[Expr], bound: Bound) -> tuple[Path, str, str] | None:
        """An index, where to begin in it, and how long to go on: by a number that is known, or by conditions."""
        if all(arg in bound for arg in atom.args):
            return None
        layout = self.out.layouts[atom.name]
        for factor in rest:
            match factor:
                case Lift(var, View(name, field, args)) if (name, args) == (atom.name, atom.args):
                    if var.type.is_float or layout.kind(field) == "double":
                        continue
                    if var in bound:
                        path = replace(self._path(atom, var, bound, (), field), x="")  # x is known: nothing to read
                        wide = layout.kind(field) == "wide"
                        return path, *_equal(self._pool(path), path, self.out.names.of(var), wide)
                    if cut := self._conditions(var, rest, bound):
                        return self._path(atom, var, bound, (), field), *cut
        if any(arg in bound for arg in atom.args):
            return None  # the rows of a slice are few enough
        for arg in atom.args:
            if _is_ordered(arg) and (cut := self._conditions(arg, rest, bound)):
                return self._path(atom, arg, bound, ()), *cut
        return None

    def _conditions(self, x: Var, rest: Sequence[Expr], bound: Bound) -> tuple[str, str] | None:
        """The conditions on x and what is known as code for where its interval begins and goes on."""
        ways = {x: Way.UP}
        found = [
            factor.scalar
            for factor in rest
            if isinstance(factor, Cond)
            and x in (used := set(scalar_variables(factor.scalar)))
            and used <= bound | {x}
            and truth_way(factor.scalar, ways) is not None
        ]
        parts = intervals(found, ways)
        if not found or parts is None or len(parts) > 1:
            return None
        (part,) = parts
        self.covered.update(found)
        present = f"({self.out.names.of(x)} != NULL)" if x.type.nullable else ALWAYS
        return (
            both(present, *(self._code(test, {}) for test in part.ups)),
            both(*(self._code(test, {}) for test in part.downs)),
        )

    def _read(self, path: Path, node: str, *conditions: str) -> None:
        """Reads the word that varies, if a condition is on it."""
        if path.x and any(path.x in condition for condition in conditions):
            self.out.lines.add(f"{path.x} = {self._pool(path)}[{node} - 1, {path.position}]")

    # Extremes

    def extreme(self, which: Extreme, of: Var, body: Expr, bound: Bound, best: str, found: str) -> str | None:
        """Writes the search for the least or greatest value; code that says whether it was worth it, or None."""
        source = _ordered_values(body, of)
        if source is None:
            return None
        atom, field = source
        if len(set(atom.args)) < len(atom.args) or not _is_ordered(of):
            return None
        lines = self.out.lines
        path = self._path(atom, of, bound, (), field)
        worth = lines.fresh("o")
        lines.add(f"{worth} = {self._worth(path, bound, None)}")
        depth, tree, pool = lines.depth, self._tree(path), self._pool(path)
        lines.open(f"if {worth}")
        given = path.prefix or ((0, "0"),)
        positions, prefix = tuple(position for position, _ in given), ", ".join(word for _, word in given)
        number = f"{path.layout.offset(atom.field)}, {_width(path, atom)}"
        search = "first_of" if which is Extreme.MIN else "last_of"
        node = lines.fresh("n")
        lines.add(f"{node} = {search}({pool}, {tree}, {positions!r}, ({prefix},), {len(path.prefix)}, {number})")
        lines.open(f"if {node} != 0")
        lines.add(f"{best} = {pool}[{node} - 1, {path.position}]")
        lines.add(f"{found} = True")
        if field and path.layout.kind(field) == "wide":
            lines.add(f"if {pool}[{node} - 1, {path.position - 1}] != {best} >> 63:")
            lines.add("    control[0] = 1")
        lines.close_to(depth)
        return worth

    def _last_until(self, path: Path) -> str:
        """The last node not past the prefix."""
        lines, tree, depth = self.out.lines, self._tree(path), self.out.lines.depth
        found, node = lines.fresh("n"), lines.fresh("n")
        lines.add(f"{found} = 0")
        lines.add(f"{node} = {tree}[0, 0]")
        lines.open(f"while {node} != 0")
        if path.prefix:
            lines.open(f"if {self._past(path, node, NEVER)}")
            lines.add(f"{node} = {tree}[{node}, 0]")
            lines.add("continue")
            lines.close_to(depth + 1)
        lines.add(f"{found} = {node}")
        lines.add(f"{node} = {tree}[{node}, 1]")
        lines.close_to(depth)
        return found

    # Indexes

    def _path(self, atom: View, x: Var, bound: Bound, groups: tuple[Var, ...], field: str = "") -> Path:
        """The index on what is bound, then the groups, then x: a key, or the number in a field."""
        out, layout = self.out, self.out.layouts[atom.name]
        given = [i for i, arg in enumerate(atom.args) if arg in bound] + [atom.args.index(var) for var in groups]
        prefix = tuple((i, out.names.key_word(atom.args[i])) for i in given)
        if field:
            position = layout.offset(field) + (1 if layout.kind(field) == "wide" else 0)
        else:
            position = atom.args.index(x)
        columns = tuple(given) if field else (*given, position)
        number = out.order_number(atom.name, columns, field)
        return Path(atom, layout, number, prefix, position, out.names.of(x))

    def _worth(self, path: Path, bound: Bound, plan: Plan | None) -> str:
        """Code for: there are enough rows, and the running sums of the plan are monotone."""
        conditions = [self._ready(path, bound)]
        for run in dict.fromkeys(run for runs in (plan.runnings.values() if plan else ()) for run in runs):
            inner = self._path(run.atom, run.of, frozenset(run.atom.args) - {run.of}, ())
            self.out.watch(run.atom.name, inner.number, run.atom.field)
            tree = self._tree(inner)
            conditions += [self._ready(inner, frozenset()), f"{tree}[{tree}[0, 0], 3] == 0"]
        return " and ".join(dict.fromkeys(conditions))

    def _ready(self, path: Path, bound: Bound) -> str:
        """Code that asks whether the rows to be visited otherwise are many, and if so has the index ready."""
        name = self.out.names.store(path.view.name)
        arrays = f"{name}_pool, {name}_live, {name}_meta, {self._tree(path)}, {name}_spec{path.number}"
        positions = tuple(i for i, arg in enumerate(path.view.args) if arg in bound)
        if not positions:
            return f"ready({arrays}, {name}_meta[2])"
        return f"ready_for_chain({arrays}, {self.out.chain(path.view, positions)})"

    def _tree(self, path: Path) -> str:
        return f"{self.out.names.store(path.view.name)}_tree{path.number}"

    def _pool(self, path: Path) -> str:
        return f"{self.out.names.store(path.view.name)}_pool"


def _order_variables(factor: Expr, fresh: Sequence[Var]) -> set[Var]:
    """The variables of an atom that a later factor depends on."""
    return set(fresh) & free_variables(factor)


def _alike(runs: Sequence[Running]) -> list[Running]:
    """The running sums with the variable that varies called the same."""
    first = runs[0].of
    return [
        Running(
            run.var,
            View(run.atom.name, run.atom.field, tuple(first if arg == run.of else arg for arg in run.atom.args)),
            first,
            run.op,
        )
        for run in runs
    ]


def _ordered_values(body: Expr, of: Var) -> tuple[View, str] | None:
    """The atom whose key `of` is, or the atom and the field whose number it is: Exists(V.count[k]) * (of := V.f[k])."""
    if isinstance(body, View) and of in body.args:
        return body, ""
    inner = body.body if isinstance(body, Sum) and body.keys == (of,) else body
    match factors_of(inner):
        case (Exists(View() as atom), Lift(var, View() as number)) if (
            var == of and atom.name == number.name and atom.args == number.args
        ):
            return atom, number.field
    return None


def _equal(pool: str, path: Path, word: str, wide: bool) -> tuple[str, str]:
    """Where the numbers that equal a word begin, and how long they go on; of a wide one the high word is before."""
    number = f"{pool}[{{node}} - 1, {path.position}]"
    if not wide:
        return f"({number} >= {word})", f"({number} == {word})"
    high = f"{pool}[{{node}} - 1, {path.position - 1}]"
    lower = f"({high} > {word} >> 63 or ({high} == {word} >> 63 and {number} ^ NULL >= {word} ^ NULL))"
    return lower, f"({high} == {word} >> 63 and {number} == {word})"


def _width(path: Path, atom: View) -> int:
    return 1 if path.layout.kind(atom.field) == "count" else 2


def _is_ordered(var: Var) -> bool:
    """Whether the words of a column are in the order of its values."""
    return var.type.kind is not Kind.VARCHAR and not var.type.is_float
