"""The plan of a view with user-defined aggregates: a trigger program for each of its queries."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.aggregate_query import AggregateQuery
from viewlet.triggers.program import Program

VALUES, GROUPS, RESULT = "values", "groups", "result"


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """What the parts of the engine run."""

    query: AggregateQuery
    values: Program
    groups: Program | None
    result: Program

    @property
    def strategy(self) -> str:
        return self.values.strategy

    @property
    def programs(self) -> dict[str, Program]:
        """The programs by the name of the part that runs them."""
        found = {VALUES: self.values, GROUPS: self.groups, RESULT: self.result}
        return {name: program for name, program in found.items() if program is not None}
