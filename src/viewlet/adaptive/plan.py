"""The plan of an adaptive view: the triangle query, how rows of tables become changes of its relations, and the rest
of the query as a trigger program over the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Generic, TypeVar

from viewlet.adaptive.vertices import compile_variable, unpack
from viewlet.algebra.functions import compile_scalar
from viewlet.algebra.nodes import Scalar
from viewlet.algebra.printer import show_scalar
from viewlet.algebra.split_query import SplitQuery
from viewlet.algebra.triangle_query import Shown, Side, TriangleQuery
from viewlet.rings import INTEGER_RING, ProductRing
from viewlet.rings.ring import Ring
from viewlet.triggers.program import Program
from viewlet.types import Row

VARIABLES = "ABCD"
"""The last one is what all variables share, where it is a key."""
RELATIONS = "RST"
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class SideReader:
    """How the rows of a table become tuples of one relation of the triangle."""

    relation: int
    side: Side

    def changes(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, Numbers]:
        """Tuples, and what they carry, with the numbers that rows with multiplicities add; zeros are left out."""
        found: dict[Row, Numbers] = {}
        read = self._read
        for row, multiplicity in rows:
            if (known := read(row)) is None:
                continue
            pair, numbers = known
            added = tuple([multiplicity * number for number in numbers])
            held = found.get(pair)
            found[pair] = added if held is None else tuple(map(int.__add__, held, added))
        return {pair: numbers for pair, numbers in found.items() if any(numbers)}

    def tuples(self, rows: Iterable[tuple[Row, int]]) -> dict[Row, int]:
        """Rows with their counts: the two values, then the numbers of a row, without the first, which is 1."""
        found: dict[Row, int] = {}
        for row, multiplicity in rows:
            if (known := self._read(row)) is not None:
                key = (*known[0], *known[1][1:])
                found[key] = found.get(key, 0) + multiplicity
        return {key: count for key, count in found.items() if count}

    @cached_property
    def _read(self) -> Callable[[Row], tuple[Row, Numbers] | None]:
        """The tuple of a row and its numbers; None where a condition or a NULL leaves it out."""
        names = [column.name for column in self.side.columns]
        conditions = [compile_scalar(condition) for condition in self.side.conditions]
        variables = [compile_variable(variable) for variable in self.side.variables]
        carried = [compile_scalar(column) for column in self.side.carried]
        factors = [[compile_scalar(factor) for factor in number] for number in self.side.numbers]

        def read(row: Row) -> tuple[Row, Numbers] | None:
            environment = dict(zip(names, row, strict=True))
            for holds in conditions:
                if holds(environment) is not True:
                    return None
            values = tuple([variable(environment) for variable in variables])
            if None in values:
                return None
            if carried:
                values += tuple([column(environment) for column in carried])
            numbers = tuple([prod([factor(environment) or 0 for factor in number]) for number in factors])
            return values, numbers

        return read


Q = TypeVar("Q", TriangleQuery, SplitQuery)


@dataclass(frozen=True)
class JoinPlan(Generic[Q]):
    """What the engines of an adaptive view run."""

    query: Q
    result: Program
    strategy = "adaptive"

    def __getstate__(self) -> dict[str, object]:
        return {"query": self.query, "result": self.result}  # readers have compiled functions

    @cached_property
    def readers(self) -> Mapping[str, tuple[SideReader, ...]]:
        """The relations that each table stands for."""
        found: dict[str, list[SideReader]] = {}
        for i, side in enumerate(self.query.sides):
            found.setdefault(side.table, []).append(SideReader(i, side))
        return {table: tuple(readers) for table, readers in found.items()}

    @cached_property
    def ring(self) -> Ring[Any]:
        """The numbers of a tuple, of a path or of a group: integers, multiplied place by place."""
        return INTEGER_RING if self.query.width == 1 else ProductRing((INTEGER_RING,) * self.query.width)

    def payload(self, numbers: Numbers) -> Any:
        """Numbers as an element of the ring."""
        return numbers[0] if self.query.width == 1 else numbers

    def numbers(self, payload: Any) -> Numbers:
        return (payload,) if self.query.width == 1 else payload

    def row(self, key: Row, numbers: Numbers) -> Row | None:
        """The row of a group in the table of groups, None if there is no such group."""
        if self.query.grouped and not numbers[0]:
            return None
        return (*self._columns(key), *(_shown(numbers, place) for place in self.query.shown))

    def _columns(self, key: Row) -> Row:
        """The columns that the values of a key stand for."""
        if not self.query.places:
            return key
        values = {at: unpack(key[at]) for at, place in self.query.places if place is not None}
        return tuple([key[at] if place is None else values[at][place] for at, place in self.query.places])

    @property
    def digest(self) -> str:
        """Plans with the same text keep the same state."""
        carried = [side.carried for side in self.query.sides if side.carried]
        return f"{self.query!r}{carried or ''}"


AdaptivePlan = JoinPlan[TriangleQuery]
"""The plan of a view over triangles."""
SplitPlan = JoinPlan[SplitQuery]
"""The plan of a view over a join of four tables."""


def _shown(numbers: Numbers, place: Shown) -> int:
    """What a column shows of the numbers of a group."""
    return numbers[place] if isinstance(place, int) else sum([sign * numbers[at] for sign, at in place])


def show_triangle(query: TriangleQuery) -> str:
    """The relations of the triangle, what it is grouped by, and the numbers of a group.

    R(a, b) of follows, heavy from |R|^0.5 tuples of a value on
    """
    lines = [f"chosen by auto: {query.reason}"] if query.reason else []
    if query.chooses:
        lines.append("epsilon = 'auto': at first 0.5, then chosen from the degrees at every major rebalancing")
    for i, side in enumerate(query.sides):
        first, second = VARIABLES[i], VARIABLES[(i + 1) % 3]
        told = f"{first} = {show_scalar(side.variables[0])}, {second} = {show_scalar(side.variables[1])}"
        where = " and ".join(map(show_scalar, side.conditions))
        lines.append(f"{RELATIONS[i]}({first}, {second}) = {side.table}: {told}" + (f" where {where}" if where else ""))
        epsilon = query.epsilons[i]
        power = "epsilon" if query.chooses else f"{epsilon:g}"
        lines.append(f"    light below N^{power} tuples for a value of {first}, heavy from there on")
        if query.linear:
            power = "max(epsilon, 1 - epsilon)" if query.chooses else f"{max(epsilon, 1 - epsilon):g}"
            bound = f"N^{power} tuples for a value of {second}"
            lines.append(f"    sparse where {first} is light and there are fewer than {bound}")
    keys = ", ".join(VARIABLES[key] for key in query.keys)
    for number in range(query.width):
        factors = [_product(side.numbers[number]) for side in query.sides]
        shown = " * ".join(each for each in factors if each) or "1"
        lines.append(f"Q{number}[{keys}] = sum of {shown} over the triangles R(A, B) * S(B, C) * T(C, A)")
    for i in range(3):
        first, middle, last = (VARIABLES[(i + j) % 3] for j in range(3))
        left, right = RELATIONS[i], RELATIONS[(i + 1) % 3]
        kept = f", with every {middle}" if (i + 1) % 3 in query.keys else ""
        lines.append(
            f"V_{left}{right}[{first}, {last}] = sum over {middle} of {left}_heavy({first}, {middle}) * "
            f"{right}_light({middle}, {last}){kept}"
        )
    return "\n".join(lines)


def _product(factors: tuple[Scalar, ...]) -> str:
    return " * ".join(map(show_scalar, factors))
