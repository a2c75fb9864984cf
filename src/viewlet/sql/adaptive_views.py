"""Adaptive views: queries over the triangles of three tables, `WITH (strategy = 'adaptive', epsilon = 0.5)`.

    SELECT COUNT(*) FROM edges r, edges s, edges t WHERE r.dst = s.src AND s.dst = t.src AND t.dst = r.src

`epsilon` is one exponent for all tables, or one for each in the order of FROM: `epsilon = '0.5, 0, 1'`.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.algebra.query import Query
from viewlet.algebra.recognise_triangle import NotTriangleError, recognise_triangle
from viewlet.algebra.triangle_query import TriangleQuery
from viewlet.sql.source import Source, sql_of

ADAPTIVE = "adaptive"
DEFAULT = (0.5, 0.5, 0.5)


def bind_adaptive(definition: object, epsilon: exp.Expr | None, source: Source) -> TriangleQuery:
    """The triangle of a query; an error names what else the query is."""
    exponents = DEFAULT if epsilon is None else _exponents(epsilon, source)
    try:
        if not isinstance(definition, Query):
            raise NotTriangleError("it calls a user-defined aggregate")
        return recognise_triangle(definition, exponents)
    except NotTriangleError as reason:
        hint = f"{reason}. It maintains sums and counts over the triangles of three tables; leave the strategy out"
        raise source.unsupported("strategy 'adaptive' for this view", None, hint) from None


def _exponents(option: exp.Expr, source: Source) -> tuple[float, float, float]:
    value = option.args["value"]
    text = str(value.name) if isinstance(value, exp.Literal) else sql_of(value)
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3) or not all(0 <= number <= 1 for number in numbers):
        raise source.error(
            f"epsilon is a number from 0 to 1, or three of them for the three tables, not {text}", option
        )
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third
