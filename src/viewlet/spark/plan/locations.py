"""Where the contents of an expression are (thesis "Efficient Incremental Data Analysis", M. Nikolic, section 5.2).

    location ::= Local          at the driver
               | Dist(x, ...)   at the worker that the hash of x, ... names
               | Random         anywhere among the workers: what they hold adds up to the contents
               | Replicated     at every worker in full
               | Everywhere     at the workers and the driver: constants, conditions, assignments of scalars

The thesis maps a tuple to a set of workers; we need two of those functions, one worker and all of them, and call the
second Replicated.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.algebra.nodes import Var


@dataclass(frozen=True, slots=True)
class Local:
    def __str__(self) -> str:
        return "local"


@dataclass(frozen=True, slots=True)
class Dist:
    """Partitioned by variables: those of the expression, or the key variables of a view."""

    by: tuple[Var, ...]

    def __str__(self) -> str:
        return f"[{', '.join(var.name for var in self.by)}]"


@dataclass(frozen=True, slots=True)
class Random:
    def __str__(self) -> str:
        return "random"


@dataclass(frozen=True, slots=True)
class Replicated:
    def __str__(self) -> str:
        return "replicated"


@dataclass(frozen=True, slots=True)
class Everywhere:
    def __str__(self) -> str:
        return "everywhere"


LOCAL, RANDOM, REPLICATED, EVERYWHERE = Local(), Random(), Replicated(), Everywhere()

Location = Local | Dist | Random | Replicated | Everywhere
ViewLocation = Local | Dist | Replicated
"""Where a view can live."""
Arrival = Local | Random
"""How the change of a table arrives: collected at the driver, or spread over the workers."""
