"""Functions for the nested aggregates that the statements of a large program repeat.

    matches += (n := Sum[](orders.count[c, k] * {k > x})) * ...       a7 = total_orders_3(x_c, x_x, state, control)

The change of a nested aggregate holds what it aggregates before and after, and so does every term of every statement
that reads it. Where that makes a program large, each such aggregate is written once, as a function of the variables
that are bound around it. Aggregates that differ in the names of their variables only share one function. The code of
small programs has no such calls, because each opens the arrays of the state again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from viewlet.algebra.nodes import Exists, Expr, Extreme, Extremum, Lift, Value, Var, View
from viewlet.algebra.pattern import Pattern, Patterns
from viewlet.algebra.printer import show
from viewlet.algebra.traverse import size, walk
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import comment
from viewlet.codegen.word import Word
from viewlet.runtime.flat import Layout
from viewlet.triggers.program import Statement

if TYPE_CHECKING:
    from viewlet.codegen.module_writer import ModuleWriter
    from viewlet.codegen.products import Bound, ProductWriter

LARGE_PROGRAM = 1_000
"""Nodes of the statements of a program in which nested aggregates that are repeated become functions."""
SMALL_AGGREGATE = 5
"""Nodes of an aggregate that is no longer than its call."""


@dataclass(frozen=True, slots=True, eq=False)
class AggregateFunction:
    """A generated function, and what callers have to know of it."""

    name: str
    room: Mapping[str, list[str]]
    """Rows that it may add to each of its scratch stores."""
    scratches: tuple[str, ...]
    """The scratch stores of the function and of those that it calls."""
    calls: tuple[AggregateFunction, ...]
    """The functions that it calls, and those that they call."""
    filled: Layout | None = None
    """The store that it leaves groups in."""


def statements_size(statements: Iterable[Statement]) -> int:
    """The nodes of all expressions of some statements."""
    return sum(size(update.expr) for statement in statements for update in statement.updates)


def function_bodies(statements: Sequence[Statement], patterns: Patterns) -> frozenset[int]:
    """The patterns of the bodies that become functions."""
    if statements_size(statements) <= LARGE_PROGRAM:
        return frozenset()
    repeats: Counter[int] = Counter()
    for statement in statements:  # its fields are computed together
        counts = (Counter(_nested_bodies(update.expr, patterns)) for update in statement.updates)
        repeats.update(reduce(or_, counts, Counter[int]()))
    return frozenset(number for number, count in repeats.items() if count > 1)


def _nested_bodies(expr: Expr, patterns: Patterns) -> Iterator[int]:
    for node in walk(expr):
        match node:
            case Lift(_, Value()):
                pass
            case Lift(_, body) | Exists(body) | Extremum(_, _, _, body) if size(body) > SMALL_AGGREGATE:
                yield patterns.of(body).number


@dataclass(slots=True)
class AggregateFunctions:
    """The functions of a module that nested aggregates call."""

    module: ModuleWriter
    patterns: Patterns
    bodies: frozenset[int]
    """The patterns of what is computed in functions."""
    _functions: dict[object, AggregateFunction] = field(default_factory=dict)

    def sum_of(self, out: ProductWriter, body: Expr, bound: Bound) -> tuple[str, ...] | None:
        """The words of a sum that a function has computed, whose call is written; None if it is not one."""

        def write(writer: ProductWriter, given: Bound) -> None:
            writer.lines.add(f"return {', '.join(writer.write_sum(body, given))}")

        function = self._function(out, "total", body, bound, (), write)
        if function is None:
            return None
        words = tuple(out.lines.fresh("a") for _ in range(1 if out.kind_of(body) == "count" else 2))
        self._call(out, function, body, bound, words)
        return words

    def extreme_of(self, out: ProductWriter, which: Extreme, of: Var, body: Expr, bound: Bound) -> Word | None:
        """An extreme that a function has found."""

        def write(writer: ProductWriter, given: Bound) -> None:
            word = writer.write_extreme(which, of, body, given)
            writer.lines.add(f"return {word.code}, {word.present}")

        bound -= {of}
        function = self._function(out, which.value, body, bound, (of,), write)
        if function is None:
            return None
        words = out.lines.fresh("m"), out.lines.fresh("b")
        self._call(out, function, body, bound, words)
        return Word(*words, of.type.is_float)

    def groups_of(
        self, out: ProductWriter, keys: tuple[Var, ...], body: Expr, bound: Bound
    ) -> tuple[tuple[Var, ...], Layout, list[str]] | None:
        """The keys of a scratch store that a function has filled, the store, and how many rows it has at most."""
        keys = tuple(var for var in self.patterns.of(body).variables if var in keys)
        filled: list[Layout] = []

        def write(writer: ProductWriter, given: Bound) -> None:
            filled.append(writer.write_groups(keys, body, given))
            writer.lines.add("return")

        function = self._function(out, "group", body, bound, keys, write, filled)
        if function is None or function.filled is None:
            return None
        self._call(out, function, body, bound, ())
        layout = function.filled
        return keys, layout, function.room.get(out.names.store(layout.name), ["0"])

    def _function(
        self,
        out: ProductWriter,
        verb: str,
        body: Expr,
        bound: Bound,
        shown: Sequence[Var],
        write: Callable[[ProductWriter, Bound], None],
        filled: Sequence[Layout] = (),
    ) -> AggregateFunction | None:
        """The function for a body where some variables are bound, of which some may be NULL whatever their type says.

        None if it is not repeated, or would overwrite a store that is being read.
        """
        pattern = self.patterns.of(body)
        if pattern.number not in self.bodies:
            return None
        given = _given(pattern, bound)
        absent = [var for var in given if out.scalars.may_be_absent(var)]
        key = (verb, pattern.number, *(_places(pattern, part) for part in (given, absent, shown)))
        function = self._functions.get(key)
        if function is None:
            writer = self.module.products(Lines(depth=1), out.layouts)
            for var in absent:
                writer.scalars.note_absent(var)
            known = len(self.module.requests.scratches)
            writer.lines.add(comment(show(body)))
            write(writer, frozenset(given))
            scratches = [layout.name for layout in self.module.requests.scratches[known:]]
            called = tuple(writer.called)
            scratches += [name for each in called for name in each.scratches]
            name = self._name(verb, body)
            self.module.function(name, [out.names.of(var) for var in given], writer.lines.text(), "compiled")
            function = AggregateFunction(
                name, writer.room, tuple(dict.fromkeys(scratches)), called, filled[0] if filled else None
            )
            self._functions[key] = function
        return function if set(out.visited_scratches).isdisjoint(function.scratches) else None

    def _name(self, verb: str, body: Expr) -> str:
        """Named after the first view it reads."""
        view = next((node.name for node in walk(body) if isinstance(node, View)), "")
        return self.module.names.function(verb, view, len(self._functions) + 1)

    def _call(
        self, out: ProductWriter, function: AggregateFunction, body: Expr, bound: Bound, into: Sequence[str]
    ) -> None:
        arguments = [out.names.of(var) for var in _given(self.patterns.of(body), bound)]
        target = f"{', '.join(into)} = " if into else ""
        out.lines.add(f"{target}{function.name}({', '.join((*arguments, 'state', 'control'))})")
        out.called.update(dict.fromkeys((*function.calls, function)))


def _given(pattern: Pattern, bound: Iterable[Var]) -> tuple[Var, ...]:
    """The variables that are bound, in the order of the pattern."""
    return tuple(var for var in pattern.variables if var in frozenset(bound))


def _places(pattern: Pattern, variables: Iterable[Var]) -> tuple[int, ...]:
    return tuple(map(pattern.variables.index, variables))
