"""ASOF joins of two streams for hosts that have none: every row of the left side with the last row of the right one.

s ASOF JOIN t ON s.g = t.g AND s.ts >= t.ts

events   the rows of t, and the times of s, in the order of time within g
n        how many rows of t an event has before it or beside it: the number of the row that it is joined with
t        the rows of t by their number, with the time that asked for them:  s.g = t.g AND s.ts = t.moment
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewlet.types import Table

_MOMENT, _NUMBER = "viewlet_moment", "viewlet_number"


@dataclass(frozen=True, slots=True)
class Sides:
    """The streams of a join, by the names that the query has for them."""

    left: Table
    right: Table
    left_name: str
    right_name: str

    def is_time(self, node: exp.Expr | None, side: str) -> bool:
        table, name = (self.left, self.left_name) if side == "left" else (self.right, self.right_name)
        assert table.parts is not None
        named = isinstance(node, exp.Column) and node.name.lower() == table.parts.time
        return named and isinstance(node, exp.Column) and node.table.lower() == name.lower()


@dataclass(frozen=True, slots=True)
class AsOf:
    """The condition of an ASOF join: columns of the right side with what they are equal to, and the order of times."""

    keys: tuple[tuple[str, exp.Expr], ...]
    is_strict: bool


def conjuncts(on: exp.Expr) -> list[exp.Expr]:
    return list(on.flatten()) if isinstance(on, exp.And) else [on]


def as_of(sides: Sides, on: exp.Expr) -> AsOf:
    """The condition of an ASOF join; ValueError says what it should be."""
    keys: list[tuple[str, exp.Expr]] = []
    orders: list[bool] = []
    for each in conjuncts(on):
        a, b = each.this, each.args.get("expression")
        if isinstance(each, exp.EQ):
            equal = [(x, y) for x, y in ((a, b), (b, a)) if isinstance(x, exp.Column) and x.table == sides.right_name]
            if not equal:
                raise ValueError(f"an equality of ASOF JOIN is with a column of {sides.right_name}")
            (column, other), *_ = equal
            assert other is not None
            keys.append((column.name.lower(), other))
        elif isinstance(each, exp.LTE | exp.LT) and sides.is_time(a, "right") and sides.is_time(b, "left"):
            orders.append(isinstance(each, exp.LT))
        elif isinstance(each, exp.GTE | exp.GT) and sides.is_time(a, "left") and sides.is_time(b, "right"):
            orders.append(isinstance(each, exp.GT))
    if len(orders) != 1 or len(keys) + 1 != len(conjuncts(on)):
        assert sides.left.parts is not None
        assert sides.right.parts is not None
        times = f"{sides.left_name}.{sides.left.parts.time} >= {sides.right_name}.{sides.right.parts.time}"
        raise ValueError(f"ASOF JOIN is ON equalities AND {times}")
    return AsOf(tuple(keys), orders[0])


def to_counted_join(
    node: exp.Select, sides: Sides, match: AsOf, rows: str, order: str
) -> tuple[exp.Select, Sides, str]:
    """The join with an equality of times in place of ASOF, and the rows of the right side that it reads.

    `rows` are those of the right side, as a query, and `order` breaks ties between them.
    """
    joined = node.copy()
    join = joined.args["joins"][0]
    join.set("method", None)
    kept = [each for each in conjuncts(join.args["on"]) if isinstance(each, exp.EQ)]
    assert sides.left.parts is not None
    asked = exp.EQ(
        this=exp.column(_MOMENT, sides.right_name, quoted=True),
        expression=exp.column(sides.left.parts.time, sides.left_name, quoted=True),
    )
    join.set("on", exp.and_(*kept, asked))
    joined.set("expressions", [named for each in joined.expressions for named in _named_columns(each, sides)])
    return joined, sides, _matched_rows(sides, match, rows, order)


def _named_columns(node: exp.Expr, sides: Sides) -> list[exp.Expr]:
    """The columns that a star stands for; anything else as it is."""
    if not node.is_star or not isinstance(node, exp.Star | exp.Column):
        return [node]
    wanted = node.table.lower() if isinstance(node, exp.Column) else ""
    tables = ((sides.left_name, sides.left), (sides.right_name, sides.right))
    return [
        exp.column(column.name, name, quoted=True)
        for name, table in tables
        if wanted in ("", name.lower())
        for column in table.columns
    ]


def _matched_rows(sides: Sides, match: AsOf, rows: str, order: str) -> str:
    """The rows of the right side with each time of the left one that they are the last before."""
    left, right = sides.left.parts, sides.right.parts
    assert left is not None
    assert right is not None
    names = [f"k{number}" for number in range(len(match.keys))]
    asked = "".join(f"{of.sql('duckdb')} AS {name}, " for name, (_, of) in zip(names, match.keys, strict=True))
    there = "".join(f"{_quoted(key)}, " for key, _ in match.keys)
    asks, is_row = (0, 1) if match.is_strict else (1, 0)
    events = (
        f"SELECT DISTINCT {asked}{_quoted(sides.left_name)}.{_quoted(left.time)} AS {_MOMENT}, {asks} AS place, 0 AS n "
        f"FROM {_quoted(sides.left.name)}[j] AS {_quoted(sides.left_name)} "
        f"UNION ALL SELECT {there}{_quoted(right.time)}, {is_row}, 1 FROM ({rows}) AS answers"
    )
    by = f"PARTITION BY {', '.join(names)} " if names else ""
    count = f"SUM(n) OVER ({by}ORDER BY {_MOMENT}, place ROWS UNBOUNDED PRECEDING) AS {_NUMBER}"
    counted = f"SELECT {''.join(f'{name}, ' for name in names)}{_MOMENT}, place, {count} FROM ({events}) AS events"
    by = f"PARTITION BY {there.removesuffix(', ')} " if names else ""
    numbered = f"SELECT *, ROW_NUMBER() OVER ({by}ORDER BY {order}) AS {_NUMBER} FROM ({rows}) AS answers"
    same = [f"answers.{_quoted(key)} = asks.{name}" for name, (key, _) in zip(names, match.keys, strict=True)]
    on = " AND ".join([*same, f"answers.{_NUMBER} = asks.{_NUMBER}"])
    shown = ", ".join(f"answers.{_quoted(column.name)}" for column in sides.right.columns)
    return (
        f"SELECT {shown}, asks.{_MOMENT} FROM (SELECT * FROM ({counted}) AS counted WHERE place = {asks}) AS asks "
        f"JOIN ({numbered}) AS answers ON {on}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
