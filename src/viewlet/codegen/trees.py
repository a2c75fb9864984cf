"""Code that descends ordered indexes, to the first or last row of a prefix, and adds up sums on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Scalar, Var, View
from viewlet.codegen.monotone import Test
from viewlet.codegen.word import ALWAYS, NEVER
from viewlet.runtime.flat import Layout

if TYPE_CHECKING:
    from viewlet.codegen.products import Bound, ProductWriter

Words = dict[str, tuple[str, ...]]
"""The names of the words that hold the number of each field."""


@dataclass(frozen=True, slots=True)
class Path:
    """The ordered index of a view: a prefix of given words, then the word that varies."""

    view: View
    layout: Layout
    store: str
    number: int
    prefix: tuple[tuple[int, str], ...]
    position: int
    x: str

    @property
    def tree(self) -> str:
        return f"{self.store}_tree{self.number}"

    @property
    def pool(self) -> str:
        return f"{self.store}_pool"

    @property
    def alive(self) -> str:
        """Code for how many rows there are."""
        return f"{self.store}_meta[ALIVE]"

    def while_at_prefix(self, node: str) -> str:
        """The head of a loop that continues while a node has the prefix."""
        same = "".join(f" and {self.pool}[{node} - 1, {position}] == {word}" for position, word in self.prefix)
        return f"while {node} != 0{same}"


class TreeWriter:
    def __init__(self, out: ProductWriter) -> None:
        self.out = out

    def pays(self, atom: View, bound: Bound) -> bool:
        """Whether an ordered index pays: not for a store of one batch that is read once, where a scan is cheaper."""
        return bool(bound) or not self.out.layouts[atom.name].transient

    def path(self, atom: View, x: Var, bound: Bound, groups: tuple[Var, ...], field: str = "") -> Path:
        """The index on what is bound, then the groups, then x: a key, or the number in a field."""
        out, layout = self.out, self.out.layouts[atom.name]
        given = [i for i, arg in enumerate(atom.args) if arg in bound] + [atom.args.index(var) for var in groups]
        prefix = tuple((i, out.names.key_word(atom.args[i])) for i in given)
        if field:
            position = layout.offset(field) + (1 if layout.kind(field) == "wide" else 0)
        else:
            position = atom.args.index(x)
        columns = tuple(given) if field else (*given, position)
        number = out.requests.order(atom.name, columns, field)
        return Path(atom, layout, out.names.store(atom.name), number, prefix, position, out.names.of(x))

    def ready(self, path: Path, bound: Bound) -> str:
        """Code that asks whether the rows to be visited otherwise are many, and if so has the index ready."""
        store = path.store
        arrays = f"{store}_pool, {store}_live, {store}_meta, {path.tree}, {store}_spec{path.number}"
        positions = tuple(i for i, arg in enumerate(path.view.args) if arg in bound)
        if not positions:
            return f"ready({arrays}, {path.alive})"
        return f"ready_for_chain({arrays}, {self.out.chain(path.view, positions)})"

    def descend(self, path: Path, condition: str, fields: Words, sign: str) -> None:
        """fields += or -= the sums over the rows past the prefix, or at it where the condition, which is up, holds."""
        lines, tree, depth = self.out.lines, path.tree, self.out.lines.depth
        node, left = lines.fresh("n"), lines.fresh("c")
        lines.add(f"{node} = {tree}[0, ROOT]")
        exact = all(path.layout.kind(field) != "double" for field in fields)
        if condition == ALWAYS and not path.prefix and exact:  # the root has it all
            lines.add(f"{left} = 0")
            self.add_span(path, node, left, fields, sign)
            return
        lines.open(f"while {node} != 0")
        lines.add(f"{left} = {tree}[{node}, LEFT]")
        if condition not in (ALWAYS, NEVER):
            lines.add(f"{path.x} = {path.pool}[{node} - 1, {path.position}]")
        lines.open(f"if {self.past(path, node, condition)}")
        self.add_span(path, node, left, fields, sign)
        lines.add(f"{node} = {left}")
        lines.close_to(depth + 1)
        lines.add("else:")
        lines.add(f"    {node} = {tree}[{node}, RIGHT]")
        lines.close_to(depth)

    def add_span(self, path: Path, node: str, left: str, fields: Words, sign: str) -> None:
        """A node and all to the right of it in its subtree."""
        lines, tree, pool = self.out.lines, path.tree, path.pool
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

    def past(self, path: Path, node: str, condition: str) -> str:
        """Whether a node is past the prefix, or at it and the condition holds there."""
        code = condition
        for position, word in reversed(path.prefix):
            at = f"{path.pool}[{node} - 1, {position}]"
            code = (
                f"({at} > {word})"
                if code == NEVER
                else f"({at} >= {word})"
                if code == ALWAYS
                else f"({at} > {word} or ({at} == {word} and {code}))"
            )
        return code

    def first_past(self, path: Path, condition: str) -> str:
        """The first node past the prefix, or at it where the condition holds."""
        lines, tree, depth = self.out.lines, path.tree, self.out.lines.depth
        found, node = lines.fresh("n"), lines.fresh("n")
        lines.add(f"{found} = 0")
        lines.add(f"{node} = {tree}[0, ROOT]")
        lines.open(f"while {node} != 0")
        self.read(path, node, condition)
        lines.open(f"if {self.past(path, node, condition.replace('{node}', node))}")
        lines.add(f"{found} = {node}")
        lines.add(f"{node} = {tree}[{node}, LEFT]")
        lines.close_to(depth + 1)
        lines.add("else:")
        lines.add(f"    {node} = {tree}[{node}, RIGHT]")
        lines.close_to(depth)
        return found

    def last_until(self, path: Path) -> str:
        """The last node not past the prefix."""
        lines, tree, depth = self.out.lines, path.tree, self.out.lines.depth
        found, node = lines.fresh("n"), lines.fresh("n")
        lines.add(f"{found} = 0")
        lines.add(f"{node} = {tree}[0, ROOT]")
        lines.open(f"while {node} != 0")
        if path.prefix:
            lines.open(f"if {self.past(path, node, NEVER)}")
            lines.add(f"{node} = {tree}[{node}, LEFT]")
            lines.add("continue")
            lines.close_to(depth + 1)
        lines.add(f"{found} = {node}")
        lines.add(f"{node} = {tree}[{node}, RIGHT]")
        lines.close_to(depth)
        return found

    def read(self, path: Path, node: str, *conditions: str) -> None:
        """Reads the word that varies, if a condition is on it."""
        if path.x and any(path.x in condition for condition in conditions):
            self.out.lines.add(f"{path.x} = {path.pool}[{node} - 1, {path.position}]")

    def code(self, test: Test, tests: dict[Scalar, str]) -> str:
        """A test as code; `tests` has that of conditions which are not on words of the row."""
        code = tests.get(test.condition) or self.out.scalars.truth(test.condition)
        return code if test.holds else f"(not {code})"
