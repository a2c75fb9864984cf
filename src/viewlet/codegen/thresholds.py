"""The point at which a condition on running sums changes, found by one descent of the tree that holds the sums.

total > (s := Sum[](bids.sum_volume[q] * {q > p}))        holds from some p on, as long as nothing negative is added
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Scalar, Var
from viewlet.codegen.monotone import Direction, RunningSum, truth_direction
from viewlet.codegen.trees import Path, TreeWriter, Words
from viewlet.codegen.word import ALWAYS, NEVER

if TYPE_CHECKING:
    from viewlet.codegen.products import ProductWriter


class ThresholdWriter:
    def __init__(self, out: ProductWriter, trees: TreeWriter) -> None:
        self.out = out
        self.trees = trees

    def threshold(self, condition: Scalar, runs: tuple[RunningSum, ...], x: Var) -> str:
        """Finds where a condition on running sums changes; the condition as code on x."""
        out, lines = self.out, self.out.lines
        directions = {run.var: run.direction for run in runs}
        upward = truth_direction(condition, directions) is Direction.UP
        atom, op = runs[0].atom, runs[0].op
        bound = frozenset(atom.args) - {runs[0].of}
        path = self.trees.path(atom, runs[0].of, bound, ())
        fields = list(dict.fromkeys(run.atom.field for run in runs))
        totals = {field: out.numbers.start(path.layout.kind(field)) for field in fields}
        above = {field: out.numbers.start(path.layout.kind(field)) for field in fields}
        if path.prefix:
            self.trees.descend(path, NEVER, above, "-")
        nullable = runs[0].of.type.nullable
        self.trees.descend(path, f"({path.x} != NULL)" if nullable else ALWAYS, totals, "+")
        for field in fields:
            self._add_words(totals[field], above[field])
        strict = op in (">", "<=")
        depth, tree = lines.depth, path.tree
        at, found, node, left = lines.fresh("t"), lines.fresh("b"), lines.fresh("n"), lines.fresh("c")
        lines.add(f"{at} = 0")
        lines.add(f"{found} = False")
        lines.add(f"{node} = {tree}[0, ROOT]")
        lines.open(f"while {node} != 0")
        lines.add(f"{left} = {tree}[{node}, LEFT]")
        if path.prefix:
            lines.open(f"if {self.trees.past(path, node, NEVER)}")
            self.trees.add_span(path, node, left, above, "+")
            lines.add(f"{node} = {left}")
            lines.add("continue")
            lines.close_to(depth + 1)
            lines.add(f"if not {self.trees.past(path, node, ALWAYS)}:")
            lines.add(f"    {node} = {tree}[{node}, RIGHT]")
            lines.add("    continue")
        if nullable:  # NULL comes first, and is beyond nothing
            lines.add(f"if {path.pool}[{node} - 1, {path.position}] == NULL:")
            lines.add(f"    {node} = {tree}[{node}, RIGHT]")
            lines.add("    continue")
        here = {field: tuple(lines.fresh("r") for _ in above[field]) for field in fields}
        for field in fields:
            self._copy(here[field], above[field])
            if strict:
                self._add_subtree(path, field, here[field], f"{tree}[{node}, RIGHT]")
        if not strict:
            self.trees.add_span(path, node, left, here, "+")
        self._assign(runs, here, totals)
        truth = out.scalars.truth(condition)
        lines.open(f"if {truth if upward else f'not {truth}'}")
        if strict:
            self._note(path, node, at, found)
        self.trees.add_span(path, node, left, above, "+")
        lines.add(f"{node} = {left}")
        lines.close_to(depth + 1)
        lines.open("else")
        if not strict:
            self._note(path, node, at, found)
        lines.add(f"{node} = {tree}[{node}, RIGHT]")
        lines.close_to(depth)
        return self._beyond(path, condition, runs, totals, out.names.of(x), at, found, strict, upward)

    def _beyond(
        self,
        path: Path,
        condition: Scalar,
        runs: tuple[RunningSum, ...],
        totals: Words,
        x: str,
        at: str,
        found: str,
        strict: bool,
        upward: bool,
    ) -> str:
        """The condition as code on x, given the key at which it changes and its truth beyond all keys."""
        out, lines = self.out, self.out.lines
        zero = {field: out.numbers.start(path.layout.kind(field)) for field in totals}
        self._assign(runs, totals if strict else zero, totals)
        end = lines.fresh("b")
        truth = out.scalars.truth(condition)
        lines.add(f"{end} = {truth if upward else f'not {truth}'}")
        code = f"({end} or ({found} and {x} >= {at}))" if strict else f"({end} and (not {found} or {x} > {at}))"
        return code if upward else f"(not {code})"

    def _note(self, path: Path, node: str, at: str, found: str) -> None:
        self.out.lines.add(f"{at} = {path.pool}[{node} - 1, {path.position}]")
        self.out.lines.add(f"{found} = True")

    def _assign(self, runs: tuple[RunningSum, ...], above: Words, totals: Words) -> None:
        """Gives the running sums their values: what is above, or the rest of the total."""
        lines = self.out.lines
        for run in runs:
            words, field = above[run.atom.field], run.atom.field
            if run.direction is Direction.UP:
                below = tuple(lines.fresh("r") for _ in words)
                self._copy(below, totals[field])
                if len(words) == 1:
                    lines.add(f"{below[0]} -= {words[0]}")
                else:
                    lines.add(f"{', '.join(below)} = wide_add({', '.join(below)}, *wide_mul({', '.join(words)}, -1))")
                words = below
            word = self.out.numbers.narrow(words, run.var.type) if len(words) == 2 else words[0]
            lines.add(f"{self.out.names.of(run.var)} = {word}")

    def _copy(self, to: tuple[str, ...], words: tuple[str, ...]) -> None:
        for name, word in zip(to, words, strict=True):
            self.out.lines.add(f"{name} = {word}")

    def _add_words(self, to: tuple[str, ...], words: tuple[str, ...]) -> None:
        if len(to) == 1:
            self.out.lines.add(f"{to[0]} += {words[0]}")
        else:
            self.out.lines.add(f"{', '.join(to)} = wide_add({', '.join((*to, *words))})")

    def _add_subtree(self, path: Path, field: str, to: tuple[str, ...], node: str) -> None:
        tree, at, child = path.tree, path.layout.tree_offset(field), self.out.lines.fresh("c")
        self.out.lines.add(f"{child} = {node}")
        self._add_words(to, tuple(f"{tree}[{child}, {at + i}]" for i in range(len(to))))
