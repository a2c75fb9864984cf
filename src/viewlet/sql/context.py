"""What the translation of one query carries along: its text, the catalogue, fresh names, and the way back in.

Scalars contain subqueries and subqueries contain scalars; `translate` ties the knot without a circle of imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.algebra.nodes import Expr, Lift, Scalar, Value, Var, mul, sum_over
from viewlet.algebra.traverse import Names
from viewlet.sql.layers import Operands
from viewlet.sql.scope import Relation, Scope
from viewlet.sql.source import Source
from viewlet.types import COUNT, SqlType, Table

if TYPE_CHECKING:
    from viewlet.aggregates import Aggregate


@dataclass(slots=True)
class Context:
    source: Source
    catalog: Mapping[str, Table]
    translate: Callable[[exp.Expr, Scope, Context], Relation]
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    """Those that users defined."""
    names: Names = field(default_factory=Names)
    tables_read: set[str] = field(default_factory=set)
    operands: Operands = field(default_factory=Operands)
    """Those of outer joins and set operations that are written several times."""

    def fresh(self, name: str, type: SqlType) -> Var:
        return Var(self.names.name(name), type)

    def free_name(self, name: str) -> str:
        """A name that no table has."""
        while name in self.catalog:
            name += "_"
        return name

    def shared(self, factors: tuple[Expr, ...], columns: tuple[Var, ...]) -> tuple[Expr, ...]:
        """Factors with these columns to be written several times: themselves, or the atom of a layer."""
        return self.operands.shared(factors, columns, self.free_name(f"joined{len(self.operands.found) + 1}"))

    def query(self, node: exp.Expr, scope: Scope) -> Relation:
        """Translates a query nested in `scope`."""
        return self.translate(node, scope, self)

    def count(self, name: str, *factors: Expr) -> tuple[Var, Expr]:
        """A variable for the number of rows of a product, and the lift that binds it."""
        return self.total(name, COUNT, *factors)

    def total(self, name: str, type: SqlType, *factors: Expr) -> tuple[Var, Lift]:
        var = self.fresh(name, type)
        return var, Lift(var, sum_over((), mul(*factors)))

    def bind(self, name: str, scalar: Scalar) -> tuple[Var, Expr]:
        """A variable for the value of a scalar, and the lift that binds it."""
        var = self.fresh(name, scalar.type)
        return var, Lift(var, Value(scalar))
