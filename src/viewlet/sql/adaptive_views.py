"""Adaptive views: queries over joins of three or four tables, `WITH (strategy = 'adaptive', epsilon = 0.5)`.

    SELECT COUNT(*) FROM edges r, edges s, edges t WHERE r.dst = s.src AND s.dst = t.src AND t.dst = r.src

`epsilon` is one exponent for all tables, or one for each in the order of FROM: `epsilon = '0.5, 0, 1'`. With 'auto' it
is chosen from the degrees, so that the auxiliary views take no more than `memory = '64 MB'`. They take no more space
than the tables, unless `space = 'any'`. `rebalance_steps` bounds the steps of rebalancing after one update.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.algebra.join_sums import NotTriangleError
from viewlet.algebra.query import Query
from viewlet.algebra.recognise_split import is_split, recognise_split
from viewlet.algebra.recognise_triangle import recognise_triangle
from viewlet.algebra.split_query import SplitQuery
from viewlet.algebra.triangle_query import TriangleQuery
from viewlet.sql.source import Source, sql_of

ADAPTIVE = "adaptive"
DEFAULT = (0.5, 0.5, 0.5)
ADAPTIVE_OPTIONS = ("epsilon", "space", "memory", "rebalance_steps")
AUTO = "auto"
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}


@dataclass(frozen=True, slots=True)
class AdaptiveOptions:
    """The options of adaptive views, as they are written."""

    epsilon: exp.Expr | None = None
    space: exp.Expr | None = None
    memory: exp.Expr | None = None
    rebalance_steps: exp.Expr | None = None

    @property
    def given(self) -> dict[str, exp.Expr]:
        """The options that are there, by name."""
        return {name: option for name in ADAPTIVE_OPTIONS if (option := getattr(self, name)) is not None}


def bind_adaptive(definition: object, options: AdaptiveOptions, source: Source) -> TriangleQuery | SplitQuery:
    """The triangle of a query, or its join of four tables; an error names what else the query is."""
    chooses = options.epsilon is not None and _text(options.epsilon).lower() == AUTO
    exponents = DEFAULT if options.epsilon is None or chooses else _exponents(options.epsilon, source)
    memory = None if options.memory is None else _bytes(options.memory, chooses, source)
    linear = options.space is None or _is_linear(options.space, source)
    steps = 0 if options.rebalance_steps is None else _steps(options.rebalance_steps, source)
    try:
        if not isinstance(definition, Query):
            raise NotTriangleError("it calls a user-defined aggregate")
        if is_split(definition):
            return recognise_split(definition, _one_exponent(options, exponents, source))
        query = recognise_triangle(definition, exponents, linear)
        return replace(query, rebalance_steps=steps, chooses=chooses, memory=memory)
    except NotTriangleError as reason:
        hint = f"{reason}. It maintains sums and counts over joins of three tables, and of four; leave the strategy out"
        raise source.unsupported("strategy 'adaptive' for this view", None, hint) from None


def _one_exponent(options: AdaptiveOptions, exponents: tuple[float, ...], source: Source) -> float | None:
    """The only setting of a join of four tables."""
    for name, option in options.given.items():
        if name != "epsilon" or len(set(exponents)) > 1 or _text(option).lower() == AUTO:
            raise source.error("a join of four tables takes one number as epsilon, and no other option", option)
    return None if options.epsilon is None else exponents[0]


def _text(option: exp.Expr) -> str:
    value = option.args["value"]
    return str(value.name) if isinstance(value, exp.Literal) else str(sql_of(value))


def _is_linear(option: exp.Expr, source: Source) -> bool:
    text = _text(option).lower()
    if text not in ("linear", "any"):
        raise source.error(f"space is 'linear' or 'any', not {text}", option)
    return text == "linear"


def _bytes(option: exp.Expr, chooses: bool, source: Source) -> int:
    text = _text(option)
    number = text.rstrip("kmgbKMGB").strip()
    unit = text[len(text.rstrip("kmgbKMGB")) :].lower()
    if not number.isdecimal() or unit not in _UNITS:
        raise source.error(f"memory is a number of bytes, or one of KB, MB or GB such as '64 MB', not {text}", option)
    if not chooses:
        raise source.error("memory is for epsilon = 'auto', which is chosen so that the views fit it", option)
    return int(number) * _UNITS[unit]


def _steps(option: exp.Expr, source: Source) -> int:
    text = _text(option)
    if not text.isdecimal() or int(text) < 1:
        raise source.error(f"rebalance_steps is a number of steps, at least 1, not {text}", option)
    return int(text)


def _exponents(option: exp.Expr, source: Source) -> tuple[float, float, float]:
    text = _text(option)
    parts = text.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3) or not all(0 <= number <= 1 for number in numbers):
        raise source.error(
            f"epsilon is a number from 0 to 1, three of them for the three tables, or 'auto', not {text}", option
        )
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third
