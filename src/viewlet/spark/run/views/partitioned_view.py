"""Views that run a local engine in every partition, as engines (`engine/contract.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viewlet.spark.run.units.partitioned_unit import PartitionedUnit
from viewlet.spark.run.views.unit_view import UnitView


class PartitionedView(UnitView):
    """Reads a partitioned unit, as the engine of a view (`engine/contract.py`)."""

    @property
    def unit(self) -> PartitionedUnit:
        found: PartitionedUnit = super().unit
        return found

    def stages(self, format: str) -> Mapping[str, Callable[[], str]]:
        """By what rows are sent to partitions."""
        locations = self.unit.locations.items()
        lines = ["every partition has its own engine", *(f"{name}: {location}" for name, location in locations)]
        return {"spark": lambda: "\n".join(lines)}


class ColumnView(PartitionedView):
    """One whose engines list their rows as Arrow."""

    def arrow(self) -> Any:
        return self._cluster.arrow(self.key)

    def count(self) -> int:
        return self._cluster.count(self.key)
