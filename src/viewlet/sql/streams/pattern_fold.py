"""A pattern's helper for Spark SQL, whose recursive queries cannot rank rows: a fold over the rows of each group.

    aggregate(rows, runs of the part before, (runs, r) -> the longest of each state among
        the run that begins with r, and the runs that r continues)

The rows of a group are an array in the order of time; its live runs are an array of structs.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from viewlet.sql.streams.pattern_machine import conjunction
from viewlet.sql.streams.pattern_steps import PatternSql
from viewlet.types import Column


def to_fold(pattern: PatternSql, columns: Sequence[Column], has_past: bool) -> str:
    """All live runs after a part; `columns` are those of the helper, and `has_past` continues the runs before it."""
    keys, kept = pattern.keys, pattern.kept()
    types = {column.name: exp.DataType.build(str(column.type), dialect="duckdb").sql("spark") for column in columns}
    types.setdefault("state", "INT")
    fields = {_plain(name): types[_plain(name)] for name in kept}
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    ordered = f"({_spark(pattern.rows(numbered=True))}) AS numbered"
    members = ["k", *map(_name, (*_conditions(pattern), *_arguments(pattern)))]
    rows = ", ".join([*keys, f"sort_array(collect_list(struct({', '.join(members)}))) AS rows_of_group"])
    groups = f"(SELECT {rows} FROM {ordered}{grouped} HAVING COUNT(*) > 0) AS present"
    shape = f"ARRAY<STRUCT<{', '.join(f'{_name(name)}: {type}' for name, type in fields.items())}>>"
    before = f"CAST(array() AS {shape})"
    if has_past:
        closed = "" if pattern.machine.ends_open else f" WHERE state < {pattern.machine.states}"
        known = f"collect_list(struct({', '.join(map(_name, fields))})) AS runs_before"
        past = f"(SELECT {', '.join([*keys, known])} FROM {pattern.past('`')} AS past{closed}{grouped}) AS past"
        same = " AND ".join(f"present.{key} <=> past.{key}" for key in keys) or "TRUE"
        groups, before = f"{groups} LEFT JOIN {past} ON {same}", f"COALESCE(CAST(runs_before AS {shape}), {before})"
    after = f"aggregate(rows_of_group, {before}, (runs, r) -> {_step(pattern, fields)})"
    shown = ", ".join([*(f"present.{key}" for key in keys), f"inline({after})"])
    stored = [*keys, *(_name(_plain(column)) for column in kept if column != "state" or not pattern.is_counted)]
    return f"SELECT {', '.join(stored)} FROM (SELECT {shown} FROM {groups}) AS folded"


def _step(pattern: PatternSql, fields: dict[str, str]) -> str:
    """The runs after one more row `r`; each run is bound to `p` in turn."""
    machine, values = pattern.machine, pattern.values("r.", "p.")
    begins = f"CASE WHEN {conjunction(machine.enters[0])} THEN 1 END"
    moves = [
        f"WHEN p.state = {state} AND {conjunction(condition)} THEN {state + 1}"
        for state, condition in enumerate(machine.enters)
        if state
    ]
    repeats = [
        f"WHEN p.state = {state} AND {conjunction(stay)} THEN {state}"
        for state, stay in enumerate(machine.stays, 1)
        if stay is not None
    ]
    first, later = [value for value, _ in values], [value for _, value in values]
    continued = [_run(fields, f"CASE {' '.join(cases)} END", later) for cases in (moves, repeats) if cases]
    reached = f"array({_run(fields, begins, first)})"
    if continued:
        reached = f"concat({reached}, flatten(transform(runs, p -> array({', '.join(continued)}))))"
    alive = f"array_distinct(filter({reached}, p -> p.state IS NOT NULL))"
    same = "" if machine.keeps_one_run() else "q.state = p.state AND "
    tests = [f"NOT exists(alive, q -> {same}q.ct > p.ct)"]
    if not machine.ends_open:
        tests.append(f"(p.state = {machine.states} OR NOT exists(alive, q -> q.state = {machine.states}))")
    return f"transform(array({alive}), alive -> filter(alive, p -> {' AND '.join(tests)}))[0]"


def _run(fields: dict[str, str], state: str, values: Sequence[str]) -> str:
    """A run in a state, which is NULL where there is none."""
    found = zip(fields.items(), (state, *values), strict=True)
    return f"named_struct({', '.join(f'{_text(n)}, CAST({_scalar(value)} AS {type})' for (n, type), value in found)})"


def _conditions(pattern: PatternSql) -> list[str]:
    return [f"c_{name}" for name in pattern.columns]


def _arguments(pattern: PatternSql) -> list[str]:
    return [f"x_{name}" for name, _ in pattern.aggregates.values()]


def _plain(name: str) -> str:
    return name.removeprefix('"').removesuffix('"').replace('""', '"')


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return str(exp.Literal.string(value).sql("spark"))


def _scalar(sql: str) -> str:
    return _spark(f"SELECT {sql}").removeprefix("SELECT ")


def _spark(sql: str) -> str:
    return sqlglot.transpile(sql, read="duckdb", write="spark", comments=False)[0]
