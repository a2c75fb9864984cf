"""Programs of the layers of a query as one program: what a layer tells of a batch, the others read as a change.

    joined:  on a: joined_rows[k, x] += Δa(k, x) * b_count[k]
    result:  on joined: v[x] += Sum[x](Δjoined(k, x) * c_count[k])

    on a: joined_rows[k, x] += Δa(k, x) * b_count[k];   Δjoined(k, x) = joined_rows[k, x];   v[x] += ...

Views that nothing else reads, and that are only added to, need not be kept for that: what a batch adds to them is known
without their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from viewlet.algebra.evaluate import Number, State, evaluate
from viewlet.algebra.nodes import Exists, Expr, Extremum, Lift, View, add, summands
from viewlet.algebra.traverse import Names, rebuild, relations, walk
from viewlet.errors import InternalError
from viewlet.triggers.program import Program, ProgramLayer
from viewlet.triggers.rename import rename_views
from viewlet.triggers.step import defined_contents
from viewlet.triggers.store import MapStore, RowStore
from viewlet.types import Row, Table


def compose(layers: Sequence[tuple[Table, Program]], result: Program) -> Program:
    """One program for a result over layers, each with its program, whose result is a sum of views."""
    parts = _with_free_names([*(program for _, program in layers), result])
    kept = {view.name: view for part in parts for view in part.views}
    found: list[ProgramLayer] = []
    for (table, _), part in zip(layers, parts[:-1], strict=True):
        _check_sum(part.result)
        shown = sorted({node.name for node in walk(part.result) if isinstance(node, View)})
        compared = [kept[name] for name in shown if name in read_or_assigned(part)]
        told = [kept.pop(name) for name in shown if name not in read_or_assigned(part)]
        found.append(ProgramLayer(table, part.query, tuple(told), tuple(compared), part.triggers, part.result))
    return replace(parts[-1], views=tuple(kept.values()), layers=tuple(found))


def _check_sum(rows: Expr) -> None:
    nested = (node for node in walk(rows) if isinstance(node, Exists | Extremum | Lift))
    if any(isinstance(node, View) for each in nested for node in walk(each)):
        raise InternalError("the rows of a layer are no sum of views")


def rows_over(layer: ProgramLayer, change: Callable[[View], Expr]) -> Expr:
    """The change of a layer's rows, given the changes of its views; terms without any are constants."""

    def go(expr: Expr) -> Expr:
        return change(expr) if isinstance(expr, View) else rebuild(expr, go)

    return add(*(go(term) for term in summands(layer.rows) if any(isinstance(node, View) for node in walk(term))))


def read_or_assigned(program: Program) -> set[str]:
    """The views that some statement reads, or assigns."""
    statements = program.statements
    read = {node.name for s in statements for u in s.updates for node in walk(u.expr) if isinstance(node, View)}
    return read | {statement.view for statement in statements if statement.replaces}


def _with_free_names(programs: Iterable[Program]) -> list[Program]:
    """The programs with views of different names."""
    names, taken, found = Names(), set[str](), list[Program]()
    for program in programs:
        mine = {view.name for view in program.views}
        names.reserve(mine)
        found.append(rename_views(program, {name: names.name(name) for name in sorted(mine & taken)}))
        taken.update(view.name for view in found[-1].views)
    return found


def _multiplicities(rows: Mapping[Row, Number]) -> dict[Row, int]:
    return {row: int(number) for row, number in rows.items() if isinstance(number, int)}


def layer_rows(layers: Iterable[ProgramLayer], tables: Mapping[str, RowStore]) -> dict[str, MapStore]:
    """The rows that layers have over the rows of base tables; a table that is not given is empty."""
    found: dict[str, MapStore] = {}
    for layer in layers:
        definitions = (each.definition for view in layer.shown for each in view.fields)
        read = {name for definition in definitions for name in relations(definition)}
        state = State({name: found[name] if name in found else tables.get(name, MapStore()) for name in read})
        views = {view.name: MapStore([f.name for f in view.fields], view.presence) for view in layer.shown}
        for view in layer.shown:
            views[view.name].assign(defined_contents(view, state))
        output = tuple(column.var for column in layer.query.columns)
        found[layer.table.name] = MapStore.of_rows(_multiplicities(evaluate(layer.rows, output, State({}, {}, views))))
    return found
