"""The programs of the conformance suite. To add one, make a `Program` in a module of its kind and list it here."""

from __future__ import annotations

from tests.conformance.program import Program
from tests.conformance.programs import aggregates, benchmarks, constants, edges, rings, small, triangles, typed

PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        small.program(),
        constants.program(),
        *edges.programs(),
        *typed.programs(),
        *aggregates.programs(),
        *rings.programs(),
        *triangles.programs(),
        *benchmarks.programs(),
    )
}
