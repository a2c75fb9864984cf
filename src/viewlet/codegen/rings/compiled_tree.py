"""A compiled view tree in a process: its stores, and changes that are applied whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from viewlet.codegen.instance import ModuleInstance
from viewlet.codegen.rings.columns import Column, check_column, decode, encode, encode_arrow
from viewlet.codegen.rings.forms import LIMIT, Form
from viewlet.codegen.rings.origins import Origins, refusal
from viewlet.codegen.rings.plan import TreePlan, Trigger, Variant
from viewlet.codegen.rings.product_plan import Shape, plan_product
from viewlet.codegen.rings.product_writer import FUNCTION, write_product
from viewlet.codegen.rings.tree_writer import PEAKS, Source, count_name, delta_name
from viewlet.errors import DataError, SchemaError, ViewletError
from viewlet.runtime.control import FAILURE, FAR, FULL, LOGGED, LOGGING
from viewlet.runtime.dictionary import StringDictionary
from viewlet.runtime.flat import FLOATS, FlatStore, Image
from viewlet.runtime.jit import ENABLED
from viewlet.runtime.memory import HEAP, Memories, on_heap
from viewlet.runtime.merge import FIRST, INTEGERS, count_moved, empty_store, merge, take_back
from viewlet.runtime.probe import ALIVE
from viewlet.types import BIGINT, SqlType
from viewlet.viewtree.ring_relation import Row
from viewlet.viewtree.ring_tree import Keys

Changes = Mapping[str, Iterable[tuple[Row, int]]]
Factor = tuple[Keys, Mapping[Row, int]]
LOG = "rows before their change"
"""The name of the memory of the log, beside those of the stores."""
LARGE_LOG = 1 << 23
"""Words of a log that is given back when the next transaction begins, where it lives beside the stores."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is not in the memory of the stores, for another process that continues with them."""

    is_open: bool
    logged: int
    """Words of the log."""
    bounds: Mapping[str, float]
    """Of the integers of each store."""


class CompiledTree:
    """A view tree whose triggers are generated code; `codegen.rings` tells what it can be asked.

    What it holds between two changes, and the log of a transaction, live in `memory`, which processes may share: one
    uses it at a time, and tells the next one its `progress`.
    """

    def __init__(
        self,
        plan: TreePlan,
        form: Form,
        source: Source,
        types: Mapping[str, SqlType],
        dictionary: StringDictionary,
        memory: Memories = on_heap,
    ) -> None:
        self.plan, self.tree, self.types, self.dictionary = plan, plan.tree, types, dictionary
        self.source = source.text
        self.stores = {
            layout.name: FlatStore(layout, HEAP if layout.scratch else memory(layout.name)) for layout in source.layouts
        }
        self._form, self._generated = form, source
        self.origins = Origins(source.origins, form, plan.stored, self.stores, self._log_rows)
        self._log_memory = memory(LOG)
        self._log = self._log_memory.first("log", (1,), np.int64)
        self._peaks = np.zeros((max(len(trigger.deltas) for trigger in source.triggers.values()), 1))
        self._bounds = dict.fromkeys(self.stores, 0.0)
        tables = {PEAKS: self._peaks, **form.tables}
        self._module = ModuleInstance(source.text, source.arrays, self.stores, lambda: tables)
        self._control = self._module.control
        self._changed: set[Row] | None = None
        self._products: dict[tuple[str, Shape], _Product] = {}
        self.is_open = False
        """Between `begin` and `commit` or `rollback`."""
        self._images: dict[str, Image] = {}
        self.epoch = 0
        """Grows whenever a change is applied."""
        self._numbers = {name: number for number, name in enumerate(self.stores)}
        self._places = self._tell_stores()
        self._schemas = {
            relation: tuple(self.tree.order.relations[self.tree.instances(relation)[0]])
            for relation in self.tree.relations
        }
        self._units = {
            relation: [
                self._unit(leaf) for instance in self.tree.instances(relation) for leaf in self._leaves(instance)
            ]
            for relation in sorted(self.tree.relations)
            if any(instance in plan.triggers for instance in self.tree.instances(relation))
        }

    def _tell_stores(self) -> Any:
        """The description of each store for `runtime.merge`."""
        place = self._module.place
        rows = [
            (place(name), place(name, FLOATS), store.layout.width, store.layout.arity, integers)
            for (name, store), integers in zip(self.stores.items(), self._generated.integers, strict=True)
        ]
        return np.array(rows, np.int64)

    def _leaves(self, instance: str) -> list[str]:
        """A relation and the indicators that move after it."""
        return [instance, *(leaf.name for leaf in self.plan.triggers[instance].indicators)]

    def _unit(self, leaf: str) -> _Unit:
        written, trigger = self._generated.triggers[leaf], self.plan.triggers[leaf]
        pairs = [(delta, -1 if goal is None else self._numbers[goal]) for delta, goal in written.deltas]
        return _Unit(
            trigger,
            self._module.function(written.function),
            [self.stores[delta] for delta, _ in written.deltas],
            [(i, self.stores[goal]) for i, (_, goal) in enumerate(written.deltas) if goal is not None],
            np.array([(self._numbers[delta], goal) for delta, goal in pairs], np.int64),
            [self.stores[name] for moved in trigger.indicators for name in (count_name(moved), delta_name(moved.name))],
            [self.stores[delta_name(variant.name)] for variant in self.plan.results if self._passes(trigger, variant)],
        )

    @staticmethod
    def _passes(trigger: Trigger, variant: Variant) -> bool:
        return any(propagation.target == variant for propagation in trigger.propagations)

    @property
    def changing(self) -> tuple[str, ...]:
        """The relations that may change."""
        return tuple(self._units)

    def take(self, other: CompiledTree) -> None:
        """Takes over the contents of a tree that stores more than this one."""
        self.restore({name: other.stores[name].packed() for name in self.held})

    @property
    def held(self) -> dict[str, FlatStore]:
        """The stores that hold something between two changes."""
        return {name: store for name, store in self.stores.items() if not store.layout.scratch}

    def restore(self, contents: Mapping[str, Any]) -> None:
        """Continues from rows that `packed` returned for the stored views."""
        for name, store in self.held.items():
            rows = contents.get(name)  # earlier versions had no origins
            store.fill(np.zeros((1, store.layout.width), np.int64) if rows is None else rows)
            self._bounds[name] = self._largest(store)
        self.epoch += 1

    @property
    def is_shared(self) -> bool:
        """Other processes may see what it holds."""
        return self._log_memory is not HEAP

    @property
    def progress(self) -> Progress:
        return Progress(self.is_open, int(self._control[LOGGED]), dict(self._bounds))

    def attach_again(self) -> None:
        """Finds what another process has left in the memory of the stores; `take_over` is to follow."""
        for store in self.held.values():
            store.attach_again()
        self._log_memory.is_new = False
        self._log = self._log_memory.first("log", (1,), np.int64)

    def take_over(self, progress: Progress) -> None:
        """Continues the transaction of the process that used the stores last, if it has left one."""
        self._control[:] = 0
        self._control[LOGGING], self._control[LOGGED] = progress.is_open, progress.logged
        self.is_open = progress.is_open
        self._bounds |= progress.bounds
        self.epoch += 1

    def place(self, store: str) -> int:
        """Where the arrays of a store begin in the state."""
        return int(self._places[self._numbers[store], FIRST])

    def state(self) -> Any:
        """The state as compiled functions take it, valid until something changes."""
        return self._module.state()

    # Reading

    def entries(self) -> dict[Row, Any]:
        """The result: payloads of the ring by row."""
        return self.view(self.tree.root.name)

    @property
    def payload(self) -> Any:
        """The payload of a result without keys; None where there are no rows."""
        return self.entries().get(())

    def entries_at(self, keys: Sequence[Row]) -> dict[Row, Any]:
        """The payloads of the result at some keys, and perhaps at others."""
        return self.view(self.tree.root.name, keys)

    def view(self, node: str, at: Sequence[Row] | None = None) -> dict[Row, Any]:
        """The rows of a stored view, with their payloads; at least those `at` some keys if they are given."""
        variants = [variant for variant in self.plan.stored if variant.node == node]
        if not variants:
            raise SchemaError(f"{node!r} is not a stored view of the tree")
        return self._form.payloads(
            {variant: self.rows(variant, at) for variant in variants},
            len(self.tree.nodes[node].keys),
            self.origins.read(),
        )

    def rows(self, variant: Variant, at: Sequence[Row] | None = None) -> tuple[Any, list[Row]]:
        """The words of the rows of a store, and their keys; at least of those that begin with one of some keys."""
        store = self.stores[variant.name]
        if at and at[0]:
            coded = zip(variant.keys, zip(*at, strict=True), strict=False)
            wanted = [encode(name, self.types[name], tuple(set(column)), self.dictionary) for name, column in coded]
            words = store.pool[store.slots_with([(i, column.view(np.int64)) for i, column in enumerate(wanted)])]
        else:
            words = store.packed()
        if not variant.keys:
            there = words.any(axis=1)
            return words[there], [()] * int(there.sum())
        columns = [decode(self.types[name], words[:, i], self.dictionary) for i, name in enumerate(variant.keys)]
        return words, list(zip(*columns, strict=True))

    def watch(self) -> None:
        """From now on `take_changed` knows which rows of the result have changed."""
        self._changed = set()

    @property
    def is_watched(self) -> bool:
        return self._changed is not None

    def take_changed(self) -> set[Row]:
        """The keys of the result whose payloads may have changed since the last time."""
        if self._changed is None:
            raise SchemaError("a tree that is not watched does not know what has changed")
        found, self._changed = self._changed, set()
        return found

    def sizes(self) -> dict[str, int]:
        """How many rows each stored view has."""
        return {variant.name: self._size(variant) for variant in self.plan.stored}

    def _size(self, variant: Variant) -> int:
        store = self.stores[variant.name]
        return len(store) if variant.keys else int(store.pool.any())

    def bytes(self) -> int:
        """The memory of all stored views."""
        return sum(store.nbytes() for store in self.stores.values())

    # Changing

    def warm_up(self, step: Callable[[str], None]) -> None:
        """Applies changes of no rows, so that Numba compiles what later changes need."""
        for relation, units in self._units.items() if ENABLED else ():
            step(f"changes of {relation}")
            names = self._schemas[relation]
            none = [np.zeros(0, np.float64 if self.types[name].is_float else np.int64) for name in names]
            for unit in units:
                self._run(unit, () if unit.trigger.is_indicator else (np.zeros(0, np.int64), *none), 0)

    def apply(self, changes: Changes) -> None:
        """Inserts and deletes rows, given with multiplicities: all of them, or on an error none."""
        coded = {relation: self._coded(relation, list(rows)) for relation, rows in changes.items()}
        with self._whole(len(coded) > 1):
            for relation, (columns, times) in coded.items():
                self.apply_columns(relation, columns, times)

    def apply_arrow(self, relation: str, table: Any, multiplicity: Any = None) -> None:
        """The rows of an Arrow table, whose columns are found by name or, failing that, by place."""
        names = self._schema(relation)
        if table.num_columns != len(names):
            raise DataError(
                f"relation {relation!r} has columns {', '.join(names)}, not {', '.join(table.column_names)}"
            )
        by_name = set(names) == set(table.column_names)
        columns = [
            encode_arrow(name, self.types[name], table.column(name if by_name else i), self.dictionary)
            for i, name in enumerate(names)
        ]
        times = np.ones(table.num_rows, np.int64) if multiplicity is None else np.asarray(multiplicity, np.int64)
        self.apply_columns(relation, columns, times)

    def apply_columns(self, relation: str, columns: Sequence[Column], multiplicity: Column) -> None:
        """Rows of one relation as columns of words, in the order of its schema: all of them, or on an error none."""
        names, types, rows = self._schema(relation), self.types, len(multiplicity)
        if len(columns) != len(names):
            raise DataError(f"relation {relation!r} has {len(names)} columns, not {len(columns)}")
        checked = [check_column(name, types[name], column, rows) for name, column in zip(names, columns, strict=True)]
        multiplicity = check_column("multiplicity", BIGINT, multiplicity, rows)
        if not rows:
            return
        units = self._units[relation]
        with self._whole(len(units) > 1):
            for unit in units:
                self._run(unit, () if unit.trigger.is_indicator else (multiplicity, *checked), rows)

    def takes_products(self, relation: str) -> bool:
        """Whether changes of a relation can be products; what moves indicators has to be rows."""
        return not any(unit.trigger.indicators or unit.trigger.is_indicator for unit in self._units[relation])

    def apply_products(self, relation: str, products: Iterable[Sequence[Factor]]) -> None:
        """A union of products, each given as factors: variables, and rows over them with multiplicities.

        Nothing is multiplied out but in views that have to be stored. Of a relation that the join has several times,
        the factors name the variables of its first occurrence.
        """
        schema, units = self._schema(relation), self._units[relation]
        coded = [[self._coded_factor(relation, *factor) for factor in factors] for factors in products]
        for factors in coded:
            if sorted(name for names, *_ in factors for name in names) != sorted(schema):
                raise SchemaError(
                    f"the factors of a change of {relation!r} do not have each of {', '.join(schema)} once"
                )
        with self._whole(len(coded) * len(units) > 1):
            for factors in coded:
                for unit in units:
                    self._run_product(unit, dict(zip(schema, unit.trigger.keys, strict=True)), factors)

    def _coded_factor(self, relation: str, names: Keys, rows: Mapping[Row, int]) -> tuple[Keys, list[Column], Column]:
        if unknown := [name for name in names if name not in self._schema(relation)]:
            raise SchemaError(f"relation {relation!r} has no variable {unknown[0]!r}")
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        coded = [encode(name, self.types[name], x, self.dictionary) for name, x in zip(names, columns, strict=True)]
        return names, coded, np.array(list(rows.values()), np.int64)

    def _run_product(
        self, unit: _Unit, names: Mapping[str, str], factors: Sequence[tuple[Keys, list[Column], Column]]
    ) -> None:
        product = self._product(unit.trigger.leaf, tuple(tuple(names[name] for name in own) for own, *_ in factors))
        given = [array for _, columns, times in factors for array in (times, *columns)]
        schema = [names[name] for own, *_ in factors for name in own]
        columns = [column for _, columns, _ in factors for column in columns]
        stores, control = [*unit.deltas, *product.scratch], self._control
        try:
            while True:
                product.module.call(FUNCTION, *given)
                full = int(control[FULL])
                if not full and not self._recentre(schema, columns):
                    break
                control[FULL] = 0
                for store in stores:
                    store.clear()
                if full:
                    stores[full - 1].reserve(2 * stores[full - 1].pool.shape[0])
        finally:
            for store in product.scratch:
                store.clear()
        self._add_up(unit)

    def _product(self, leaf: str, shape: Shape) -> _Product:
        """The code for products of a shape, made when one comes first."""
        if (leaf, shape) not in self._products:
            changed = {variant.name: variant for variant in self.plan.stored}
            written = self._generated.triggers[leaf]
            goals = [changed[goal] for _, goal in written.deltas if goal is not None]
            plan = plan_product(self.tree, self.plan.groupings, leaf, shape, goals)
            source = write_product(self.plan, self._form, self.types, plan)
            scratch = {layout.name: FlatStore(layout) for layout in source.scratch}
            tables = {PEAKS: self._peaks, **self._form.tables, **source.tables}
            stores = {**self.stores, **scratch}
            module = ModuleInstance(source.text, source.arrays, stores, lambda: tables, control=self._control)
            self._products[leaf, shape] = _Product(list(scratch.values()), module)
        return self._products[leaf, shape]

    def begin(self) -> None:
        """Begins a transaction: until `commit`, changes can be rolled back.

        The log of rows before their change rests on calls of generated code being atomic. As plain Python they are not:
        there all arrays are copied. Those that processes share are not: what is interrupted there is given up.
        """
        if self.is_open:
            raise SchemaError("a change has begun already")
        if self.is_shared:
            if len(self._log) > LARGE_LOG:
                self._log = self._log_memory.zeros("log", (1,), np.int64)
        elif not ENABLED:
            self._images = self._module.images()
        self._control[:] = 0
        self._control[LOGGING] = 1
        self.is_open = True

    def commit(self) -> None:
        self._control[LOGGING] = self._control[LOGGED] = 0
        self.origins.forget()
        self._images = {}
        self.is_open = False

    def rollback(self) -> None:
        """Makes everything what it was at `begin`, however far a change got; to be called again if interrupted."""
        for store in self._scratch():
            store.repair()
            store.clear()
        for store in self.held.values():
            store.repair()
        self._control[FAILURE] = self._control[FULL] = 0
        if self._images:
            self._module.put_back(self._images)
        else:
            self._undo(0)
        self._bounds = dict.fromkeys(self.stores, inf)  # recomputed: rows that were rolled back may have been larger
        self.epoch += 1
        self.commit()

    def _scratch(self) -> Iterator[FlatStore]:
        """The stores that are empty between two changes."""
        yield from (store for store in self.stores.values() if store.layout.scratch)
        for product in self._products.values():
            yield from product.scratch

    # One change at a time

    def _schema(self, relation: str) -> Sequence[str]:
        if relation not in self._units:
            raise SchemaError(f"relation {relation!r} is not among those that may change: {sorted(self._units)}")
        return self._schemas[relation]

    def _coded(self, relation: str, rows: list[tuple[Row, int]]) -> tuple[list[Column], Column]:
        names = self._schema(relation)
        if wrong := [row for row, _ in rows if len(row) != len(names)]:
            raise DataError(f"relation {relation!r} has columns {', '.join(names)}: {wrong[0]} is not a row of it")
        columns = zip(*(row for row, _ in rows), strict=True) if rows else ((),) * len(names)
        coded = [encode(name, self.types[name], x, self.dictionary) for name, x in zip(names, columns, strict=True)]
        return coded, np.array([times for _, times in rows], np.int64)

    @contextmanager
    def _whole(self, logged: bool) -> Iterator[None]:
        """What is inside happens whole or not at all; where it has parts, they are logged.

        A Viewlet error leaves no part half done, so only the current change is rolled back. After another exception
        the state is right again when all that has begun is rolled back.
        """
        begun = logged and not self.is_open
        if begun:
            self.begin()
        mark = int(self._control[LOGGED])
        try:
            yield
        except BaseException as error:
            if begun:
                self.rollback()
            elif isinstance(error, ViewletError) or not self.is_open:
                self._undo(mark)
                for store in self._scratch():
                    store.clear()
            raise
        if begun:
            self.commit()

    def _run(self, unit: _Unit, given: Sequence[Any], rows: int) -> None:
        """Works out what a change does, and if nothing is wrong with it adds it to the stores."""
        control = self._control
        if not unit.trigger.is_indicator:
            for delta in unit.deltas:
                delta.reserve(rows)
        while True:
            self._module.run(unit.change, *given)
            if full := int(control[FULL]):
                control[FULL] = 0
                self._widen(unit, unit.deltas[full - 1])
            elif self._recentre(unit.trigger.keys, given[1:]):
                for delta in unit.deltas:
                    delta.clear()
            else:
                break
        self._add_up(unit)

    def _recentre(self, names: Sequence[str], columns: Sequence[Column]) -> bool:
        """Moves origins if they do not serve a change, which is then to be worked out again."""
        if self._control[FAILURE] != FAR:
            return False
        self._control[FAILURE] = 0
        self.epoch += 1
        self.origins.follow(names, columns)
        return True

    def _log_rows(self, name: str, slots: Any) -> None:
        """Logs rows before they change, if rows are logged."""
        if not self._control[LOGGING]:
            return
        pool, at = self.stores[name].pool, int(self._control[LOGGED])
        rows = np.empty((len(slots), pool.shape[1] + 1), np.int64)
        rows[:, 0], rows[:, 1:] = self._numbers[name], pool[slots]
        if (end := at + rows.size) > len(self._log):
            self._log = self._log_memory.grown("log", self._log, end + end // 4)
        self._log[at:end] = rows.reshape(-1)
        self._control[LOGGED] = end

    def _add_up(self, unit: _Unit) -> None:
        """Adds what a change does to the stores, if nothing is wrong with it."""
        if self._control[FAILURE]:
            self._control[FAILURE] = 0
            raise refusal()
        self._check_bounds(unit)
        self._make_room(unit)
        self._merge(unit)

    def _widen(self, unit: _Unit, full: FlatStore) -> None:
        """More scratch space; what there was is worked out again. An indicator's change is where it started from."""
        for delta in unit.deltas[1 if unit.trigger.is_indicator else 0 :]:
            delta.clear()
        full.reserve(2 * full.pool.shape[0])

    def _check_bounds(self, unit: _Unit) -> None:
        """Tracks a bound of integers; where the bound is too large, computes the actual maximum."""
        peaks = self._peaks[:, 0].tolist()
        if max(peaks[: len(unit.deltas)]) > LIMIT:
            raise DataError("a sum or a count overflows 64 bits")
        for i, store in unit.goals:
            name = store.layout.name
            bound = self._bounds[name] + peaks[i]
            if bound > LIMIT and (bound := self._largest(store) + peaks[i]) > LIMIT:
                raise DataError(f"a sum or a count of {name} may overflow 64 bits")
            self._bounds[name] = bound

    def _make_room(self, unit: _Unit) -> None:
        words = 0
        for i, store in unit.goals:
            size = int(unit.deltas[i].meta[ALIVE])
            store.reserve(size)
            words += size * (store.pool.shape[1] + 1)
        for store in unit.moved:
            rows = len(unit.deltas[0])
            store.reserve(rows)
            words += rows * (store.pool.shape[1] + 1)
        if self._control[LOGGING] and (needed := int(self._control[LOGGED]) + words) > len(self._log):
            self._log = self._log_memory.grown("log", self._log, needed + needed // 4)

    def _keys(self, delta: FlatStore) -> Iterable[Row]:
        """The keys of the result in a scratch store."""
        names, rows = self.tree.root.keys, int(delta.meta[ALIVE])
        columns = [decode(self.types[name], delta.pool[:rows, i], self.dictionary) for i, name in enumerate(names)]
        return zip(*columns, strict=True) if columns else [()]

    def _merge(self, unit: _Unit) -> None:
        """Adds the change to the stores; where a relation has indicators, its rows that came and went move them."""
        self.epoch += 1
        if self._changed is not None:
            self._changed.update(*(self._keys(delta) for delta in unit.results))
        moved = np.zeros(len(unit.deltas[0]) if unit.moved else 0, np.int64)
        movements = self._module.run(merge, unit.pairs, self._places, moved, self._log)
        if not unit.moved:
            return
        origin, keys = unit.pairs[0, 0], unit.trigger.keys
        for leaf in unit.trigger.indicators:
            count, change = self._numbers[count_name(leaf)], self._numbers[delta_name(leaf.name)]
            positions = np.array([keys.index(name) for name in leaf.keys], np.int64)
            key = np.zeros((1, len(positions)), np.int64)
            given = (origin, count, change, positions, moved[:movements], key, self._places, self._log)
            self._module.run(count_moved, *given)
        empty_store(origin, self._places, self._module.state())

    def _largest(self, store: FlatStore) -> float:
        """The largest integer of a store."""
        arity, integers = store.layout.arity, self._places[self._numbers[store.layout.name], INTEGERS]
        words = store.packed()[:, arity : arity + integers]
        return float(np.abs(words.astype(np.float64)).max(initial=0.0))

    def _undo(self, mark: int) -> None:
        """Rolls back the changes that were logged after a mark."""
        layouts, at, places = list(self.stores.values()), mark, list[int]()
        while at < self._control[LOGGED]:
            places.append(at)
            at += layouts[self._log[at]].pool.shape[1] + 1
        for store in self.stores.values():
            if store.layout.arity and not store.layout.scratch:
                store.reserve(len(places))
        if places:
            self.epoch += 1
            take_back(np.array(places, np.int64), self._places, self._log, self._module.state())
        self._control[LOGGED] = mark


@dataclass(frozen=True, slots=True)
class _Product:
    """The scratch stores and the module for changes of one leaf that are products of one shape."""

    scratch: list[FlatStore]
    module: ModuleInstance


@dataclass(frozen=True, slots=True)
class _Unit:
    """The function and the stores of one leaf's trigger."""

    trigger: Trigger
    change: Any
    deltas: list[FlatStore]
    goals: list[tuple[int, FlatStore]]
    """For some of the deltas, by their number, the stores they are added to."""
    pairs: Any
    moved: list[FlatStore]
    results: list[FlatStore]
