"""The module of a planned view tree: for each leaf that changes, a function that computes the delta of every view.

    rows of T  ->  δV@D  ->  δV@C  ->  δV@A       reads stored views, writes scratch stores only

The scratch stores are then added to the stored views by code that is the same for all trees (`runtime.merge`). A
generated function cannot leave a partial change: it runs again with more space if a scratch store is too small, and an
overflow is detected before anything is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from viewlet.codegen.arrays import Arrays, OtherArray, StateArray
from viewlet.codegen.assembly import function_text, module_text
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import Identifiers, comment
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.rings.forms import Form, RowPlace, Tables, Term, is_empty
from viewlet.codegen.rings.origins import STORE as ORIGINS
from viewlet.codegen.rings.origins import OriginRow
from viewlet.codegen.rings.plan import Propagation, TreePlan, Trigger, Variant
from viewlet.runtime.flat import Layout
from viewlet.types import SqlType
from viewlet.viewtree.ring_tree import IndicatorLeaf

Words = dict[str, str]
"""Expressions by variable."""
MOST_REMEMBERED = 3
"""Words of a key up to which comparing it with the last one is cheaper than looking it up."""
PEAKS = "peaks"
"""The array in which a function leaves the largest integer of each scratch store."""


@dataclass(frozen=True, slots=True)
class Source:
    """A generated module and the stores it works on, in the order of its state."""

    text: str
    layouts: tuple[Layout, ...]
    arrays: tuple[StateArray, ...]
    integers: tuple[int, ...]
    """For each layout, how many words of a payload are integers."""
    triggers: Mapping[str, WrittenTrigger]
    """By leaf."""
    origins: OriginRow


@dataclass(frozen=True, slots=True)
class WrittenTrigger:
    """The name of a function, and the scratch stores it fills, in the order of `peaks`, with the stores they go to."""

    function: str
    deltas: tuple[tuple[str, str | None], ...]


def delta_name(variant: str) -> str:
    """The scratch store of a variant's change."""
    return f"δ{variant}"


def count_name(leaf: IndicatorLeaf) -> str:
    """The store of how many rows of a relation project to each key of its indicator."""
    return f"#{leaf.name}"


def write_module(plan: TreePlan, form: Form, types: Mapping[str, SqlType]) -> Source:
    return Writer(plan, form, types).write()


@dataclass
class Writer:
    """What all functions of a module have in common: names, layouts, and where arrays are in the state."""

    plan: TreePlan
    form: Form
    types: Mapping[str, SqlType]
    layouts: dict[str, Layout] = field(default_factory=dict)
    variants: dict[str, Variant] = field(default_factory=dict)
    names: Identifiers = field(default_factory=Identifiers)
    tables: Tables = field(default_factory=dict)
    """Beyond those of the form."""

    def write(self) -> Source:
        self.lay_out()
        writers = {leaf: TriggerWriter(self, trigger) for leaf, trigger in self.plan.triggers.items()}
        written = [writer.write() for writer in writers.values()]
        arrays = self.arrays()
        triggers = {
            leaf: WrittenTrigger(writer.function, tuple(zip(writer.deltas, writer.goals, strict=True)))
            for leaf, writer in writers.items()
        }
        integers = tuple(
            self.layouts[name].width if name == ORIGINS else self.form.integers(variant)
            for name, variant in self.variants.items()
        )
        layouts = tuple(self.layouts.values())
        return Source(tree_module(arrays, written), layouts, arrays.order, integers, triggers, self.origins)

    @cached_property
    def origins(self) -> OriginRow:
        types = {name: self.types[name] for name in self.form.centred if name in self.types}
        centred = {name: type for name, type in types.items() if type.is_float or type.is_integer}
        return OriginRow(centred, {name: self.form.reach(name) for name in centred})

    def arrays(self) -> Arrays:
        """The arrays of the state; writing code may have made new tables."""
        tables = [
            OtherArray(name, "floats" if table.dtype.kind == "f" else "words", table.shape[1])
            for name, table in (*self.form.tables.items(), *self.tables.items())
        ]
        return Arrays(self.layouts, self.names, (OtherArray(PEAKS, "floats", 1), *tables))

    def lay_out(self) -> None:
        for variant in self.plan.stored:
            self.add_store(variant.name, variant, self.plan.slices[variant.name])
        for trigger in self.plan.triggers.values():
            leaf = self.leaf_variant(trigger)
            if trigger.is_indicator or leaf.name in self.layouts:
                self.add_scratch(leaf)
            for propagation in trigger.propagations:
                self.add_scratch(propagation.target)
            for indicator in trigger.indicators:
                variant = Variant(indicator.name, indicator.keys, (), ())
                if self.variants.setdefault(count_name(indicator), variant) != variant:
                    raise NotCompilable(f"two views of a tree are called {count_name(indicator)!r}")
                self.layouts[count_name(indicator)] = _layout(count_name(indicator), variant, 1)
        if self.origins.types:
            self.variants[ORIGINS] = Variant(ORIGINS, (), (), ())
            self.layouts[ORIGINS] = self.origins.layout

    def leaf_variant(self, trigger: Trigger) -> Variant:
        return Variant(trigger.leaf, trigger.keys, (), ())

    def add_store(self, name: str, variant: Variant, slices: tuple[tuple[int, ...], ...] = ()) -> None:
        if self.variants.setdefault(name, variant) != variant:
            raise NotCompilable(f"two views of a tree are called {name!r}: give a table of the query another alias")
        if name not in self.layouts:
            self.layouts[name] = _layout(name, variant, self.form.width(variant), slices)

    def add_scratch(self, variant: Variant) -> None:
        """The store of a variant's change."""
        name = delta_name(variant.name)
        self.add_store(name, variant)
        self.layouts[name] = replace(self.layouts[name], scratch=True)

    def identifier(self, store: str) -> str:
        return self.names.store(store)

    def row(self, store: str, slot: str) -> RowPlace:
        prefix = self.identifier(store)
        return RowPlace(self.variants[store], f"{prefix}_pool", f"{prefix}_floats", slot)

    def enter(self, store: str, key: Sequence[str]) -> str:
        if not self.layouts[store].arity:
            return "0"
        prefix = self.identifier(store)
        return f"enter(state, {prefix}_at, {prefix}_width, ({', '.join(key)},))"


def _layout(name: str, variant: Variant, width: int, slices: tuple[tuple[int, ...], ...] = ()) -> Layout:
    fields = tuple(f"w{i}" for i in range(width))
    return Layout(name, len(variant.keys), fields, ("count",) * width, slices, doubles=True)


@dataclass(frozen=True, slots=True)
class WrittenFunction:
    """A function of a tree's module before its arrays are opened."""

    name: str
    purpose: str
    given: Sequence[str]
    body: Lines


def tree_module(arrays: Arrays, functions: Iterable[WrittenFunction]) -> str:
    texts = [
        function_text(
            f"@entry\ndef {function.name}({', '.join((*function.given, 'state', 'control'))}):\n"
            f"    {comment(function.purpose)}\n",
            function.body.text(),
            arrays,
        )
        for function in functions
    ]
    return module_text("Triggers of a view tree", arrays, texts)


class JoinWriter:
    """Code that visits rows, joins them with the rows of stored views, and adds products to scratch stores."""

    def __init__(self, writer: Writer, deltas: Sequence[str]) -> None:
        self.writer = writer
        self.deltas = list(deltas)
        """The scratch stores that are filled; `control` and `peaks` know them by their place."""
        self.remembered: dict[str, str] = {}
        """For some scratch stores, the local variable with the slot of the last row of the batch."""

    def _from_columns(self, lines: Lines, names: Sequence[str], columns: Sequence[str]) -> tuple[Words, Words]:
        """Values of a row that was given, as words of keys and as values to be lifted."""
        keys, values = {}, {}
        prefix = self.writer.identifier(ORIGINS)
        for name, column in zip(names, columns, strict=True):
            x = self._variable(name)
            lines.add(f"{x} = {column}[row]")
            is_float = self.writer.types[name].is_float
            if name in self.writer.origins.types:
                near = lines.fresh("o")
                lines.add(f"{near} = float({x} - {self._origin(name)})")
                with lines.block(f"if not abs({near}) <= {self.writer.origins.reach(prefix, name)}"):
                    lines.add("control[FAILURE] = FAR")
                keys[name], values[name] = f"bits_of({x} + 0.0)" if is_float else x, near
                continue
            if is_float:
                with lines.block(f"if not abs({x}) <= {self.writer.form.reach(name)!r}"):
                    lines.add("control[FAILURE] = NOT_FINITE")
            keys[name] = f"bits_of({x} + 0.0)" if is_float else x
            values[name] = self.writer.form.value(self.writer.types[name], x, is_word=False)
        return keys, values

    def _origin(self, name: str) -> str:
        return self.writer.origins.origin(self.writer.identifier(ORIGINS), name)

    def _read(
        self,
        lines: Lines,
        names: Sequence[str],
        at: Iterable[int],
        row: str,
        keys: Words,
        values: Words,
    ) -> None:
        """Words of a row as variables."""
        for i in at:
            name, x = names[i], self._variable(names[i])
            lines.add(f"{x} = {row}, {i}]")
            keys[name] = x
            type = self.writer.types[name]
            if name in self.writer.origins.types:
                number = self.writer.form.value(type, x, is_word=True) if type.is_float else x
                values[name] = f"float({number} - {self._origin(name)})"
            else:
                values[name] = self.writer.form.value(type, x, is_word=True)

    def _variable(self, name: str) -> str:
        return self.writer.names.variable(name)

    def _join(
        self,
        lines: Lines,
        propagation: Propagation,
        keys: Words,
        values: Words,
        rows: dict[int, RowPlace],
        times: str | None,
    ) -> None:
        """Visits the other factors and adds the product; leaves the loops it opens to be closed."""
        keys, values = dict(keys), dict(values)
        for step in propagation.plan.steps:
            factor = propagation.factors[step.relation]
            prefix, slot = self.writer.identifier(factor.name), lines.fresh("s")
            part = [keys[factor.keys[i]] for i in step.at]
            rows[step.relation] = row = self.writer.row(factor.name, slot)
            if step.complete:
                self._look_up(lines, row, prefix, slot, part)
                continue
            if part:
                j = self.writer.plan.slices[factor.name].index(step.at)
                follower = lines.fresh("t")
                heads = f"{prefix}_pool, {prefix}_heads{j}, {prefix}_slice{j}, ({', '.join(part)},)"
                lines.add(f"{follower} = find_head({heads})")
                lines.open(f"while {follower} >= 0")
                lines.add(f"{slot} = {follower}")
                lines.add(f"{follower} = np.int64({prefix}_links{j}[{slot}, NEXT])")
            else:
                lines.open(f"for {slot} in range({prefix}_meta[SIZE])")
                with lines.block(f"if not {prefix}_live[{slot}]"):
                    lines.add("continue")
            self._read(lines, factor.keys, step.new, f"{prefix}_pool[{slot}", keys, values)
        lifted = {name: values[name] for name in propagation.lifted if self.writer.form.lifts(name)}
        factors = tuple(rows[i] for i in sorted(rows))
        self._add(lines, propagation.target, [keys[name] for name in propagation.target.keys], factors, times, lifted)

    def _look_up(self, lines: Lines, row: RowPlace, prefix: str, slot: str, key: Sequence[str]) -> None:
        if key:
            lines.add(f"{slot} = find({prefix}_pool, {prefix}_index, ({', '.join(key)},))")
            missing = f"{slot} < 0"
        else:
            lines.add(f"{slot} = 0")
            missing = is_empty(row, self.writer.form.integers(row.variant))
        with lines.block(f"if {missing}"):
            lines.add("continue")

    def _add(
        self,
        lines: Lines,
        target: Variant,
        key: Sequence[str],
        factors: tuple[RowPlace, ...],
        times: str | None,
        values: Mapping[str, str],
    ) -> None:
        store = delta_name(target.name)
        number, last = self.deltas.index(store), self.remembered.get(store)
        slot, depth = last or lines.fresh("r"), lines.depth
        if last:
            lines.open(f"if {' or '.join([f'{last} < 0', *(f'{last}_{i} != {word}' for i, word in enumerate(key))])}")
            for i, word in enumerate(key):
                lines.add(f"{last}_{i} = {word}")
        lines.add(f"{slot} = {self.writer.enter(store, key)}")
        if key:
            with lines.block(f"if {slot} < 0"):
                lines.add(f"control[FULL] = {number + 1}")
                lines.add("return 0")
        lines.close_to(depth)
        term = Term(self.writer.row(store, slot), factors, times, values, f"peak{number}")
        self.writer.form.add_term(lines, term)


class TriggerWriter(JoinWriter):
    """The function of one leaf."""

    def __init__(self, writer: Writer, trigger: Trigger) -> None:
        super().__init__(writer, list(map(delta_name, changed_by(writer, trigger))))
        self.trigger, self.leaf = trigger, writer.leaf_variant(trigger)
        self.function = writer.names.function("on", trigger.leaf)
        self.goals = tuple(name if name in writer.layouts else None for name in changed_by(writer, trigger))
        """The stored views that the scratch stores are added to."""

    def write(self) -> WrittenFunction:
        lines = Lines(depth=1)
        columns = [] if self.trigger.is_indicator else ["times", *(f"column{i}" for i in range(len(self.leaf.keys)))]
        for i in range(len(self.deltas)):
            lines.add(f"peak{i} = 0.0")
        if not self.trigger.is_indicator:
            self._from_batch(lines)
        for propagation in self.trigger.propagations:
            if not self._is_first(propagation) or delta_name(self.leaf.name) in self.deltas:
                self._from_delta(lines, propagation)
        for i in range(len(self.deltas)):
            lines.add(f"{PEAKS}[{i}, 0] = peak{i}")
        lines.add("return 0")
        return WrittenFunction(self.function, f"Works out what a change of {self.leaf} does.", columns, lines)

    def _is_first(self, propagation: Propagation) -> bool:
        return propagation.factors[propagation.driver].node == self.trigger.leaf

    def _from_batch(self, lines: Lines) -> None:
        """One loop over the rows that were given: into the leaf's own δ where it is stored, and else on to its view."""
        first = [propagation for propagation in self.trigger.propagations if self._is_first(propagation)]
        self._remember(lines, [propagation.target for propagation in first if not propagation.plan.steps])
        with lines.block("for row in range(len(times))"):
            columns = [f"column{i}" for i in range(len(self.leaf.keys))]
            keys, values = self._from_columns(lines, self.leaf.keys, columns)
            lines.add("n = times[row]")
            if delta_name(self.leaf.name) in self.deltas:
                self._add(lines, self.leaf, [keys[name] for name in self.leaf.keys], (), "n", {})
                return
            for propagation in first:
                depth = lines.depth
                if len(first) > 1 and propagation.plan.steps:
                    lines.open("for _ in range(1)")  # what finds no partner here may find one for the next
                lines.add(comment(str(propagation)))
                self._join(lines, propagation, keys, values, {}, "n")
                lines.close_to(depth)

    def _remember(self, lines: Lines, targets: Iterable[Variant]) -> None:
        """Rows of a batch often come by key: where the last one went is remembered, and its key."""
        for target in targets:
            if 0 < len(target.keys) <= MOST_REMEMBERED and delta_name(self.leaf.name) not in self.deltas:
                self.remembered[delta_name(target.name)] = slot = lines.fresh("r")
                lines.add(f"{slot} = np.int64(-1)")
                for i in range(len(target.keys)):
                    lines.add(f"{slot}_{i} = np.int64(0)")

    def _from_delta(self, lines: Lines, propagation: Propagation) -> None:
        driver = propagation.factors[propagation.driver]
        store = delta_name(driver.name)
        prefix, layout = self.writer.identifier(store), self.writer.layouts[store]
        slot = lines.fresh("d")
        lines.add(comment(str(propagation)))
        depth = lines.depth
        lines.open(f"for {slot} in range({f'{prefix}_meta[SIZE]' if layout.arity else '1'})")
        keys: Words = {}
        values: Words = {}
        self._read(lines, driver.keys, range(len(driver.keys)), f"{prefix}_pool[{slot}", keys, values)
        self._join(lines, propagation, keys, values, {propagation.driver: self.writer.row(store, slot)}, None)
        lines.close_to(depth)


def changed_by(writer: Writer, trigger: Trigger) -> list[str]:
    """What a trigger has scratch stores for: the leaf, if it is stored or an indicator, then the views it passes."""
    leaf = writer.leaf_variant(trigger)
    own = trigger.is_indicator or any(variant.name == leaf.name for variant in writer.plan.stored)
    passed = [propagation.target.name for propagation in trigger.propagations]
    return [leaf.name, *passed] if own else passed
