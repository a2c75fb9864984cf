"""The module for changes of one leaf that are products of one shape: one function, beside those of the tree.

The function works on the stores of the tree and on scratch stores, one for each part (see `product_plan`). It leaves
the changes of the stored views where the tree's own trigger would, so the following steps are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from viewlet.codegen.arrays import StateArray
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import comment
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.forms import Form, RowPlace, Tables, is_empty
from viewlet.codegen.rings.plan import Propagation, TreePlan, Variant
from viewlet.codegen.rings.product_plan import Expansion, PartPropagation, ProductPlan
from viewlet.codegen.rings.tree_writer import (
    PEAKS,
    JoinWriter,
    Words,
    Writer,
    WrittenFunction,
    changed_by,
    delta_name,
    tree_module,
)
from viewlet.runtime.flat import Layout
from viewlet.types import SqlType
from viewlet.viewtree.ring_join import plan_join

FUNCTION = "on_product"


@dataclass(frozen=True, slots=True)
class ProductSource:
    """A module with one function; its scratch stores come after those of the trigger in the numbers of `control`."""

    text: str
    scratch: tuple[Layout, ...]
    arrays: tuple[StateArray, ...]
    tables: Tables


def write_product(tree: TreePlan, form: Form, types: Mapping[str, SqlType], product: ProductPlan) -> ProductSource:
    writer = Writer(tree, form, types)
    writer.lay_out()
    known = set(writer.layouts)
    steps: list[PartPropagation] = []
    moves: list[tuple[Variant, Variant]] = []
    for step in product.steps:
        if isinstance(step, PartPropagation):
            _check_slices(tree, step.propagation)
            steps.append(step)
            continue
        whole = _whole(step, form)
        if whole is not step.view:
            moves.append((whole, step.view))
        steps.append(PartPropagation(step.parts, _multiplied_out(step, whole)))
    for variant in (*product.factors, *(step.propagation.target for step in steps)):
        writer.add_scratch(variant)
    scratch = [name for name in writer.layouts if name not in known]
    trigger = tree.triggers[product.leaf]
    deltas = [*map(delta_name, changed_by(writer, trigger)), *scratch]
    function = _ProductWriter(writer, deltas, len(scratch)).write(product, steps, moves)
    arrays = writer.arrays()
    layouts = tuple(writer.layouts[name] for name in scratch)
    return ProductSource(tree_module(arrays, [function]), layouts, arrays.order, writer.tables)


def _check_slices(tree: TreePlan, propagation: Propagation) -> None:
    """Stored views can be read by the parts of their keys that triggers for rows read them by, and by no others."""
    for step in propagation.plan.steps:
        if step.at and not step.complete and step.at not in tree.slices[propagation.factors[step.relation].name]:
            raise NotCompilable(f"{propagation} reads a view in a way that the tree has no index for")


def _whole(step: Expansion, form: Form) -> Variant:
    """What the product of all parts is: the change of the view, or the same with its sums in another order."""
    summed = tuple(name for part in step.parts for name in part.summed)
    found = replace(step.view, node=f"{step.view.node}/all", summed=summed)
    return step.view if form.moves(found, step.view) is None else found


def _multiplied_out(step: Expansion, whole: Variant) -> Propagation:
    together = tuple(key for part in step.parts for key in part.keys)
    start = Variant(whole.node, together, (), ())
    return Propagation(whole, (start,), 0, (), plan_join([together], 0, (), whole.keys))


class _ProductWriter(JoinWriter):
    def __init__(self, writer: Writer, deltas: Sequence[str], own: int) -> None:
        super().__init__(writer, deltas)
        self._own = own

    def write(
        self, product: ProductPlan, steps: Sequence[PartPropagation], moves: Sequence[tuple[Variant, Variant]]
    ) -> WrittenFunction:
        lines, given = Lines(depth=1), list[str]()
        for i in range(len(self.deltas)):
            lines.add(f"peak{i} = 0.0")
        for i, factor in enumerate(product.factors):
            columns = [f"column{i}_{j}" for j in range(len(factor.keys))]
            given += [f"times{i}", *columns]
            with lines.block(f"for row in range(len(times{i}))"):
                keys, _ = self._from_columns(lines, factor.keys, columns)
                self._add(lines, factor, [keys[name] for name in factor.keys], (), f"times{i}[row]", {})
        for step in steps:
            self._pass(lines, step)
        for whole, view in moves:
            self._move(lines, whole, view)
        others = [f"peak{i}" for i in range(len(self.deltas) - self._own, len(self.deltas))]
        lines.add(f"{PEAKS}[0, 0] = max({', '.join(['peak0', *others])})")
        for i in range(1, len(self.deltas) - self._own):
            lines.add(f"{PEAKS}[{i}, 0] = peak{i}")
        lines.add("return 0")
        purpose = f"Works out what a change of {product.leaf} that is a product does."
        return WrittenFunction(FUNCTION, purpose, given, lines)

    def _pass(self, lines: Lines, step: PartPropagation) -> None:
        """Every combination of rows of the parts meets the siblings."""
        depth = lines.depth
        lines.add(comment(str(step.propagation)))
        keys: Words = {}
        values: Words = {}
        rows: dict[int, RowPlace] = {}
        for i, part in enumerate(step.parts):
            rows[i - len(step.parts)] = self._visit(lines, part, keys, values)
        self._join(lines, step.propagation, keys, values, rows, None)
        lines.close_to(depth)

    def _visit(self, lines: Lines, variant: Variant, keys: Words, values: Words) -> RowPlace:
        """Opens a loop over the rows of a scratch store."""
        store = delta_name(variant.name)
        prefix, slot = self.writer.identifier(store), lines.fresh("d")
        row = self.writer.row(store, slot)
        lines.open(f"for {slot} in range({f'{prefix}_meta[SIZE]' if variant.keys else '1'})")
        if not variant.keys:
            with lines.block(f"if {is_empty(row, self.writer.form.integers(variant))}"):
                lines.add("continue")
        self._read(lines, variant.keys, range(len(variant.keys)), f"{prefix}_pool[{slot}", keys, values)
        return row

    def _move(self, lines: Lines, whole: Variant, view: Variant) -> None:
        """Puts the words of every payload where the view has them."""
        depth, keys = lines.depth, dict[str, str]()
        source = self._visit(lines, whole, keys, {})
        store = delta_name(view.name)
        number, slot = self.deltas.index(store), lines.fresh("r")
        lines.add(f"{slot} = {self.writer.enter(store, [keys[name] for name in view.keys])}")
        with lines.block(f"if {slot} < 0"):
            lines.add(f"control[FULL] = {number + 1}")
            lines.add("return 0")
        places = self.writer.form.moves(whole, view)
        assert places is not None
        table = f"moves{len(self.writer.tables)}"
        self.writer.tables[table] = np.array([places], np.int64)
        target, start = self.writer.row(store, slot), len(view.keys)
        with lines.block(f"for word in range({len(places)})"):
            lines.add(
                f"{target.words}[{slot}, {start} + {table}[0, word]] = {source.words}[{source.slot}, {start} + word]"
            )
        lines.add(f"peak{number} = max(peak{number}, peak{self.deltas.index(delta_name(whole.name))})")
        lines.close_to(depth)
