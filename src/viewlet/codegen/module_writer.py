"""The writer of the modules of trigger programs and of blocks: functions that run statements, and what they require.

writer = ModuleWriter(exprs)
writer.statement(products, layout, statement, given)     code that adds what a statement computes to a store
writer.function("compute_3", (), text)                   a function of the module
writer.module(title, layouts, result)                    the module, once all functions are written
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from viewlet.algebra.nodes import Expr, View
from viewlet.algebra.pattern import Patterns
from viewlet.algebra.printer import show
from viewlet.algebra.traverse import atoms
from viewlet.codegen.aggregate_functions import AggregateFunctions, function_bodies
from viewlet.codegen.arrays import Arrays, OtherArray, StateArray
from viewlet.codegen.assembly import function_text, module_text
from viewlet.codegen.fusion import Term, fuse
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import Identifiers, comment, words_in
from viewlet.codegen.numbers import Product
from viewlet.codegen.products import Bound, ProductWriter
from viewlet.codegen.requests import Requests
from viewlet.codegen.scalars import Tables, makes_strings
from viewlet.runtime.flat import Layout
from viewlet.triggers.program import COUNT_FIELD, Statement, ViewDefinition

KEPT = "kept"
"""The array that has a word for each store: not zero if the statements for it are to run."""


@dataclass(frozen=True, slots=True)
class Function:
    """A generated function: the columns of the changed table and the stores that it takes.

    A function that reads the result selects by order if it visits no row that a condition rejects.
    """

    name: str
    columns: tuple[int, ...]
    stores: tuple[str, ...]
    selects_by_order: bool = True
    scans: bool = False
    """Whether it reads the rows of its stores one after the other, without indexes."""


@dataclass(frozen=True, slots=True)
class GeneratedModule:
    """A module, and what it takes to run it: stores, the arrays of the state, tables of values."""

    source: str
    layouts: tuple[Layout, ...]
    arrays: tuple[StateArray, ...]
    tables: Tables
    result: Function | None
    """Reads the result, if generated code can."""

    def lengths(self) -> dict[str, int]:
        """Lines of each function."""
        pieces = self.source.split("\ndef ")[1:]
        return {piece.partition("(")[0]: piece.count("\n") for piece in pieces}


class ModuleWriter:
    """Collects the functions of a module, and their requirements on stores and on Python."""

    def __init__(self, exprs: Iterable[Expr]) -> None:
        self.tables = Tables(makes_strings(exprs))
        self.names = Identifiers()
        self.requests = Requests()
        self._aggregates: AggregateFunctions | None = None
        self._functions: list[tuple[str, str]] = []
        self._words: set[str] = set()
        """The identifiers in the functions."""

    def share_aggregates(self, statements: Sequence[Statement]) -> None:
        """Makes functions of the nested aggregates that these statements repeat, if they are large."""
        patterns = Patterns()
        bodies = function_bodies(statements, patterns)
        self._aggregates = AggregateFunctions(self, patterns, bodies) if bodies else None

    def products(self, lines: Lines, layouts: Mapping[str, Layout]) -> ProductWriter:
        writer = ProductWriter(lines, layouts, self.names, self.tables, self.requests)
        writer.functions = self._aggregates
        return writer

    def statement(self, writer: ProductWriter, into: Layout, statement: Statement, given: Bound) -> tuple[str, ...]:
        """Writes what a statement adds to a store; returns the scratch stores on the way."""
        known = len(self.requests.scratches)
        for group in fuse(statement.updates):
            self._group(writer, into, statement, group, given)
        own = [layout.name for layout in self.requests.scratches[known:]]
        return tuple(dict.fromkeys((*own, *(name for function in writer.called for name in function.scratches))))

    def _group(
        self, writer: ProductWriter, into: Layout, statement: Statement, group: list[Term], given: Bound
    ) -> None:
        lines, depth = writer.lines, writer.lines.depth
        for term in group:
            op = "-=" if term.negative else ":=" if statement.replaces else "+="
            args = ", ".join(arg.name for arg in statement.args)
            lines.add(comment(f"{statement.view}[{args}].{term.field} {op} {show(term.expr)}"))
        fields = [term.field for term in group]

        def add(products: list[Product], bound: Bound) -> None:
            writer.add_to(into, [self.names.key_word(arg) for arg in statement.args], fields, products)

        numbers = [Product(negative=term.negative) for term in group]
        writer.write([term.expr for term in group], given, numbers, add)
        lines.close_to(depth)

    def function(self, name: str, parameters: Sequence[str], text: str, decorator: str = "entry") -> None:
        """Adds a function that takes the state; one that only generated code calls is `compiled`."""
        signature = f"{name}({', '.join((*parameters, 'state', 'control'))})"
        self._functions.append((f"@{decorator}\ndef {signature}:\n", text))
        self._words.update(words_in(text))

    def looks_up(self, store: str) -> bool:
        """Whether a function finds rows of a store by their keys, or changes them."""
        name = self.names.store(store)
        words = {f"{name}_index", f"{name}_at"}
        return store in self.requests.slices or store in self.requests.orders or not words.isdisjoint(self._words)

    def module(
        self, title: str, layouts: Mapping[str, Layout], result: Function | None, others: Sequence[OtherArray] = ()
    ) -> GeneratedModule:
        """The module over stores with these layouts, which have all indexes requested, and over `others`."""
        arrays = Arrays(layouts, self.names, (*self.tables.arrays(), *others))
        texts = [function_text(head, text, arrays) for head, text in self._functions]
        source = module_text(title, arrays, texts)
        return GeneratedModule(source, tuple(layouts.values()), arrays.order, self.tables, result)


def layout_of(view: ViewDefinition) -> Layout:
    kinds = tuple("double" if f.is_float else "count" if f.name == COUNT_FIELD else "wide" for f in view.fields)
    return Layout(view.name, len(view.keys), tuple(f.name for f in view.fields), kinds)


def views_of(statement: Statement) -> list[str]:
    """The view that a statement changes, and those that it reads."""
    read = [atom.name for update in statement.updates for atom in atoms(update.expr) if isinstance(atom, View)]
    return [statement.view, *dict.fromkeys(name for name in read if name != statement.view)]
