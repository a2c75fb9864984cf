"""The SQL of a pattern's helper: from the live runs before a part, and its rows, to the live runs after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewlet.sql.streams.pattern_machine import Condition, Machine, conjunction
from viewlet.types import SqlType

_FIRST = {"COUNT": "CASE WHEN {x} IS NULL THEN 0 ELSE 1 END"}
_NEXT = {
    "SUM": "COALESCE({a} + {x}, {a}, {x})",
    "COUNT": "{a} + CASE WHEN {x} IS NULL THEN 0 ELSE 1 END",
    "MIN": "CASE WHEN {a} IS NULL OR {x} < {a} THEN {x} ELSE {a} END",
    "MAX": "CASE WHEN {a} IS NULL OR {x} > {a} THEN {x} ELSE {a} END",
}


@dataclass(frozen=True, slots=True)
class PatternSql:
    """The queries of one pattern. `groups` and `aggregates` are the columns of the helper by their SQL."""

    machine: Machine
    groups: Mapping[str, str]
    types: Sequence[SqlType]
    """The types of the groups."""
    aggregates: Mapping[str, tuple[str, str]]
    columns: Sequence[str]
    time: str
    breaks: Sequence[str]
    mark: str

    # -- pieces --------------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        return list(self.groups.values())

    def same(self, left: str, right: str) -> str:
        """Two rows are of the same group; casts tell a host the types of what it compares."""
        tests = [
            f"CAST({left}.{key} AS {type}) IS NOT DISTINCT FROM CAST({right}.{key} AS {type})"
            if type.nullable
            else f"{left}.{key} = {right}.{key}"
            for key, type in zip(self.keys, self.types, strict=True)
        ]
        return " AND ".join(tests) or "TRUE"

    def kept(self) -> list[str]:
        """The columns of a run: state, length, aggregates, and what is remembered of its last row."""
        return ["state", "ct", *(name for name, _ in self.aggregates.values()), *self._remembered()]

    def _remembered(self) -> list[str]:
        return [_quoted(f"before_{name}") for name in self.machine.remembered]

    def _compared(self) -> list[str]:
        """The columns of a row that conditions read, of itself or of the row before."""
        edges = [*self.machine.enters, *(stay for stay in self.machine.stays if stay is not None)]
        text = " ".join(each for edge in edges for each in edge).lower()  # names of columns have no case
        remembered = {name.lower() for name in self.machine.remembered}
        return [name for name in self.columns if _quoted(f"c_{name.lower()}") in text or name.lower() in remembered]

    def rows(self, numbered: bool) -> str:
        """The rows of the part: groups, columns of conditions (c_*), arguments of aggregates (x*), and their number."""
        shown = [f"{sql} AS {name}" for sql, name in self.groups.items()]
        shown += [
            f"{_quoted(name)} AS {_quoted(f'c_{name}')}" for name in (self.columns if numbered else self._compared())
        ]
        shown += [f"{argument} AS x_{name}" for name, argument in self.aggregates.values()]
        if numbered:
            order = [*([_quoted(self.time)] if self.time else []), *self.breaks, *map(_quoted, self.columns)]
            by = f"PARTITION BY {', '.join(self.groups)} " if self.groups else ""
            shown.append(f"ROW_NUMBER() OVER ({by}ORDER BY {', '.join(dict.fromkeys(order))}) AS k")
        return f'SELECT {", ".join(shown)} FROM "{self.mark}0" AS rows_'

    def values(self, row: str, run: str) -> list[tuple[str, str]]:
        """Length, aggregates and remembered columns of a run that begins with a row, and of one that it continues.

        `row` and `run` are what the names of their columns are qualified with.
        """
        found = [("CAST(1 AS BIGINT)", f"{run}ct + 1")]
        for key, (name, _) in self.aggregates.items():
            function, x = key.partition("(")[0], f"{row}x_{name}"
            first, step = _FIRST.get(function, "{x}"), _NEXT[function]
            found.append((first.format(x=x), step.format(x=x, a=f"{run}{name}")))
        return found + [(f"{row}{_quoted(f'c_{name}')}",) * 2 for name in self.machine.remembered]

    def _blank(self) -> list[str]:
        """A run that has not begun: NULLs of the types that rows give them."""
        found = ["0", "CAST(0 AS BIGINT)"]
        for key, (name, _) in self.aggregates.items():
            found.append("CAST(0 AS BIGINT)" if key.startswith("COUNT(") else f"CASE WHEN 1 = 0 THEN x_{name} END")
        return found + [f"CASE WHEN 1 = 0 THEN {_quoted(f'c_{name}')} END" for name in self.machine.remembered]

    # -- what is stored ------------------------------------------------------------------------------------------------

    @property
    def is_counted(self) -> bool:
        """The state of a run is its length, or the last state if it is longer: it is not stored."""
        return self.machine.keeps_one_run()

    def stored(self, query: str) -> str:
        """A query for runs with the columns of the helper."""
        if not self.is_counted:
            return query
        return f"SELECT {', '.join([*self.keys, *self.kept()[1:]])} FROM ({query}) AS counted"

    def past(self, quote: str = '"') -> str:
        """The runs before the part, with their states."""
        runs = f"{quote}{self.mark}1{quote}"
        if not self.is_counted:
            return runs
        return f"(SELECT *, CAST(LEAST(ct, {self.machine.states}) AS INTEGER) AS state FROM {runs} AS counted)"

    def accepted(self) -> str:
        """Which of the stored runs match the whole pattern."""
        return f"ct >= {self.machine.states}" if self.is_counted else f"state = {self.machine.states}"

    # -- queries -------------------------------------------------------------------------------------------------------

    def recursive(self, has_past: bool) -> str:
        """All live runs, row by row of each group; `has_past` continues those of the part before."""
        keys, kept = self.keys, self.kept()
        blank = (f"{value} AS {name}" for value, name in zip(self._blank(), kept, strict=True))
        idle = ", ".join([*keys, *blank, "CAST(0 AS BIGINT) AS k"])
        distinct = "DISTINCT " if keys else ""
        beginnings = f"SELECT {distinct}{idle} FROM ordered" + ("" if keys else " LIMIT 1")
        if has_past:
            closed = "" if self.machine.ends_open else f" WHERE state < {self.machine.states}"
            past = f"SELECT {', '.join([*keys, *kept])}, 0 FROM {self.past()} AS past{closed}"
            beginnings = f"({beginnings}) UNION ALL ({past})"
        last_keys = ", ".join([*keys, "MAX(k) AS last"])
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        shown = ", ".join([f"runs.{name}" for name in [*keys, *kept]])
        return (
            f"WITH RECURSIVE ordered AS ({self.rows(numbered=True)}), "
            f"runs({', '.join([*keys, *kept, 'k'])}) AS (({beginnings}) UNION ALL ({self._advance()})) "
            f"SELECT {shown} FROM runs JOIN (SELECT {last_keys} FROM ordered{grouped}) AS ends "
            f"ON {self.same('runs', 'ends')} AND runs.k = ends.last WHERE runs.state > 0"
        )

    def _advance(self) -> str:
        """The runs after one more row per group: move 0 waits for a beginning, 1 continues, 2 repeats a variable."""
        keys, kept = self.keys, self.kept()
        machine = self.machine
        cases = ["WHEN m = 0 AND p.state = 0 THEN 0"]
        for state, condition in enumerate(machine.enters):
            cases.append(f"WHEN m = 1 AND p.state = {state} AND {conjunction(condition)} THEN {state + 1}")
        for state, stay in enumerate(machine.stays, 1):
            if stay is not None:
                cases.append(f"WHEN m = 2 AND p.state = {state} AND {conjunction(stay)} THEN {state}")
        values = [
            f"CASE WHEN m = 0 THEN p.{name} WHEN p.state = 0 THEN {first} ELSE {step} END AS {name}"
            for name, (first, step) in zip(kept[1:], self.values("r.", "p."), strict=True)
        ]
        shown = ", ".join([*(f"r.{key}" for key in keys), f"CASE {' '.join(cases)} END AS state", *values, "r.k"])
        moves = "(VALUES (0), (1), (2)) AS moves(m)"
        joined = f"runs AS p JOIN ordered AS r ON {self.same('p', 'r')} AND r.k = p.k + 1 CROSS JOIN {moves}"
        reached = f"SELECT * FROM (SELECT {shown} FROM {joined}) AS moved WHERE state IS NOT NULL"
        same = "CASE WHEN state = 0 THEN 0 ELSE 1 END" if machine.keeps_one_run() else "state"
        by = ", ".join([*keys, same])
        ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY ct DESC) AS place"
        group = f"PARTITION BY {', '.join(keys)}" if keys else ""
        ranked += f", MAX(state) OVER ({group}) AS furthest FROM ({reached}) AS reached"
        tests = ["place = 1"]
        if not machine.ends_open:
            tests.append(f"(furthest < {machine.states} OR state IN (0, {machine.states}))")
        return f"SELECT {', '.join([*keys, *kept, 'k'])} FROM ({ranked}) AS ranked WHERE {' AND '.join(tests)}"

    def first(self) -> str:
        """The runs that begin, where a group has one row in the part."""
        begins = conjunction(self.machine.enters[0])
        values = [f"{first} AS {name}" for name, (first, _) in zip(self.kept()[1:], self.values("r.", ""), strict=True)]
        shown = ", ".join([*(f"r.{key}" for key in self.keys), "1 AS state", *values])
        return f"SELECT {shown} FROM ({self.rows(numbered=False)}) AS r WHERE {begins}"

    def single(self) -> str:
        """The one run of each group as it is stored, where a group has one row in the part.

        This is Algorithm 2 with its corrections.
        What all edges ask for is asked of the rows; a state whose edges ask for nothing else always moves.
        """
        machine, common = self.machine, self._common()
        moves = [(state, condition - common, state + 1) for state, condition in enumerate(machine.enters) if state]
        stay = machine.stays[-1]
        if stay is not None:
            moves.append((machine.states, stay - common, machine.states))
        begins = machine.enters[0] - common
        rows = f"SELECT * FROM ({self.rows(numbered=False)}) AS r{self._useful(common)}"
        is_moving = not begins and len(moves) == machine.states and not any(rest for _, rest, _ in moves)
        past = f'"{self.mark}1"' if is_moving and self.is_counted else self.past()
        joined = f"({rows}) AS r LEFT JOIN {past} AS p ON {self.same('r', 'p')}"
        return self._always_moving(moves, joined) if is_moving else self.stored(self._moving(moves, begins, joined))

    def _common(self) -> Condition:
        """The conjuncts on the new row alone that all edges have."""
        edges = [*self.machine.enters, *(stay for stay in self.machine.stays if stay is not None)]
        return frozenset(each for each in frozenset.intersection(*edges) if '"p".' not in each)

    def _always_moving(self, moves: Sequence[tuple[int, Condition, int]], joined: str) -> str:
        """Every row continues its run; a run begins exactly where none is known. As it is stored."""
        cases = " ".join(f"WHEN {state} THEN {target}" for state, _, target in moves)
        run_values = [
            step.format(x=f"r.x_{name}", a=f"COALESCE(p.{name}, 0)" if key.startswith("COUNT(") else f"p.{name}")
            for key, (name, _) in self.aggregates.items()
            for step in [_NEXT[key.partition("(")[0]]]
        ]
        remembered = [f"r.{_quoted(f'c_{name}')}" for name in self.machine.remembered]
        values = [f"CASE p.state {cases} ELSE 1 END", "COALESCE(p.ct, 0) + 1", *run_values, *remembered]
        kept = list(zip(values, self.kept(), strict=True))[self.is_counted :]
        shown = [f"{value} AS {name}" for value, name in kept]
        return f"SELECT {', '.join([*(f'r.{key}' for key in self.keys), *shown])} FROM {joined}"

    def _moving(self, moves: Sequence[tuple[int, Condition, int]], begins: Condition, joined: str) -> str:
        """The row continues a run, begins another one, or leaves the group without a run."""
        keys, kept = self.keys, self.kept()
        cases = [
            " AND ".join([f"WHEN p.state = {state}", *([conjunction(rest)] if rest else [])]) + f" THEN {target}"
            for state, rest, target in moves
        ]
        going = f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS INTEGER)"
        values = [
            f"CASE WHEN going IS NULL THEN {first} ELSE {step} END AS {name}"
            for name, (first, step) in zip(kept[1:], self.values("", ""), strict=True)
        ]
        inner = [f"r.{key}" for key in keys]
        inner += [f"r.{_quoted(f'c_{name}')}" for name in self._compared()]
        inner += [f"r.x_{name}" for name, _ in self.aggregates.values()]
        inner += ["p.ct", *(f"p.{name}" for name, _ in self.aggregates.values())]
        inner += [f"{going} AS going", f"CASE WHEN {conjunction(begins)} THEN 1 END AS begun"]
        shown = ", ".join([*keys, "COALESCE(going, begun) AS state", *values])
        tests = " WHERE going IS NOT NULL OR begun IS NOT NULL" if begins else ""
        return f"SELECT {shown} FROM (SELECT {', '.join(inner)} FROM {joined}) AS moved{tests}"

    def _useful(self, common: Condition) -> str:
        """The rows that some edge takes, as far as that does not depend on the row before."""
        stays = (stay for stay in self.machine.stays if stay is not None)
        rests = [each - common for each in (*self.machine.enters, *stays)]
        tests = sorted(common)
        if all(rests) and not self.machine.remembered:
            tests.append(f"({' OR '.join(dict.fromkeys(f'({conjunction(each)})' for each in rests))})")
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def rows_of_runs(self) -> str:
        """How many rows the groups of runs have in the part: as many as there are runs, if `single` is right."""
        keys = ", ".join(f"{sql} AS {name}" for sql, name in self.groups.items()) or "1 AS one"
        rows = f'SELECT {keys} FROM "{self.mark}0" AS rows_'
        return f'SELECT COUNT(*) AS n FROM ({rows}) AS r JOIN "{self.mark}1" AS p ON {self.same("r", "p")}'


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
