"""How the parser's function nodes map to names of `builtins.FUNCTIONS`, and which nodes are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Arguments = Callable[[Any], list[exp.Expr]]


def _arguments(*keys: str) -> Arguments:
    return lambda node: [node.args[key] for key in keys if node.args.get(key) is not None]


def _all(node: exp.Expr) -> list[exp.Expr]:
    first = [node.this] if isinstance(node.this, exp.Expr) else []
    return [*first, *node.expressions]


_THIS = _arguments("this")
_PAIR = _arguments("this", "expression")

FUNCTION_NODES: dict[type[exp.Expr], tuple[str, Arguments]] = {
    exp.Coalesce: ("coalesce", _all),
    exp.Nullif: ("nullif", _PAIR),
    exp.Least: ("least", _all),
    exp.Greatest: ("greatest", _all),
    exp.If: ("if", _arguments("this", "true", "false")),
    exp.Upper: ("upper", _THIS),
    exp.Lower: ("lower", _THIS),
    exp.Replace: ("replace", _arguments("this", "expression", "replacement")),
    exp.Length: ("length", _THIS),
    exp.StrPosition: ("position", _arguments("this", "substr")),
    exp.Contains: ("contains", _PAIR),
    exp.StartsWith: ("starts_with", _PAIR),
    exp.Concat: ("concat", _all),
    exp.Substring: ("substring", _arguments("this", "start", "length")),
    exp.Left: ("left", _PAIR),
    exp.Right: ("right", _PAIR),
    exp.Reverse: ("reverse", _THIS),
    exp.Abs: ("abs", _THIS),
    exp.Neg: ("neg", _THIS),
    exp.Sign: ("sign", _THIS),
    exp.Floor: ("floor", _THIS),
    exp.Ceil: ("ceil", _THIS),
    exp.Round: ("round", _arguments("this", "decimals")),
    exp.Sqrt: ("sqrt", _THIS),
    exp.Pow: ("power", _PAIR),
    exp.Ln: ("ln", _THIS),
    exp.Log: ("log", _PAIR),
    exp.Exp: ("exp", _THIS),
    exp.Year: ("year", _THIS),
    exp.Quarter: ("quarter", _THIS),
    exp.Month: ("month", _THIS),
    exp.Week: ("week", _THIS),
    exp.WeekOfYear: ("week", _THIS),
    exp.Day: ("day", _THIS),
    exp.DayOfMonth: ("day", _THIS),
    exp.DayOfWeek: ("dayofweek", _THIS),
    exp.DayOfWeekIso: ("isodow", _THIS),
    exp.DayOfYear: ("dayofyear", _THIS),
    exp.Hour: ("hour", _THIS),
    exp.Minute: ("minute", _THIS),
    exp.Second: ("second", _THIS),
}

UNSUPPORTED_NODES: dict[type[exp.Expr], str] = {
    exp.Array: "an array",
    exp.Bracket: "a subscript",
    exp.Struct: "a struct",
    exp.Explode: "unnest",
    exp.Unnest: "unnest",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Rand: "random(): its value would change between refreshes",
    exp.CurrentDate: "CURRENT_DATE: its value would change between refreshes",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP: its value would change between refreshes",
    exp.CurrentTime: "CURRENT_TIME: its value would change between refreshes",
    exp.Tuple: "a row value",
    exp.Lambda: "a lambda",
    exp.Star: "'*' in an expression",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Collate: "COLLATE",
    exp.SimilarTo: "SIMILAR TO",
    exp.Glob: "GLOB",
}
