"""The generated function that reads the result of a query."""

from __future__ import annotations

from viewlet.algebra.nodes import Cond, View
from viewlet.algebra.order import order
from viewlet.algebra.scope import NONE
from viewlet.algebra.traverse import walk
from viewlet.codegen.module_writer import Function, ModuleWriter
from viewlet.codegen.names import words_in
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.numbers import Product
from viewlet.codegen.products import Bound, ProductWriter
from viewlet.codegen.range_scans import Top
from viewlet.triggers.program import Program
from viewlet.types import BIGINT

READ_RESULT = "read_result"


def write_result(program: Program, module: ModuleWriter, writer: ProductWriter, selects: bool) -> Function | None:
    """Adds a function that writes the rows to arrays, as far as they have room, and returns how many there are.

    Of a result with a LIMIT, the rows that can be among the first are enough, if it `selects`. None where the result
    needs what generated code cannot express: then it is evaluated in Python.
    """
    lines, requests = writer.lines, writer.requests
    writer.changes_nothing = True
    lines.add("n = 0")
    known, output = len(requests.scratches), program.query.output

    def put(products: list[Product], bound: Bound) -> None:
        if not bound.issuperset(output):
            raise NotCompilable("a result without rows")
        weight = _weight(writer, products[0], kind)
        with lines.block("if n < capacity"):
            for i, var in enumerate(output):
                lines.add(f"out{i}[n] = {writer.names.of(var)}")
            lines.add(f"weights[n] = {weight}")
        lines.add("n += 1")

    expr = order(program.result)
    query = program.query
    if selects and query.limit is not None and query.order:
        first = query.order[0]
        writer.range_scans.top = Top(first.var, first.descending, query.limit + query.offset + 1)
    kind = writer.kind_of(expr)
    if kind == "double":
        return None
    try:
        writer.write([expr], NONE, [Product()], put)
    except NotCompilable:
        del requests.scratches[known:]
        return None
    lines.close_to(1)
    lines.add("return n")
    read = dict.fromkeys(node.name for node in walk(expr) if isinstance(node, View))
    stores = (*read, *(layout.name for layout in requests.scratches[known:]))
    conditions = {node.scalar for node in walk(expr) if isinstance(node, Cond)}
    by_order = conditions <= writer.range_scans.covered
    columns = tuple(range(len(output)))
    module.function(READ_RESULT, ("capacity", "weights", *(f"out{i}" for i in columns)), lines.text())
    used = set(words_in(lines.text()))
    scans = all(used.isdisjoint((f"{name}_index", f"{name}_at")) for name in map(writer.names.store, stores))
    indexes = {*requests.slices, *requests.orders}.intersection(stores)
    return Function(READ_RESULT, columns, stores, by_order, scans and not indexes)


def _weight(writer: ProductWriter, product: Product, kind: str) -> str:
    """Code for the multiplicity of a row; one that is the difference of two counts is a number like any other."""
    words = writer.numbers.evaluate(product, kind)
    return writer.numbers.narrow(words, BIGINT) if kind == "wide" else words[-1]
