"""Queries whose answer is a payload of a ring, over one join: the queries of COFACTOR and FACTORIZED views.

    SELECT city, COFACTOR(units, price) FROM sales NATURAL JOIN shops NATURAL JOIN items GROUP BY city

    sales(shop, item, units)   shops(shop, city)   items(item, price)     keys city, payload: sums of units and price

    query    ::= relation, ... ; key, ... ; payload      relations join on the variables they share
    relation ::= name = table(column, ...) as (variable = scalar, ...) where scalar and ...
    payload  ::= cofactor of variables | factorised variables

A relation is a table seen through its variables, each of which is a scalar over the columns of one row. Columns that no
variable and no condition uses are ignored, so rows that differ only in these are one row.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.nodes import Scalar, Var
from viewlet.types import SqlType


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the join in one relation. If it is `required`, a row where it is NULL joins with nothing."""

    name: str
    scalar: Scalar
    required: bool = False


@dataclass(frozen=True, slots=True)
class JoinedRelation:
    """One occurrence of a table in a join: the rows that meet all conditions, through their variables."""

    name: str
    table: str
    columns: tuple[Var, ...]
    variables: tuple[Variable, ...]
    conditions: tuple[Scalar, ...] = ()

    @property
    def schema(self) -> tuple[str, ...]:
        return tuple(variable.name for variable in self.variables)


@dataclass(frozen=True, slots=True)
class Category:
    """A categorical variable, and how its values are shown."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class CofactorPayload:
    """Count, sums and sums of products up to a degree."""

    continuous: tuple[str, ...]
    categorical: tuple[Category, ...] = ()
    degree: int = 2
    exact: bool = False

    def __str__(self) -> str:
        names = [*self.continuous, *(f"categorical {category.name}" for category in self.categorical)]
        return f"cofactor of degree {self.degree} over {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class FactorisedPayload:
    """The rows of the join over some variables, kept in factorised form."""

    variables: tuple[str, ...]

    def __str__(self) -> str:
        return f"factorised over {', '.join(self.variables)}"


@dataclass(frozen=True, slots=True)
class RingQuery:
    """A query over a ring; `order` is the variable order that the user gave, if any.

    `shown` says what each column of a row is: the position of a key or listed variable, or None for the payload.
    """

    relations: tuple[JoinedRelation, ...]
    keys: tuple[str, ...]
    key_types: tuple[SqlType, ...]
    payload: CofactorPayload | FactorisedPayload
    shown: tuple[int | None, ...]
    order: str | None = None

    @property
    def schemas(self) -> dict[str, tuple[str, ...]]:
        """The variables of each relation."""
        return {relation.name: relation.schema for relation in self.relations}
