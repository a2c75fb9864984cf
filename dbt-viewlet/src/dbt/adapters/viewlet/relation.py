"""Where a relation of dbt is in a database without schemas.

schema main,  identifier orders        orders
schema marts, identifier orders        marts__orders
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.base.column import Column
from dbt.adapters.base.relation import BaseRelation

MAIN = "main"
"""The schema whose relations have no prefix."""


def prefix_of(schema: str | None) -> str:
    """What the names of the relations of a schema begin with."""
    return "" if schema is None or schema == MAIN else f"{schema}__"


@dataclass(frozen=True, eq=False, repr=False)
class ViewletRelation(BaseRelation):
    """A table or a view, whose name begins with its schema."""

    require_alias: bool = False

    @property
    def stored_name(self) -> str:
        """The name of the table or view in Viewlet."""
        return prefix_of(self.schema) + (self.identifier or "")

    def render(self) -> str:
        if self.identifier is None:
            return self.quoted(self.schema or MAIN)
        name = self.stored_name
        return self.quoted(name) if self.quote_policy.identifier else name

    def render_limited(self) -> str:
        """The relation without rows for `--empty`: views have no LIMIT in subqueries."""
        if self.limit == 0:
            return f"(select * from {self.render()} where false){self._render_limited_alias()}"
        return super().render_limited()

    def quoted(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'


@dataclass
class ViewletColumn(Column):
    """A column; VARCHAR without a length holds any string."""

    TYPE_LABELS = {"STRING": "VARCHAR", "TEXT": "VARCHAR", "FLOAT": "DOUBLE"}  # noqa: RUF012

    def can_expand_to(self, other_column: Column) -> bool:
        return self.is_string() and other_column.is_string() and self.char_size is not None

    def is_string(self) -> bool:
        return self.dtype.upper().startswith(("VARCHAR", "TEXT", "CHAR"))

    def is_float(self) -> bool:
        return self.dtype.upper() in ("REAL", "DOUBLE", "FLOAT")

    def is_integer(self) -> bool:
        return self.dtype.upper() in ("SMALLINT", "INTEGER", "BIGINT")

    def is_numeric(self) -> bool:
        return self.dtype.upper().startswith(("DECIMAL", "NUMERIC"))

    @property
    def data_type(self) -> str:
        return self.dtype
