"""What the stored views of a unit are for another query than its own: where that is read, and how it is partitioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.algebra.nodes import View
from viewlet.algebra.traverse import walk
from viewlet.spark.plan.partitioning import result_partitioning
from viewlet.spark.plan.result_location import ResultLocation, result_location
from viewlet.spark.run.units.unit import ProgramUnit
from viewlet.triggers.program import Program


@dataclass(frozen=True, slots=True)
class UnitReading:
    """A unit, and its program with the query and the result of another view."""

    unit: ProgramUnit
    program: Program

    @property
    def location(self) -> ResultLocation:
        """Where the rows are computed."""
        return result_location(self.program, self.unit.locations)

    def is_partitioned_like(self, columns: Sequence[str], own: Sequence[str]) -> bool:
        """PARTITION BY some columns asks for the same as PARTITION BY some columns of the unit's own query."""
        return self._wanted(self.program, columns) == self._wanted(self.unit.program, own)

    def own_columns(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """The columns of the unit's own query that ask for the same as these; None if it does not show them."""
        wanted, own = self._wanted(self.program, columns), self.unit.program
        shown = {column.var: column.name for column in own.query.columns}
        for node in walk(own.result):
            if isinstance(node, View) and node.name in wanted:
                variables = dict(zip((key.name for key in own.view(node.name).keys), node.args, strict=True))
                found = tuple(shown.get(variables[name], "") for name in wanted[node.name])
                if all(found) and self.is_partitioned_like(columns, found):
                    return found
        return None

    def _wanted(self, program: Program, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What PARTITION BY says of the stored views."""
        stored = self.unit.locations
        return {name: by for name, by in result_partitioning(program, columns).items() if name in stored}
