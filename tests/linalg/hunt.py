"""Random matrix programs beside exact arithmetic: python -m tests.linalg.hunt --programs 10000

Small matrices of any shape, with sides of length one, names that a trigger might use, numbers from 1e-200 to 1e200,
and every strategy and kind of change. Inputs have to be what was asked for, up to the rounding of their own terms;
views may be off by rounding that is made larger by the norms and condition numbers of their definition; estimates and
bounds of errors have to hold; and nothing but an error of this library may be raised, which leaves all as it was.
"""

from __future__ import annotations

import argparse
import math
import sys
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from viewlet import linalg
from viewlet.errors import ViewletError
from viewlet.linalg import expression as e

EPSILON = float(np.finfo(np.float64).eps)
FOLLOWED = 1e5
"""Rounding of updates that are followed, in that of an evaluation: three digits may be lost, at every update."""
INVERTED = 1e9
"""The same for inverses, whose capacitance matrices may have condition numbers of up to the root of 1 / ε."""
HUGE, TINY = 1e290, 1e-290
NAMES = [
    "A",
    "u_A",
    "v_A",
    "U_B",
    "V_B",
    "D_C",
    "Z_W",
    "W",
    "M",
    "M_2",
    "F",
    "P2",
    "S2",
    "T1",
    "I",
    "input",
    "inv",
    "x_2",
]

exact = np.vectorize(Fraction, otypes=[object])


@dataclass
class Node:
    """The exact value of an expression; its rounding in units of ε, and bounds of what is computed on the way to it."""

    value: Any
    rounding: Any
    reach: Any
    """No number on the way to the value is larger."""
    condition: Any = 1.0
    """The largest one of the inverses in it."""


def norm(value: Any) -> Any:
    """The largest number times the size, in the range of long doubles."""
    if not value.size:
        return np.longdouble(0.0)
    largest = max(abs(each) for each in value.flat)
    return _long(largest) * np.sqrt(np.longdouble(value.size))


def _long(number: Fraction) -> Any:
    if not number:
        return np.longdouble(0.0)
    shift = number.numerator.bit_length() - number.denominator.bit_length()
    return np.ldexp(np.longdouble(float(number / Fraction(2) ** shift)), shift)


def node_of(node: e.Expression, inputs: dict[str, Any], sizes: dict[str, int], done: dict[Any, Node]) -> Node:
    """The exact value of an expression, and how much rounding it may have."""
    if node not in done:
        parts = [node_of(part, inputs, sizes, done) for part in e.children(node)]
        done[node] = _node(node, parts, inputs, sizes)
    return done[node]


def _node(node: e.Expression, parts: list[Node], inputs: dict[str, Any], sizes: dict[str, int]) -> Node:
    one = np.longdouble(1.0)
    match node:
        case e.Matrix():
            value = exact(inputs[node.name])
            return Node(value, norm(value), max(one, norm(value)))
        case e.Identity():
            return Node(exact(np.eye(node.size.whole(sizes), dtype=int)), one, one)
        case e.Zero():
            return Node(exact(np.zeros((node.rows.whole(sizes), node.columns.whole(sizes)), int)), 0 * one, one)
        case e.Named():
            return parts[0]
        case e.Transpose():
            return Node(parts[0].value.T, parts[0].rounding, parts[0].reach, parts[0].condition)
        case e.Scale():
            value = parts[0].value * Fraction(node.factor)
            size = abs(np.longdouble(node.factor))
            return Node(
                value, size * parts[0].rounding + norm(value), max(one, size) * parts[0].reach, parts[0].condition
            )
        case e.Sum():
            return _together(sum(part.value for part in parts), parts)
        case e.Stack():
            return _together(np.concatenate([part.value for part in parts], axis=0 if node.vertical else 1), parts)
        case e.Product():
            return _product(*parts)
        case e.Recurrence():
            found = parts[0] if node.kind == "power" else None
            if found is not None:
                for _ in range(node.steps - 1):
                    found = _product(found, parts[0])
                return found
            base = parts[0]
            if node.kind == "power_sum":
                identity = Node(exact(np.eye(len(base.value), dtype=int)), one, one)
                total = identity
                for _ in range(node.steps - 1):
                    total = _added(identity, _product(base, total))
                return total
            total = parts[2]
            for _ in range(node.steps):
                total = _added(_product(base, total), parts[1])
            return total
        case e.Inverse():
            return _inverse(parts[0])


def _together(value: Any, parts: list[Node]) -> Node:
    return Node(
        value,
        sum(part.rounding + norm(part.value) for part in parts),
        sum(part.reach for part in parts),
        max(part.condition for part in parts),
    )


def _added(left: Node, right: Node) -> Node:
    return _together(left.value + right.value, [left, right])


def _product(left: Node, right: Node) -> Node:
    first, second = norm(left.value), norm(right.value)
    inner = max(1, left.value.shape[1])
    return Node(
        left.value @ right.value
        if left.value.shape[1]
        else exact(np.zeros((len(left.value), right.value.shape[1]), int)),
        left.rounding * second + first * right.rounding + inner * first * second,
        inner * left.reach * right.reach,
        max(left.condition, right.condition),
    )


def _inverse(body: Node) -> Node:
    count = len(body.value)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(count))] for i, row in enumerate(body.value)]
    for k in range(count):
        best = max(range(k, count), key=lambda i: abs(rows[i][k]))
        if not rows[best][k]:
            raise ZeroDivisionError
        rows[k], rows[best] = rows[best], rows[k]
        rows[k] = [each / rows[k][k] for each in rows[k]]
        for i in range(count):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    value = np.array([row[count:] for row in rows], object).reshape(count, count)
    size, own = norm(value), norm(body.value)
    rounding = size * size * (body.rounding + max(1, count) * own)
    condition = max(body.condition, size * own, size * body.rounding)
    return Node(value, rounding * (INVERTED / FOLLOWED), body.reach * max(size, 1), condition)


# -- programs ----------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """One random program, its inputs and its updates."""

    seed: int
    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.sizes = {name: int(self.rng.choice([1, 1, 2, 3, 4])) for name in "mnp"}
        self.wild = self.rng.random() < 0.5
        names = list(self.rng.permutation(NAMES))
        self.inputs = [
            linalg.matrix(str(names.pop()), linalg.dim(rows), linalg.dim(columns), dynamic=True)
            for rows, columns in ("nn", "mn", "mp", "np")
        ]
        self.inputs.append(linalg.matrix(str(names.pop()), linalg.dim("n"), 1, dynamic=True))
        self.inputs.append(linalg.matrix(str(names.pop()), linalg.dim("n"), linalg.dim("p")))
        self.inputs.append(
            linalg.matrix(str(names.pop()), linalg.dim("n"), linalg.dim("n"), dynamic=True, definite=True)
        )
        self.names = names

    def chosen(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def expression(self, rows: Any, columns: Any, depth: int) -> e.Expression:
        """A random expression of a shape."""
        fitting = [each for each in self.inputs if (each.rows, each.columns) == (rows, columns)]
        fitting += [each.T for each in self.inputs if (each.columns, each.rows) == (rows, columns)]
        kind = self.chosen(range(9)) if depth else 0
        sides = [linalg.dim("n"), linalg.dim("m"), linalg.dim("p"), fitting[0].shape[0] if fitting else rows]
        if kind == 0 and fitting:
            return self.chosen(fitting)
        if depth <= 0:
            inner = linalg.dim("n")
            pairs = [
                a @ b
                for a in [*self.inputs, *(each.T for each in self.inputs)]
                for b in [*self.inputs, *(each.T for each in self.inputs)]
                if a.shape[0] == rows and b.shape[1] == columns and a.shape[1] == b.shape[0] == inner
            ]
            return self.chosen(pairs) if pairs else e.zero(rows, columns)
        if kind == 1:
            return self.expression(rows, columns, depth - 1) + self.expression(rows, columns, depth - 1)
        if kind == 2:
            return self.expression(rows, columns, depth - 1) * self.chosen([2.0, -0.5, 0.1, 3.0])
        if kind == 3:
            return self.expression(columns, rows, depth - 1).T
        if kind == 4 and rows == columns:
            return self.inverse(rows, depth)
        if kind == 5 and rows == columns:
            base = self.expression(rows, rows, depth - 1)
            count = self.chosen([2, 3, 4])
            model = self.chosen(["auto", "linear", "exponential", "telescoped"])
            if self.rng.random() < 0.5:
                return linalg.matrix_power(base, count, model=model)
            return linalg.power_sum(base, count, model="auto" if model == "telescoped" else model)
        if kind == 6:
            base, right = self.expression(rows, rows, depth - 1), self.expression(rows, columns, depth - 1)
            return linalg.iterate(base, right, self.expression(rows, columns, 0), steps=self.chosen([1, 2, 3]))
        inner = self.chosen(sides)
        return self.expression(rows, inner, depth - 1) @ self.expression(inner, columns, depth - 1)

    def inverse(self, side: Any, depth: int) -> e.Expression:
        definite = [each for each in self.inputs if each.definite and each.rows == side]
        kind = self.chosen(range(3))
        if kind == 0 and definite:
            return linalg.inv(definite[0])
        if kind == 1:
            half = self.expression(self.chosen([linalg.dim("m"), linalg.dim("n")]), side, 0)
            return linalg.inv(half.T @ half + self.chosen([1.0, 0.01]) * linalg.identity(side))
        return linalg.inv(self.expression(side, side, depth - 1) + 5.0 * linalg.identity(side))

    def program(self) -> linalg.Program:
        outputs: dict[str, e.Expression] = {}
        for _ in range(int(self.rng.integers(1, 4))):
            rows, columns = (self.chosen([linalg.dim("n"), linalg.dim("m"), linalg.dim("p")]) for _ in range(2))
            body = self.expression(rows, columns, int(self.rng.integers(1, 4)))
            if not isinstance(body, e.Identity | e.Zero | e.Matrix):
                outputs[str(self.names.pop())] = body
        return linalg.program(**outputs) if outputs else linalg.program(Fallback=self.inputs[0] @ self.inputs[0])

    # -- numbers -------------------------------------------------------------------------------------------------------

    def numbers(self, rows: int, columns: int) -> Any:
        found = self.rng.standard_normal((rows, columns))
        if self.wild and self.rng.random() < 0.35:
            most = self.chosen([3, 8, 20, 100, 200])
            shape = self.chosen([(rows, 1), (1, columns), (1, 1)])
            found = found * 10.0 ** self.rng.integers(-most, most + 1, shape)
        if self.rng.random() < 0.2:
            found = found * (self.rng.random(found.shape) < 0.5)
        return found

    def array(self, each: e.Matrix) -> Any:
        rows, columns = each.rows.whole(self.sizes), each.columns.whole(self.sizes)
        if each.definite:
            half = self.rng.standard_normal((rows, rows))
            return half @ half.T + np.eye(rows)
        return self.numbers(rows, columns)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self) -> Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", linalg.LinAlgWarning)
            try:
                self._run()
            except Exception as wrong:  # the point of a hunt is to find those too
                self.problems.append(f"{type(wrong).__name__}: {wrong}\n{traceback.format_exc(limit=-6)}")
        return self

    def _run(self) -> None:
        program = self.program()
        self.now = {each.name: self.array(each) for each in program.inputs}
        options: dict[str, Any] = {"strategy": self.chosen(["auto", "incremental", "hybrid", "reevaluate"])}
        options["backend"] = self.chosen(["auto", "numpy"])
        options["cholesky"] = bool(self.rng.random() < 0.7)
        if self.rng.random() < 0.2:
            options["defer"] = 3
        elif self.rng.random() < 0.2:
            options["bounds"] = True
        if self.rng.random() < 0.1:
            options["refresh"] = self.chosen([2, 1e-9])
        self.log.append(f"{program.text()}\n{self.sizes} {options}")
        try:
            run = program.start(**self.now, **options)
        except ViewletError as refused:
            self._check_refusal(program, refused, self.now)
            return
        self._check(run, reads=True)
        for _ in range(int(self.rng.integers(2, 7))):
            before = {name: array.copy() for name, array in self.now.items()}
            wanted = None
            try:
                wanted = self._change(run)
            except ViewletError as refused:
                self.counts["refused"] += 1
                self._check_refusal(program, refused, wanted)
                self.now = before
            self._check(run, reads=self.rng.random() < 0.7)
        self._check(run, reads=True)

    def _change(self, run: linalg.Run) -> Any:
        """A random change of the run, and of the arrays that the inputs have to be."""
        each = self.chosen([one for one in run.program.inputs if one.dynamic] or [None])
        if each is None:
            return None
        name, now = each.name, self.now[each.name]
        rows, columns = now.shape
        kind = self.chosen(["update", "update", "set", "row", "column", "entries", "add", "scale", "spike", "grow"])
        if each.definite:
            kind = self.chosen(["symmetric", "scale"])
        self.log.append(f"{kind} {name}")
        self.counts[kind] += 1
        row, column = int(self.rng.integers(rows)), int(self.rng.integers(columns))
        if kind == "update":
            rank = self.chosen([1, 1, 2, 3, 4, 5, 8, 13, 20])
            u, v = self.numbers(rows, rank), self.numbers(columns, rank)
            if self.rng.random() < 0.3:
                u = u[:, self.rng.integers(0, rank, rank)]
            run.update(name, u, v)
            self._added(name, u, v)
        elif kind == "symmetric":
            x = self.rng.standard_normal((rows, self.chosen([1, 2, 3])))
            run.update(name, x, x)
            self._added(name, x, x)
        elif kind == "set":
            wanted = float(self.numbers(1, 1)[0, 0])
            run.set(name, row, column, wanted)
            now[row, column] = wanted
        elif kind == "row":
            wanted = self.numbers(1, columns)[0]
            run.set_row(name, row, wanted)
            now[row] = wanted
        elif kind == "column":
            wanted = self.numbers(1, rows)[0]
            run.set_column(name, column, wanted)
            now[:, column] = wanted
        elif kind == "entries":
            places = [(int(self.rng.integers(rows)), int(self.rng.integers(columns))) for _ in range(3)]
            wanted = self.numbers(1, 3)[0]
            run.apply({name: linalg.Entries([i for i, _ in places], [j for _, j in places], wanted)})
            for (i, j), one in zip(places, wanted, strict=True):
                now[i, j] = one
        elif kind == "add":
            added = self.numbers(rows, columns)
            run.add(name, added)
            self._added(name, added, np.eye(columns))
        elif kind == "scale":
            factor = float(self.chosen([0.5, -2.0, 0.99, 1e10, 1e-30, 1e200]))
            factor = abs(factor) if each.definite else factor
            run.scale(name, factor)
            self.now[name] = now * factor
        elif kind == "spike":
            kept = now[row, column]
            with suppress(ViewletError):
                run.set(name, row, column, self.chosen([1e5, 1e12, 1e100, 1e200, 1e307]))
            run.set(name, row, column, kept)
        else:
            self._rows(run, each, row)
        return None

    def _rows(self, run: linalg.Run, each: e.Matrix, row: int) -> None:
        side = each.rows
        sharing = [one for one in run.program.inputs if side.names & (one.rows.names | one.columns.names)]
        if (
            any(one.rows != side or one.columns.names & side.names or not one.dynamic for one in sharing)
            or not side.names
        ):
            return
        count = len(self.now[each.name])
        if self.rng.random() < 0.5 or count == 1:
            new = {one.name: self.numbers(1, self.now[one.name].shape[1])[0] for one in sharing}
            run.append_row(each.name, new[each.name], **{name: row for name, row in new.items() if name != each.name})
            self.now |= {name: np.vstack([self.now[name], added]) for name, added in new.items()}
        else:
            run.delete_row(each.name, row)
            self.now |= {one.name: np.delete(self.now[one.name], row, 0) for one in sharing}
        self.sizes[next(iter(side.names))] = len(self.now[each.name])

    def _added(self, name: str, u: Any, v: Any) -> None:
        """Each entry may be off by the rounding of its own terms; then the input is what it is."""
        before = self.now[name]
        self.now[name] = _Sum(before, u, v)  # type: ignore[assignment]

    # -- checking ------------------------------------------------------------------------------------------------------

    def _check(self, run: linalg.Run, *, reads: bool) -> None:
        for name, wanted in self.now.items():
            if not reads and not isinstance(wanted, _Sum):
                continue
            found = np.array(run[name])
            if isinstance(wanted, _Sum):
                wanted.check(found, name, self)
            elif any(line.startswith(f"scale {name}") for line in self.log):
                if not np.allclose(found, wanted, rtol=1e-13, atol=TINY):
                    self.problems.append(f"input {name} is {found}, not {wanted}")
            elif not np.array_equal(found, wanted):
                self.problems.append(f"input {name} is {found}, not {wanted}")
            self.now[name] = found
        if not reads:
            return
        done: dict[Any, Node] = {}
        for name, body in run.program.outputs.items():
            try:
                wanted = node_of(body, self.now, self.sizes, done)
            except ZeroDivisionError:
                continue
            self._check_view(run, name, wanted)

    def _check_view(self, run: linalg.Run, name: str, wanted: Node) -> None:
        found = run[name]
        if found.shape != wanted.value.shape or not np.isfinite(found).all():
            self.problems.append(f"view {name} is {found}")
            return
        if not found.size or wanted.condition * EPSILON * INVERTED > 1e-2:
            return
        self.counts["checked"] += 1
        error = norm(exact(found) - wanted.value)
        limit = FOLLOWED * EPSILON * wanted.rounding + TINY * wanted.reach
        if not error <= limit:
            self.problems.append(
                f"view {name} is off by {error:.3g}, at most {limit:.3g}: {found} {wanted.value.astype(float)}"
            )
        if wanted.reach > 1e140 or not isinstance(run._matrices.backend.dtype, np.dtype):
            return
        squares = sum((each * each for each in (exact(found) - wanted.value).flat), Fraction(0))
        error, report = math.sqrt(squares), run.error(name)
        self.counts["estimates"] += 1
        noise = 1e-13 * TINY + 1e-150
        if not error <= report.estimate + noise:
            self.problems.append(
                f"estimate of {name} is {report.estimate:.3g}, the error {error:.3g}, norm {report.norm:.3g}"
            )
        if not error <= report.bound + noise:
            self.problems.append(
                f"bound of {name} is {report.bound:.3g}, the error {error:.3g}, norm {report.norm:.3g}"
            )

    def _check_refusal(self, program: linalg.Program, refused: ViewletError, wanted: Any) -> None:
        """What may be refused: numbers that overflow, and inverses without a value."""
        if not any(word in str(refused) for word in ("overflow", "singular", "finite", "definite")):
            self.problems.append(f"refused: {refused}")


@dataclass
class _Sum:
    """What an input has to be after outer products were added to it."""

    before: Any
    u: Any
    v: Any

    def copy(self) -> _Sum:
        return self

    def check(self, found: Any, name: str, trial: Trial) -> None:
        terms = np.abs(self.before) + np.abs(self.u).astype(np.longdouble) @ np.abs(self.v).T
        wanted = exact(self.before) + exact(self.u) @ exact(self.v).T
        error = np.vectorize(lambda each: _long(abs(each)), otypes=[np.longdouble])(exact(found) - wanted)
        if not (error <= (self.u.shape[1] + 2) * EPSILON * terms + 1e-300).all():
            trial.problems.append(f"input {name} is {found}, not {wanted.astype(float)}")


def main() -> None:
    """Hunts, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(options.first, options.first + options.programs):
        trial = Trial(seed).run()
        counts += trial.counts
        if trial.problems:
            wrong += 1
            print(f"--- program {seed}", *trial.log, *trial.problems[:3], sep="\n", flush=True)
    print(f"{options.programs} programs, {wrong} of them wrong; {dict(counts)}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
