"""Range scans over an ordered index: rows that pass a condition, the first of a ranking, the least and the greatest.

Exists(V.count[k]) * (s := V.sum[k]) * {s > bound}     the rows past a bound, in an index over the number in `sum`
ORDER BY s DESC LIMIT 10                               from the end of that index
max s: ...                                             its end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Cond, Exists, Expr, Extreme, Lift, Scalar, Sum, Var, View, factors_of
from viewlet.algebra.traverse import variable_set
from viewlet.codegen.monotone import Direction, intervals, is_ordered, truth_direction
from viewlet.codegen.numbers import Product
from viewlet.codegen.trees import Path, TreeWriter
from viewlet.codegen.word import ALWAYS, both

if TYPE_CHECKING:
    from viewlet.codegen.products import Bound, Done, ProductWriter


@dataclass(frozen=True, slots=True)
class Top:
    """A limit: only the first or last rows by x are needed; one more row shows that there are others."""

    x: Var
    descending: bool
    size: int


class RangeScanWriter:
    def __init__(self, out: ProductWriter, trees: TreeWriter) -> None:
        self.out = out
        self.trees = trees
        self.top: Top | None = None
        self.covered: set[Scalar] = set()
        """Conditions that an order answers: no row is visited that fails them."""

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
            lines.open(f"if {self.trees.ready(path, bound)}")
            node, side = self._until_enough(path)
        elif (scanned := self._range(atoms[0], chains[0][1:], bound)) is not None:
            path, lower, upper = scanned
            lines.open(f"if {self.trees.ready(path, bound)}")
            node, side = self._while(path, lower, upper)
        else:
            return False
        out.loops.append(path.alive)
        slot, inner = lines.fresh("s"), lines.depth
        lines.add(f"{slot} = {node} - 1")
        lines.add(f"{node} = neighbour({path.tree}, {node}, {side})")
        known = [position for position, _ in path.prefix]
        if exists:
            out.visit(atoms[:1], slot, known, bound, [Product()], lambda _, now: done(numbers, now))
        else:
            out.visit(atoms, slot, known, bound, numbers, done)
        lines.close_to(inner)
        out.loops.pop()
        lines.close_to(depth)
        self.out.otherwise(slowly)
        return True

    def _while(self, path: Path, lower: str, upper: str) -> tuple[str, str]:
        """Opens a loop over an interval: the node, and the side on which the next one is."""
        lines = self.out.lines
        node = self.trees.first_past(path, lower)
        lines.open(path.while_at_prefix(node))
        self.trees.read(path, node, upper)
        if upper != ALWAYS:
            lines.add(f"if not {upper.replace('{node}', node)}:")
            lines.add("    break")
        return node, "RIGHT"

    def _until_enough(self, path: Path) -> tuple[str, str]:
        """Opens a loop from one end of the order until enough rows are found and no other ranks with the last."""
        lines, pool, top = self.out.lines, path.pool, self.top
        assert top is not None
        node = self.trees.last_until(path) if top.descending else self.trees.first_past(path, ALWAYS)
        last, now = lines.fresh("x"), lines.fresh("x")
        lines.add(f"{last} = 0")
        lines.open(f"while {node} != 0")
        lines.add(f"{now} = {pool}[{node} - 1, {path.position}]")
        lines.add(f"if n >= {top.size} and {now} != {last}:")
        lines.add("    break")
        lines.add(f"{last} = {now}")
        return node, "LEFT" if top.descending else "RIGHT"

    def _by_rank(self, atom: View, rest: Sequence[Expr], bound: Bound) -> Path | None:
        """The index that ranks the rows of an atom in the order of the result."""
        if self.top is None or bound or self.top.x.type.nullable or not is_ordered(self.top.x):
            return None
        if self.top.x in atom.args:
            return self.trees.path(atom, self.top.x, bound, ())
        for factor in rest:
            match factor:
                case Lift(var, View(name, field, args)) if var == self.top.x and (name, args) == (atom.name, atom.args):
                    return self.trees.path(atom, var, bound, (), field)
        return None

    def _range(self, atom: View, rest: Sequence[Expr], bound: Bound) -> tuple[Path, str, str] | None:
        """An index, the start of a scan, and its end, given by a known number or by conditions."""
        if all(arg in bound for arg in atom.args) or not self.trees.pays(atom, bound) or self.out.runs_once:
            return None
        layout = self.out.layouts[atom.name]
        for factor in rest:
            match factor:
                case Lift(var, View(name, field, args)) if (name, args) == (atom.name, atom.args):
                    if var.type.is_float or layout.kind(field) == "double":
                        continue
                    if var in bound:
                        known = replace(self.trees.path(atom, var, bound, (), field), x="")  # nothing to read
                        return known, *_equal(known, self.out.names.of(var), layout.kind(field) == "wide")
                    if cut := self._conditions(var, rest, bound):
                        return self.trees.path(atom, var, bound, (), field), *cut
        if any(arg in bound for arg in atom.args):
            return None  # the rows of a slice are few enough
        for arg in atom.args:
            if is_ordered(arg) and (cut := self._conditions(arg, rest, bound)):
                return self.trees.path(atom, arg, bound, ()), *cut
        return None

    def _conditions(self, x: Var, rest: Sequence[Expr], bound: Bound) -> tuple[str, str] | None:
        """The conditions on x as code for the start and the end of its interval."""
        directions = {x: Direction.UP}
        found = [
            factor.scalar
            for factor in rest
            if isinstance(factor, Cond)
            and x in (used := variable_set(factor.scalar))
            and used <= bound | {x}
            and truth_direction(factor.scalar, directions) is not None
        ]
        parts = intervals(found, directions)
        if not found or parts is None or len(parts) > 1:
            return None
        (part,) = parts
        self.covered.update(found)
        present = f"({self.out.names.of(x)} != NULL)" if x.type.nullable else ALWAYS
        return (
            both(present, *(self.trees.code(test, {}) for test in part.ups)),
            both(*(self.trees.code(test, {}) for test in part.downs)),
        )

    def extreme(self, which: Extreme, of: Var, body: Expr, bound: Bound, best: str, found: str) -> str | None:
        """Writes the search for the least or greatest value; code that says whether the index was ready, or None."""
        source = _ordered_values(body, of)
        if source is None or self.out.is_read_once:
            return None
        atom, field = source
        if len(set(atom.args)) < len(atom.args) or not is_ordered(of) or not self.trees.pays(atom, bound):
            return None
        lines = self.out.lines
        path = self.trees.path(atom, of, bound, (), field)
        is_ready = lines.fresh("o")
        lines.add(f"{is_ready} = {self.trees.ready(path, bound)}")
        depth, tree, pool = lines.depth, path.tree, path.pool
        lines.open(f"if {is_ready}")
        given = path.prefix or ((0, "0"),)
        positions, prefix = tuple(position for position, _ in given), ", ".join(word for _, word in given)
        number = f"{path.layout.offset(atom.field)}, {_width(path, atom)}"
        side = "LEFT" if which is Extreme.MIN else "RIGHT"
        node = lines.fresh("n")
        lines.add(f"{node} = end_of({pool}, {tree}, {positions!r}, ({prefix},), {len(path.prefix)}, {number}, {side})")
        lines.open(f"if {node} != 0")
        lines.add(f"{best} = {pool}[{node} - 1, {path.position}]")
        lines.add(f"{found} = True")
        if field and path.layout.kind(field) == "wide":
            self.out.numbers.narrow((f"{pool}[{node} - 1, {path.position - 1}]", best), of.type)
        lines.close_to(depth)
        return is_ready


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


def _equal(path: Path, word: str, wide: bool) -> tuple[str, str]:
    """The start and end of the numbers that equal a word; the high word of a wide number precedes it."""
    number = f"{path.pool}[{{node}} - 1, {path.position}]"
    if not wide:
        return f"({number} >= {word})", f"({number} == {word})"
    high = f"{path.pool}[{{node}} - 1, {path.position - 1}]"
    lower = f"({high} > {word} >> 63 or ({high} == {word} >> 63 and {number} ^ NULL >= {word} ^ NULL))"
    return lower, f"({high} == {word} >> 63 and {number} == {word})"


def _width(path: Path, atom: View) -> int:
    return 1 if path.layout.kind(atom.field) == "count" else 2
