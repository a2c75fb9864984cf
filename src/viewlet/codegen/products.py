"""Expressions as nested loops (thesis, section 4.2.1: continuation-passing code generation).

A lookup is a probe, a slice walks a chain, a scan runs over the pool; conditions open `if` blocks, lifts assign, nested
aggregates accumulate into local variables. Expressions of the fields of one view that differ only in what they multiply
are emitted together, in one set of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from viewlet.algebra.nodes import (
    MULTIPLICITY,
    Add,
    Call,
    Cond,
    Const,
    Delta,
    Exists,
    Expr,
    Extreme,
    Extremum,
    Lift,
    Mul,
    Neg,
    Rel,
    Scalar,
    Sum,
    Value,
    Var,
    View,
    factors_of,
)
from viewlet.algebra.scope import outputs
from viewlet.codegen.aggregate_functions import AggregateFunction, AggregateFunctions
from viewlet.codegen.lines import Lines
from viewlet.codegen.names import Identifiers
from viewlet.codegen.not_compilable import NotCompilable
from viewlet.codegen.numbers import RANK, NumberWriter, Part, Product, nonzero
from viewlet.codegen.range_scans import RangeScanWriter
from viewlet.codegen.ranges import RangeWriter
from viewlet.codegen.requests import Requests
from viewlet.codegen.row_updates import add_field, vanishes
from viewlet.codegen.scalars import ScalarWriter, Tables
from viewlet.codegen.trees import TreeWriter
from viewlet.codegen.word import ALWAYS, NEVER, Word, null_word
from viewlet.runtime.flat import Layout
from viewlet.types import Kind

Bound = frozenset[Var]
Done = Callable[[list[Product], Bound], None]
Load = Callable[[], Part]
"""Writes the reading of a number, where it is wanted."""

ADD_COUNT, TOUCH, WITHDRAW, ARRANGE = "#add_count", "#touch", "#withdraw", "#arrange"
"""Where a count is added to a row, and where rows are about to change, leave and have changed: the calls that note the
rows of the result and keep ordered indexes go here once it is known which there are."""


class ProductWriter:
    """Writes the loops of expressions over the stores with these layouts."""

    def __init__(
        self, lines: Lines, layouts: Mapping[str, Layout], names: Identifiers, tables: Tables, requests: Requests
    ) -> None:
        self.lines = lines
        self.layouts = layouts
        self.names = names
        self.requests = requests
        self.scalars = ScalarWriter(names.of, tables)
        self.numbers = NumberWriter(lines)
        self.loops: list[str] = []  # how often each enclosing loop can run at most
        self.room: dict[str, list[str]] = {}  # store -> rows each place can add to it at most
        self.functions: AggregateFunctions | None = None
        """Where nested aggregates that are repeated are functions."""
        self.called: dict[AggregateFunction, None] = {}
        """The functions that the code calls, and those that they call."""
        self.visited_scratches: list[str] = []
        """The scratch stores that enclosing loops run over."""
        self.changes_nothing = False
        """The stores stay as they are while the code runs: the row that a loop is at need not be looked up."""
        self.is_read_once = False
        """The stores are forgotten afterwards: ordering them would take longer than visiting the rows of each chain."""
        self._outside = 0
        """The loops around those whose groups are being gathered."""
        self._visited: dict[tuple[str, tuple[Var, ...]], str] = {}
        """The slots of the rows that loops are at, by store and key."""
        trees = TreeWriter(self)
        self.ranges = RangeWriter(self, trees)
        self.range_scans = RangeScanWriter(self, trees)

    @property
    def runs_once(self) -> bool:
        """What is written now runs once in all the time that the stores are there."""
        return self.is_read_once and not self.loops and not self._outside

    def write(
        self, exprs: Sequence[Expr], bound: Bound, numbers: list[Product], done: Done, wanted: Bound | None = None
    ) -> None:
        """Loops over the bindings of expressions of one shape; `done` receives their products.

        Of the variables they bind, only those in `wanted` are read later; None if nothing is known about that.
        """
        first = exprs[0]
        if any(isinstance(expr, Mul | Value | Add | Neg) for expr in exprs):
            self._sequence([list(factors_of(expr)) for expr in exprs], bound, numbers, done, wanted)
            return
        match first:
            case Sum() if outputs(first) <= bound:
                self._subtotal([_body(expr) for expr in exprs], bound, numbers, done)
            case Sum(keys):
                self.write([_body(expr) for expr in exprs], bound, numbers, done, frozenset(keys))
            case Cond(scalar):
                self.write_if(self.scalars.truth(scalar), lambda: done(numbers, bound))
            case View():
                self._atom([expr for expr in exprs if isinstance(expr, View)], bound, numbers, done)
            case Lift(var, Value(scalar)):
                self._bind(var, self._lifted(scalar), bound, lambda now: done(numbers, now))
            case Lift(var, body):
                self._bind(var, self._total(var, body, bound), bound, lambda now: done(numbers, now))
            case Extremum(var, which, of, body):
                self._bind(var, self._extreme(which, of, body, bound), bound, lambda now: done(numbers, now))
            case Exists(body):
                self._exists(body, bound, lambda now: done(numbers, now))
            case Rel() | Delta():
                raise NotCompilable(f"table {first.name} inside a trigger")

    def _sequence(
        self, rows: list[list[Expr]], bound: Bound, numbers: list[Product], done: Done, wanted: Bound | None
    ) -> None:
        """Writes the factors in order; values are multiplied when everything is bound.

        A sum among the factors is multiplied out, so that each of its terms is seen with what follows it.
        """
        chains: list[list[Expr]] = [[factor for factor in row if not isinstance(factor, Value)] for row in rows]
        values: list[list[Expr]] = [[factor for factor in row if isinstance(factor, Value)] for row in rows]

        def step(i: int, now: Bound, products: list[Product]) -> None:
            if i == len(chains[0]):
                parts = [[self._value(value) for value in row] for row in values]
                done([product.times(*own) for product, own in zip(products, parts, strict=True)], now)
                return
            rests = [chain[i:] for chain in chains]
            if isinstance(chains[0][i], Add | Neg):
                self._multiply_out(rests, values, now, products, done, wanted)
                return
            if isinstance(chains[0][i], View) and self.ranges.sums(
                rests,
                values,
                now,
                products,
                wanted,
                lambda found, after: step(len(chains[0]), after, found),
                lambda: onward(i, now, products),
            ):
                return
            if self.range_scans.rows(
                rests, now, products, lambda found, after: step(i + 1, after, found), lambda: onward(i, now, products)
            ):
                return
            onward(i, now, products)

        def onward(i: int, now: Bound, products: list[Product]) -> None:
            self.write([chain[i] for chain in chains], now, products, lambda found, after: step(i + 1, after, found))

        step(0, bound, numbers)

    def _multiply_out(
        self,
        rests: list[list[Expr]],
        values: list[list[Expr]],
        bound: Bound,
        numbers: list[Product],
        done: Done,
        wanted: Bound | None,
    ) -> None:
        """Each term of the first factors with all that follows.

        Where a join follows, the terms are added up first: what they have in common cancels, and the join is written
        and run once.
        """
        if len(set(map(_first, rests))) == 1 and any(not isinstance(factor, Cond) for factor in rests[0][1:]):
            self._added_up(rests, values, bound, numbers, done, wanted)
            return
        if isinstance(rests[0][0], Neg):
            rows = [[*factors_of(_body(rest[0])), *rest[1:], *own] for rest, own in zip(rests, values, strict=True)]
            self._sequence(rows, bound, [n.negated() for n in numbers], done, wanted)
            return
        for i in range(len(_terms(rests[0][0]))):
            depth = self.lines.depth
            rows = [[*factors_of(_terms(rest[0])[i]), *rest[1:], *own] for rest, own in zip(rests, values, strict=True)]
            self._sequence(rows, bound, numbers, done, wanted)
            self.lines.close_to(depth)

    def _added_up(
        self,
        rests: list[list[Expr]],
        values: list[list[Expr]],
        bound: Bound,
        numbers: list[Product],
        done: Done,
        wanted: Bound | None,
    ) -> None:
        """The first factor, the same in all rows, summed per value of what it binds; then all that follows."""
        factor = rests[0][0]
        rows = [[*rest[1:], *own] for rest, own in zip(rests, values, strict=True)]

        def go_on(part: Part, now: Bound) -> None:
            self._sequence(rows, now, [number.times(part) for number in numbers], done, wanted)

        fresh = tuple(sorted(outputs(factor) - bound, key=lambda key: key.name))
        if not fresh:
            words, kind = self._sum_of(factor, bound)
            self.write_if(nonzero(words), lambda: go_on(Part(kind, words), bound))
            return
        self._grouped(fresh, factor, bound, lambda load: go_on(load(), bound | frozenset(fresh)))

    def _value(self, expr: Expr) -> Part:
        assert isinstance(expr, Value)
        scalar = expr.scalar
        if isinstance(scalar, Const) and isinstance(scalar.value, int):
            return (
                Part("count", (str(scalar.value),))
                if abs(scalar.value) < 1 << 31
                else Part("int", (str(scalar.value),))
            )
        if scalar == MULTIPLICITY:
            return Part("count", (self.names.of(MULTIPLICITY),))
        word = self.scalars.word(scalar)
        code = word.code
        zero = "0.0" if word.is_float else "0"
        if word.present != ALWAYS:
            code = f"({code} if {word.present} else {zero})" if word.present != NEVER else zero
        if not code.isidentifier():
            name = self.lines.fresh("v")
            self.lines.add(f"{name} = {code}")
            code = name
        return Part("double", (code, "0.0")) if word.is_float else Part("int", (code,))

    def otherwise(self, then: Callable[[], None]) -> None:
        """The other case of the `if` that was just closed."""
        depth = self.lines.depth
        self.lines.open("else")
        then()
        self.lines.add("pass")
        self.lines.close_to(depth)

    def write_if(self, condition: str, then: Callable[[], None]) -> None:
        if condition == ALWAYS:
            then()
        elif condition != NEVER:
            depth = self.lines.depth
            self.lines.open(f"if {condition}")
            then()
            self.lines.add("pass")
            self.lines.close_to(depth)

    def _lifted(self, scalar: Scalar) -> Word:
        """The word of a computed value; a negative zero would be another key than 0."""
        word = self.scalars.word(scalar)
        if not word.is_float or not isinstance(scalar, Call) or word.present == NEVER:
            return word
        return Word(f"({word.code} + 0.0)", word.present, True)

    def _bind(self, var: Var, word: Word, bound: Bound, then: Callable[[Bound], None]) -> None:
        code = null_word(word)
        if var in bound:
            name = self.names.of(var)
            same = f"{name} == {code}"
            if word.is_float:
                same = f"({same} or ({name} != {name} and {code} != {code}))"
            self.write_if(same, lambda: then(bound))
            return
        self.lines.add(f"{self.names.of(var)} = {code}")
        if word.present != ALWAYS:
            self.scalars.note_absent(var)
        then(bound | {var})

    # Atoms

    def _atom(self, atoms: list[View], bound: Bound, numbers: list[Product], done: Done) -> None:
        atom = atoms[0]
        layout = self.layouts[atom.name]
        if not layout.arity:
            self._loaded(atoms, layout, "0", bound, numbers, done)
        elif (atom.name, atom.args) in self._visited:
            self._loaded(atoms, layout, self._visited[atom.name, atom.args], bound, numbers, done)
        elif all(arg in bound for arg in atom.args):
            if len({each.field for each in atoms}) == 1 and layout.kind(atom.field) == "count":
                self._counted(atoms, layout, bound, numbers, done)
                return
            slot = self._lookup(atom)
            self.write_if(f"{slot} >= 0", lambda: self._loaded(atoms, layout, slot, bound, numbers, done))
        else:
            self._loop(atoms, layout, bound, numbers, done)

    def _counted(self, atoms: list[View], layout: Layout, bound: Bound, numbers: list[Product], done: Done) -> None:
        """A look-up of one count, 0 if there is no row: less code than that of other payloads."""
        atom, name = atoms[0], self.names.store(atoms[0].name)
        key = tuple_code([self.names.key_word(arg) for arg in atom.args])
        word = self.lines.fresh("w")
        self.lines.add(f"{word} = count_of({name}_pool, {name}_index, {key}, np.int64({layout.offset(atom.field)}))")
        products = [number.times(Part("count", (word,))) for number in numbers]
        self.write_if(f"{word} != 0", lambda: done(products, bound))

    def _lookup(self, atom: View) -> str:
        key = tuple(self.names.key_word(arg) for arg in atom.args)
        slot = self.lines.fresh("s")
        name = self.names.store(atom.name)
        self.lines.add(f"{slot} = find({name}_pool, {name}_index, {tuple_code(key)})")
        return slot

    def _loop(self, atoms: list[View], layout: Layout, bound: Bound, numbers: list[Product], done: Done) -> None:
        atom, name = atoms[0], self.names.store(atoms[0].name)
        positions = tuple(i for i, arg in enumerate(atom.args) if arg in bound)
        slot, depth = self.lines.fresh("s"), self.lines.depth
        if positions:
            j = self.requests.slice(atom.name, positions)
            self.loops.append(f"{name}_meta[{_plus('LONGEST_CHAIN', j)}]")
            follower = self.lines.fresh("t")
            self.lines.add(f"{follower} = {self._head(atom, positions, j)}")
            self.lines.open(f"while {follower} >= 0")
            self.lines.add(f"{slot} = {follower}")
            self.lines.add(f"{follower} = np.int64({name}_links{j}[{slot}, NEXT])")
        else:
            self.loops.append(f"{name}_meta[ALIVE]")
            self.lines.open(f"for {slot} in range({name}_meta[SIZE])")
            self.lines.open(f"if {name}_live[{slot}]")
        self.visit(atoms, slot, positions, bound, numbers, done)
        self.loops.pop()
        self.lines.close_to(depth)

    def visit(
        self, atoms: list[View], slot: str, known: Sequence[int], bound: Bound, numbers: list[Product], done: Done
    ) -> None:
        """One row of a loop: binds its key, of which the words at the positions `known` are as they should be."""
        atom, name, now = atoms[0], self.names.store(atoms[0].name), bound
        conditions = []
        for i, arg in enumerate(atom.args):
            word = f"{name}_pool[{slot}, {i}]"
            if arg in now and i not in known:
                conditions.append(f"{self.names.key_word(arg)} == {word}")
            elif arg not in now:
                code = f"double_of({word})" if arg.type.is_float else word
                self.lines.add(f"{self.names.of(arg)} = {code}")
                if arg.type.kind is Kind.VARCHAR:  # its word is a place in tables, and NULL is outside of them
                    self.scalars.note_absent(arg)
                now |= {arg}
        layout, row = self.layouts[atom.name], (atom.name, atom.args)
        if self.changes_nothing:
            self._visited[row] = slot
        self.write_if(" and ".join(conditions) or ALWAYS, lambda: self._loaded(atoms, layout, slot, now, numbers, done))
        self._visited.pop(row, None)

    def chain(self, atom: View, positions: tuple[int, ...]) -> str:
        """Code for the links of the rows with the bound part of a key, and the first of them."""
        name, j = self.names.store(atom.name), self.requests.slice(atom.name, positions)
        return f"{name}_links{j}, {self._head(atom, positions, j)}"

    def _head(self, atom: View, positions: tuple[int, ...], j: int) -> str:
        """Code for the first row with the bound part of a key, in slice j."""
        name = self.names.store(atom.name)
        part = tuple_code([self.names.key_word(atom.args[i]) for i in positions])
        return f"find_head({name}_pool, {name}_heads{j}, {name}_slice{j}, {part})"

    def _loaded(
        self, atoms: list[View], layout: Layout, slot: str, bound: Bound, numbers: list[Product], done: Done
    ) -> None:
        """Reads the fields wanted of one row."""
        loads: dict[str, Part] = {}
        for atom in atoms:
            if atom.field not in loads:
                loads[atom.field] = self._load(atom, layout, slot)
        products = [n.times(loads[atom.field]) for n, atom in zip(numbers, atoms, strict=True)]
        words = [word for part in loads.values() for word in part.code]
        present = ALWAYS if layout.arity and layout.kinds == ("count",) else nonzero(tuple(words))  # 0 has no row
        self.write_if(present, lambda: done(products, bound))

    def _load(self, atom: View, layout: Layout, slot: str) -> Part:
        name, at, kind = self.names.store(atom.name), layout.offset(atom.field), layout.kind(atom.field)
        array = f"{name}_floats" if kind == "double" else f"{name}_pool"
        words = tuple(self.lines.fresh("w") for _ in range(1 if kind == "count" else 2))
        for i, word in enumerate(words):
            self.lines.add(f"{word} = {array}[{slot}, {at + i}]")
        return Part(kind, words)

    # Nested aggregates

    def kind_of(self, expr: Expr) -> str:
        """The kind of number an expression denotes."""
        match expr:
            case View(name, field, _):
                return self.layouts[name].kind(field)
            case Value(Const(value, _)) if isinstance(value, int):
                return "count"
            case Value(scalar) if scalar == MULTIPLICITY:
                return "count"
            case Value(scalar):
                return "double" if scalar.type.is_float else "wide"
            case Mul(parts) | Add(parts):
                return max((self.kind_of(part) for part in parts), key=RANK.__getitem__)
            case Neg(body) | Sum(_, body):
                return self.kind_of(body)
            case _:
                return "count"

    def _subtotal(self, bodies: list[Expr], bound: Bound, numbers: list[Product], done: Done) -> None:
        kinds = [self.kind_of(body) for body in bodies]
        sums = [self.numbers.start(kind) for kind in kinds]

        def add_up(products: list[Product], now: Bound) -> None:
            for total, product, kind in zip(sums, products, kinds, strict=True):
                self.numbers.accumulate(total, product, kind)

        depth = self.lines.depth
        self.write(bodies, bound, [Product() for _ in bodies], add_up, frozenset())
        self.lines.close_to(depth)
        parts = [Part(kind, words) for kind, words in zip(kinds, sums, strict=True)]
        words = tuple(word for part in parts for word in part.code)
        self.write_if(
            nonzero(words), lambda: done([n.times(part) for n, part in zip(numbers, parts, strict=True)], bound)
        )

    def _sum_of(self, body: Expr, bound: Bound) -> tuple[tuple[str, ...], str]:
        """The words and the kind of a sum."""
        kind = self.kind_of(body)
        if self.functions is not None and (words := self.functions.sum_of(self, body, bound)) is not None:
            return words, kind
        return self.write_sum(body, bound), kind

    def write_sum(self, body: Expr, bound: Bound) -> tuple[str, ...]:
        kind = self.kind_of(body)
        total = self.numbers.start(kind)
        depth = self.lines.depth
        self.write([body], bound, [Product()], lambda ps, now: self.numbers.accumulate(total, ps[0], kind), frozenset())
        self.lines.close_to(depth)
        return total

    def _total(self, var: Var, body: Expr, bound: Bound) -> Word:
        total, kind = self._sum_of(body, bound - {var})
        if var.type.is_float:
            if kind == "double":
                value = self.lines.fresh("r")
                self.lines.add(f"{value} = {total[0]} + {total[1]}")
                self.lines.add(f"if not (abs({value}) <= 1.7976931348623157e308):")
                self.lines.add("    control[FAILURE] = OVERFLOW")
                return Word(value, ALWAYS, True)
            raise NotCompilable("an exact sum lifted to a double")
        if kind == "count":
            return Word(total[0], ALWAYS, False)
        if kind == "double":
            raise NotCompilable("a double sum lifted to an exact type")
        return Word(self.numbers.narrow(total, var.type), ALWAYS, False)

    def _exists(self, body: Expr, bound: Bound, then: Callable[[Bound], None]) -> None:
        if outputs(body) <= bound:
            total, _ = self._sum_of(body, bound)
            self.write_if(nonzero(total), lambda: then(bound))
            return
        if isinstance(body, View):  # its keys are distinct already
            self._atom([body], bound, [Product()], lambda products, now: then(now))
            return
        fresh = tuple(sorted(outputs(body) - bound, key=lambda key: key.name))
        self._grouped(fresh, body, bound, lambda load: then(bound | frozenset(fresh)))

    def _grouped(self, keys: tuple[Var, ...], body: Expr, bound: Bound, then: Callable[[Load], None]) -> None:
        """Adds up the body per key in a scratch store, then visits the keys whose number is not 0; it can be read."""
        filled = None if self.functions is None else self.functions.groups_of(self, keys, body, bound)
        if filled is None:
            layout = self.write_groups(keys, body, bound)
            rows = self.room.get(self.names.store(layout.name), ["0"])
        else:
            keys, layout, rows = filled
        name, outer, depth = self.names.store(layout.name), self.loops, self.lines.depth
        self.loops = [*outer, " + ".join(rows)]
        self.visited_scratches.append(layout.name)
        slot = self.lines.fresh("s")
        self.lines.open(f"for {slot} in range({name}_meta[SIZE])")
        self.lines.open(f"if {name}_live[{slot}]")
        for i, var in enumerate(keys):
            word = f"{name}_pool[{slot}, {i}]"
            self.lines.add(f"{self.names.of(var)} = " + (f"double_of({word})" if var.type.is_float else word))
        then(lambda: self._load(View(layout.name, "number", keys), layout, slot))
        self.visited_scratches.pop()
        self.loops = outer
        self.lines.close_to(depth)

    def write_groups(self, keys: tuple[Var, ...], body: Expr, bound: Bound) -> Layout:
        """Adds up the body per key in a scratch store."""
        layout = self.requests.scratch(len(keys), self.kind_of(body))
        name = self.names.store(layout.name)
        self.lines.add(f"clear({name}_pool, {name}_index, {name}_meta, {name}_live, {name}_arity)")
        outer, self.loops = self.loops, []
        self._outside += len(outer)

        def gather(products: list[Product], now: Bound) -> None:
            self.add_to(layout, [self.names.key_word(var) for var in keys], layout.fields, products)

        depth = self.lines.depth
        self.write([body], bound, [Product()], gather, frozenset(keys))
        self.lines.close_to(depth)
        self._outside -= len(outer)
        self.loops = outer
        return layout

    def add_to(self, layout: Layout, key: Sequence[str], fields: Sequence[str], products: Sequence[Product]) -> None:
        """Adds numbers to fields of the row with this key, making or removing the row as needed."""
        name, lines = self.names.store(layout.name), self.lines
        words = [self.numbers.evaluate(p, layout.kind(f)) for f, p in zip(fields, products, strict=True)]
        slot, depth = "0", lines.depth
        if layout.arity:
            self.note_room(name)
            if layout.kinds == ("count",):
                for count, *_ in words:  # of terms of one shape, each of which adds to the count
                    lines.add(f"{ADD_COUNT}({name}, {count}, {tuple_code(key)})")
                return
            slot = lines.fresh("s")
            lines.add(f"{slot} = enter(state, {name}_at, {name}_width, {tuple_code(key)})")
            lines.add(f"if {slot} < 0:")
            lines.add("    control[FULL] = 1")
            lines.open("else")
        lines.add(f"{TOUCH}({name}, {slot})")
        for field, number in zip(fields, words, strict=True):
            add_field(lines, layout, name, slot, field, number)
        if layout.arity:
            lines.open(f"if {vanishes(layout, name, slot)}")
            lines.add(f"{WITHDRAW}({name}, {slot})")
            lines.add(f"leave(state, {name}_at, {name}_width, {name}_arity, {slot})")
            lines.close_to(depth + 1)
            lines.open("else")
            lines.add(f"{ARRANGE}({name}, {slot})")
        lines.close_to(depth)

    def note_room(self, store: str) -> None:
        """Remembers that a row may be added here to a store, in the loops now open."""
        self.room.setdefault(store, []).append(" * ".join(f"({loop})" for loop in self.loops) or "1")

    def _extreme(self, which: Extreme, of: Var, body: Expr, bound: Bound) -> Word:
        if of not in outputs(body):  # nothing is ever found
            return Word("0.0" if of.type.is_float else "0", NEVER, of.type.is_float)
        if self.functions is not None and (word := self.functions.extreme_of(self, which, of, body, bound)) is not None:
            return word
        return self.write_extreme(which, of, body, bound)

    def write_extreme(self, which: Extreme, of: Var, body: Expr, bound: Bound) -> Word:
        best, found = self.lines.fresh("m"), self.lines.fresh("b")
        self.lines.add(f"{best} = {'0.0' if of.type.is_float else 'NULL'}")
        self.lines.add(f"{found} = False")
        value = self.names.of(of)
        is_least = which is Extreme.MIN
        better = f"{value} {'<' if is_least else '>'} {best}"
        if of.type.kind is Kind.VARCHAR:
            better = self.scalars.is_before(*((value, best) if is_least else (best, value)))

        def compare() -> None:
            self.lines.add(f"if not {found} or {better}:")
            self.lines.add(f"    {best} = {value}")
            self.lines.add(f"    {found} = True")

        depth = self.lines.depth
        if (is_ready := self.range_scans.extreme(which, of, body, bound - {of}, best, found)) is not None:
            self.lines.open(f"if not {is_ready}")
        if isinstance(body, View):
            self.write([body], bound - {of}, [Product()], lambda products, now: compare())
        else:
            self._grouped((of,), body, bound - {of}, lambda load: compare())
        self.lines.close_to(depth)
        return Word(best, found, of.type.is_float)


def tuple_code(words: Sequence[str]) -> str:
    return "(" + ", ".join(words) + ("," if len(words) == 1 else "") + ")"


def _plus(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def _terms(expr: Expr) -> tuple[Expr, ...]:
    assert isinstance(expr, Add)
    return expr.terms


def _first(factors: Sequence[Expr]) -> Expr:
    return factors[0]


def _body(expr: Expr) -> Expr:
    assert isinstance(expr, Neg | Sum)
    return expr.body
