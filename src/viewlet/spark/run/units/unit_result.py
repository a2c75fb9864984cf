"""The results of a unit: that of its own query, and those of others whose stored views it has.

    unit a: a_items, a_orders, a_total ──┬─► result of a       SELECT customer, SUM(price) ... GROUP BY customer
                                         └─► result of b       the same, HAVING SUM(price) > 100

A result has no state and no stages. It is sent to workers apart from the code of its unit, which stays as it is when
results come and go.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.triggers.program import Program

OWN = ""
"""Stands for the result of a unit's own query."""


@dataclass(frozen=True, slots=True)
class ResultKey:
    """Names a result: the unit, and a digest of what is read of its views."""

    unit: str
    digest: str = OWN


@dataclass(frozen=True)
class ResultCode:
    """A result that is not the unit's own, as sent to workers."""

    key: ResultKey
    program: Program
    """That of the unit, with the query and the result of another."""
