"""How the parser's function nodes map to names of `builtins.FUNCTIONS`, and which nodes are refused by name."""

from __future__ import annotations

from sqlglot import exp

_THIS = ("this",)
_PAIR = ("this", "expression")
_MANY = ("this", "expressions")

FUNCTION_NODES: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Coalesce: ("coalesce", _MANY),
    exp.Nullif: ("nullif", _PAIR),
    exp.Least: ("least", _MANY),
    exp.Greatest: ("greatest", _MANY),
    exp.If: ("if", ("this", "true", "false")),
    exp.Upper: ("upper", _THIS),
    exp.Lower: ("lower", _THIS),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Length: ("length", _THIS),
    exp.StrPosition: ("position", ("this", "substr")),
    exp.Contains: ("contains", _PAIR),
    exp.StartsWith: ("starts_with", _PAIR),
    exp.EndsWith: ("ends_with", _PAIR),
    exp.Concat: ("concat", _MANY),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", _PAIR),
    exp.Right: ("right", _PAIR),
    exp.Reverse: ("reverse", _THIS),
    exp.Abs: ("abs", _THIS),
    exp.Neg: ("neg", _THIS),
    exp.Sign: ("sign", _THIS),
    exp.Floor: ("floor", _THIS),
    exp.Ceil: ("ceil", _THIS),
    exp.Round: ("round", ("this", "decimals")),
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


def arguments_of(node: exp.Expr, keys: tuple[str, ...]) -> list[exp.Expr]:
    """The arguments of a function node, in order; `keys` say where the parser keeps them."""
    values = [node.args.get(key) for key in keys]
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return [part for part in parts if isinstance(part, exp.Expr)]


def other_arguments(node: exp.Expr, keys: tuple[str, ...]) -> list[exp.Expr]:
    """Arguments the parser understood and we would otherwise ignore."""
    return [value for key, value in node.args.items() if key not in keys and isinstance(value, exp.Expr)]


UNSUPPORTED_NODES: dict[type[exp.Expr], str] = {
    exp.Array: "an array",
    exp.Bracket: "a subscript",
    exp.Struct: "a struct",
    exp.Explode: "unnest",
    exp.Unnest: "unnest",
    exp.Placeholder: "a parameter without a value",
    exp.Parameter: "a parameter without a value",
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
