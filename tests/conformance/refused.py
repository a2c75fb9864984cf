"""What engines refuse: by engine and program, the views and a part of the reason they give.

A view that is listed must be refused, and one that is not listed must not: the list is exact.
"""

from __future__ import annotations

from tests.conformance.adapters import ENGINES, Partitions
from tests.conformance.programs import PROGRAMS

REFUSED: dict[tuple[str, str], dict[str, str]] = {
    (engine.name, "triangles"): {view.name: "an adaptive view on Spark" for view in PROGRAMS["triangles"].views}
    for engine in ENGINES
    if isinstance(engine, Partitions)
}
