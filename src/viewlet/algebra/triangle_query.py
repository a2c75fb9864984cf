"""Queries over the triangles of three relations: the queries of adaptive views.

    SELECT r.a, COUNT(*), SUM(s.w) FROM r, s, t WHERE r.b = s.b AND s.c = t.c AND t.a = r.a GROUP BY r.a

    r(a, b)   s(b, c) with the number w   t(c, a)       groups by a, numbers 1 and w       result over (a, count, sum)

    query    ::= relation, relation, relation ; key, ... ; result over table
    relation ::= table(column, ...) as (scalar, scalar) where scalar and ... , with numbers

Relation i has the variables i and i + 1, modulo 3. A variable that stands for several columns is one packed value; one
that stands for none, as at the ends of a path, is a constant. Columns that all three tables share are part of every
variable: triangles for each value of d are those over (a, d), (b, d) and (c, d). With that, each join of three tables
is a triangle, even a star, whose variables are all the same.

A number of the query is the sum, over all triangles of a group, of the product of one number of each relation; number 0
counts triangles. `table` has a row for every group, its keys and its numbers, and the result is the rest of the query
over these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.algebra.nodes import Call, Const, Scalar, Var
from viewlet.algebra.query import Query
from viewlet.algebra.traverse import substitute_scalar
from viewlet.types import COUNT, VARCHAR, SqlType, Table

PARTS = ("heavy", "light", "sparse")
"""What a relation is divided into; the last one is there only in linear space."""
Number = tuple[tuple[Scalar, ...], ...]
"""What is added up: for each relation the factors of a product."""
Shown = int | tuple[tuple[int, int], ...]
"""A number, or what it is added up from: signs, and numbers."""
PACK = "pack"
"""The operator of a variable that stands for several columns; only relations of triangles have it."""
SHARED = 3
"""The number of what all three variables share, among the keys of a query."""


def packed(scalars: tuple[Scalar, ...]) -> Scalar:
    """One variable for some columns: for none of them it is a constant."""
    if not scalars:
        return Const(0, COUNT)
    return scalars[0] if len(scalars) == 1 else Call(PACK, scalars, VARCHAR)


def unpacked(variable: Scalar) -> tuple[Scalar, ...]:
    """The columns that a variable stands for."""
    match variable:
        case Const():
            return ()
        case Call(op, args, _) if op == PACK:
            return args
        case _:
            return (variable,)


@dataclass(frozen=True, slots=True)
class Side:
    """One occurrence of a table in a triangle: its two variables, as scalars over the columns of a row.

    A row where a variable is NULL, or a condition is not true, joins with nothing. Each of `numbers` is a product of
    scalars, in which NULL counts as 0.
    """

    table: str
    columns: tuple[Var, ...]
    variables: tuple[Scalar, ...]
    conditions: tuple[Scalar, ...] = ()
    numbers: tuple[tuple[Scalar, ...], ...] = ((),)
    carried: tuple[Scalar, ...] = field(default=(), repr=False)
    """Other columns that the query is grouped by: tuples carry relations over these instead of numbers."""

    def same_tuples(self, other: Side) -> bool:
        """Both have the same tuples with the same numbers, whatever their columns are called."""
        mapping: dict[Var, Scalar] = dict(zip(other.columns, self.columns, strict=False))
        return (
            self.table == other.table
            and self.variables == tuple(substitute_scalar(each, mapping) for each in other.variables)
            and self.conditions == tuple(substitute_scalar(each, mapping) for each in other.conditions)
            and self.numbers == tuple(tuple(substitute_scalar(f, mapping) for f in n) for n in other.numbers)
        )


@dataclass(frozen=True, slots=True)
class TriangleQuery:
    """What an adaptive view keeps. `keys` are the variables that it is grouped by, in the order of the columns.

    Without GROUP BY (`grouped` is false) there is always one group. `shown` are the numbers behind the other columns.
    """

    sides: tuple[Side, Side, Side]
    keys: tuple[int, ...]
    grouped: bool
    shown: tuple[Shown, ...]
    table: Table
    result: Query
    epsilons: tuple[float, float, float] = (0.5, 0.5, 0.5)
    linear: bool = field(default=True, repr=False)
    """Whether the auxiliary views are to take linear space; a saved state can be continued either way."""

    rebalance_steps: int = field(default=0, repr=False)
    """How many steps of rebalancing the compiled form does after one update; 0 is all there are to do."""

    chooses: bool = field(default=False, repr=False)
    """Whether `epsilons` are only those at first, and others are chosen at major rebalancings."""

    memory: int | None = field(default=None, repr=False)
    """Bytes that the views may take where `epsilons` are chosen."""

    reason: str = field(default="", repr=False)
    """Why `auto` has chosen adaptive maintenance, if it has."""

    @property
    def part_names(self) -> tuple[str, ...]:
        """What the parts of a relation are called."""
        return PARTS if self.linear else PARTS[:2]

    places: tuple[tuple[int, int | None], ...] = field(default=(), repr=False)
    """Where the first columns of the table come from, if not from the keys one by one: a key, and a column of it."""

    carried: tuple[int, ...] = field(default=(), repr=False)
    """The relations of the other columns that it is grouped by, which follow the keys."""

    shared: int = field(default=0, repr=False)
    """How many columns all three tables share; they are the last ones of every variable."""

    @property
    def is_triangle(self) -> bool:
        """Each two of its tables share one column, and no column is shared by all: it is no path, star or product."""
        return not self.shared and all(len(unpacked(each)) == 1 for side in self.sides for each in side.variables)

    @property
    def key_columns(self) -> int:
        """How many columns of the table of groups are those of its keys."""
        return len(self.places) if self.places else len(self.keys)

    def key_type(self, key: int) -> SqlType:
        """The type of a key of the groups."""
        if self.keys[key] < SHARED:
            return self.variable_type(self.keys[key])
        return packed(unpacked(self.sides[0].variables[0])[-self.shared :]).type

    @property
    def counts_cycles(self) -> bool:
        """All it does is count the directed triangles of one relation: it keeps one copy of three."""
        first, *others = self.sides
        return not self.keys and self.width == 1 and all(first.same_tuples(each) for each in others)

    def variable_type(self, variable: int) -> SqlType:
        """The type of the values of a variable."""
        return self.sides[variable].variables[0].type

    @property
    def width(self) -> int:
        """How many numbers there are."""
        return len(self.sides[0].numbers)
