"""User-defined aggregates: the contract of the classes that users write, and how the engine calls them."""

from __future__ import annotations

from viewlet.aggregates.aggregate import Aggregate
from viewlet.aggregates.definition import define_aggregate

__all__ = ["Aggregate", "define_aggregate"]
