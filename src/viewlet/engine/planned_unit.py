"""Units of a Spark cluster with what they are planned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewlet.engine.catalogue_json import Json
from viewlet.engine.declaration import MERGED, Declaration, declaration_to_json
from viewlet.engine.kind import Hints

if TYPE_CHECKING:
    from viewlet.spark.run.units.unit import Unit


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A unit, what it is planned from, and what the user had said then or has turned out since."""

    declared: Declaration
    """That of its own query, which gives it its name."""
    unit: Unit
    hints: Hints
    merged: tuple[Declaration, ...] = ()
    """Those of other queries whose programs are parts of its own (`unit_merging`)."""

    @property
    def members(self) -> tuple[Declaration, ...]:
        return (self.declared, *self.merged)

    def facts(self, with_merged: bool) -> Json:
        """What the catalogue notes of it, for one of its views with all that it was merged from."""
        by = {name: list(keys) for name, keys in self.hints.partition_by.items()}
        said = {"rows": dict(self.hints.rows), "partition_by": by}
        merged = {MERGED: [declaration_to_json(each) for each in self.merged]} if with_merged and self.merged else {}
        return {"digest": self.unit.digest, **self.unit.facts, **said, **merged}
